"""The songs example runs unchanged on the embedded parts, and on Conductor with lakeFS: one command each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_shipped import WORKFLOW as RELEASE
from tools.servers import Server

ROOT = Path(__file__).parents[2]
MODULE = "examples.songs.tasks"
COMMAND = ("run", "examples/songs/workflow.json", "--tasks", MODULE, "--on", "songs@main", "--json")
SETTINGS = """
[stores.songs]
lake = "embedded"
[profile.real]
orchestrator = "conductor"
[profile.real.stores.songs]
lake = "lakefs"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example as it is, and settings that name the embedded parts and, as a profile, the servers."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "headgate.toml").write_text(SETTINGS)
    return tmp_path


def headgate(project: Path, *args: str, **variables: str) -> Any:
    """A command line as a person runs it; what it printed, as JSON if it is."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("HEADGATE_", "CONDUCTOR_"))}
    env = {**known, "PYTHONPATH": str(ROOT / "src"), **variables}
    line = [sys.executable, "-m", "headgate.cli.main", *args]
    done = subprocess.run(line, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in args else done.stdout


def check(ran: dict[str, Any], log: list[dict[str, Any]]) -> None:
    """Each step is one commit on the branch, and the last of them is what the workflow says."""
    assert ran["status"] == "COMPLETED"
    published = [task["published"] for task in ran["tasks"]]
    assert [commit["ref"] for commit in log][: len(published)] == list(reversed(published))
    assert ran["output"]["workspace"]["ref"] == published[-1]
    assert ran["output"]["built"]["songs"] == ran["output"]["ingested"]["songs"] > 0


@pytest.mark.slow
def test_songs_on_the_embedded_parts(project: Path) -> None:
    headgate(project, "lake", "init", "songs")
    ran = headgate(project, *COMMAND)
    check(ran, headgate(project, "log", "songs", "--json"))


@pytest.fixture
def servers(conductor: Server, lakefs: Server) -> dict[str, str]:
    """The environment under which the same project runs on both servers."""
    return {
        "HEADGATE_PROFILE": "real",
        "HEADGATE_OWNER_EMAIL": "songs@example.org",
        "HEADGATE_CONDUCTOR_SERVER_URL": conductor.facts["api"],
        "HEADGATE_LAKEFS_ENDPOINT": lakefs.url,
        "HEADGATE_LAKEFS_ACCESS_KEY_ID": lakefs.access_key,
        "HEADGATE_LAKEFS_SECRET_ACCESS_KEY": lakefs.secret_key,
    }


@pytest.mark.real
def test_songs_and_the_shipped_tasks_on_conductor_and_lakefs(project: Path, servers: dict[str, str]) -> None:
    headgate(project, "lake", "init", "songs", **servers)
    ran = headgate(project, *COMMAND, "-j", "1", **servers)
    check(ran, headgate(project, "log", "songs", "--json", **servers))

    headgate(project, "branch", "create", "songs@draft", **servers)
    headgate(project, "lake", "put", "headgate.toml", "songs@draft", "notes.txt", **servers)
    (project / "release.json").write_text(json.dumps(RELEASE))
    line = ("run", "release.json", "--tasks", "headgate.shipped", "--json", "-j", "1")
    released = headgate(project, *line, "--input", '{"from": "draft", "to": "songs@main"}', **servers)
    assert released["status"] == "COMPLETED"
    [last, before, *_] = headgate(project, "log", "songs", "--json", **servers)
    assert (last["ref"], before["ref"]) == (released["output"]["workspace"]["ref"], ran["output"]["workspace"]["ref"])
    assert headgate(project, "lake", "cat", "songs@main", "notes.txt", **servers) == SETTINGS
