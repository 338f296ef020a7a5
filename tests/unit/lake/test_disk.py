"""Where the file system puts what belongs to different workspaces."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.workspace import Marker, open_workspace
from headgate.lake.cache import Cache
from headgate.lake.disk import keep_apart


@pytest.fixture
def ext4() -> Iterator[Path]:
    """A folder on ext4, wherever temporary files lie."""
    for place in ("/var/tmp", "/tmp"):
        told = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True, check=False)
        if told.stdout.strip() == "ext2/ext3":
            with tempfile.TemporaryDirectory(dir=place) as name:
                yield Path(name)
            return
    pytest.skip("there is no ext4 here")


def is_marked(folder: Path) -> bool:
    told = subprocess.run(["lsattr", "-d", folder], capture_output=True, text=True, check=True)
    return "T" in told.stdout.split()[0]


def test_workspaces_and_the_cache_are_kept_apart_where_the_file_system_can(ext4: Path) -> None:
    marker = Marker(
        execution="e",
        orchestrator="o",
        workflow="w",
        task="t",
        task_id="i",
        retry_count=0,
        worker="w",
        pid=1,
        process_started="",
        started_at="",
    )
    assert not is_marked(ext4)
    for _ in range(2):
        with Cleanup() as cleanup:
            open_workspace(cleanup, ext4 / "work", marker)
        assert is_marked(ext4 / "work")
    Cache(ext4 / "cache").close()
    assert is_marked(ext4 / "cache")


def test_a_file_system_that_knows_no_such_hint_is_left_alone(tmp_path: Path) -> None:
    keep_apart("/proc/self")
    keep_apart(tmp_path / "nowhere")
