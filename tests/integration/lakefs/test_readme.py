"""What the README says about lakeFS, on a real one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.docs.examples import ROOT, Page
from tools.servers import Server

from headgate.lake import Changes
from headgate.lake.lakefs import Endpoint, LakeFSLake

pytestmark = pytest.mark.real


def test_the_readmes_task_runs_on_lakefs_under_a_hard_fence_by_its_profile(lakefs: Server, tmp_path: Path) -> None:
    page = Page(ROOT / "README.md", tmp_path)
    for example in page.examples():
        if re.match(r"# \S+\.(py|toml)\n", example.parsed):
            example.evaluate()
    endpoint = Endpoint(url=lakefs.url, access_key_id=lakefs.access_key, secret_access_key=lakefs.secret_key)
    lake = LakeFSLake(endpoint)
    lake.create_repository("songs")
    lake.commit("songs", "main", Changes(puts={"songs/Nina/Sinnerman.flac": b"..."}), message="a song")
    (commands,) = re.findall(r"```sh\n(export LAKECTL.*?)```", page.path.read_text(), flags=re.S)
    page.environment |= {
        "LAKECTL_SERVER_ENDPOINT_URL": lakefs.url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs.access_key,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs.secret_key,
    }
    for command in commands.splitlines()[1:]:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=page.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    head = lake.head("songs", "main")
    assert head.metadata["headgate.strength"] == "hard"
    with lake.open("songs", head.ref, "songs/Nina.txt") as stream:
        assert stream.read() == b"Sinnerman"
