"""The local workspace: its marker, its lock, and what a disk may do to it."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.attempts.kit import WRITE, Kit, Params, Result, at, declared, run_in_child
from tests.unit.attempts.test_names import polled

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.workspace import MARKER, Marker, locked, open_workspace, remove_tree
from headgate.errors import DiskFull, InvalidSettings, NotFound, RecoveryRequired
from headgate.failpoints import Failpoint


@pytest.fixture
def marker() -> Marker:
    return Marker.of(polled(), execution="01EXECUTION", now=datetime(2026, 1, 1, tzinfo=UTC))


def test_the_marker_lies_beside_the_user_s_root_and_tells_whose_it_is(kit: Kit) -> None:
    seen: dict[str, object] = {}

    def look() -> None:
        [folder] = kit.workspaces()
        seen.update(json.loads((folder / MARKER).read_text()))
        assert not (folder / "root" / MARKER).exists()

    with at(Failpoint.ATTEMPT_STAGED, look):
        report = kit.run(WRITE)
    assert seen["execution"] == report.execution
    assert (seen["workflow"], seen["task_id"]) == (report.attempt.workflow, report.attempt.task_id)
    assert (seen["retry_count"], seen["pid"], seen["worker"]) == (0, os.getpid(), report.attempt.worker_id)
    assert seen["process_started"]


def test_the_lock_is_held_while_the_worker_lives(tmp_path: Path, marker: Marker) -> None:
    with Cleanup() as cleanup:
        workspace = open_workspace(cleanup, tmp_path / "work", marker)
        with locked(workspace.folder) as free:
            assert not free
        assert Marker.read(workspace.folder) == marker
    assert list((tmp_path / "work").iterdir()) == []


def test_the_lock_of_a_dead_process_can_be_had(kit: Kit) -> None:
    code = "with at(Failpoint.ATTEMPT_BEFORE_DOWNLOAD, die):\n    kit.run(WRITE)"
    assert run_in_child(code, kit.folder) == -signal.SIGKILL
    [folder] = kit.workspaces()
    assert Marker.read(folder).pid != os.getpid()
    with locked(folder) as free:
        assert free
        with locked(folder) as twice:
            assert not twice


def test_a_folder_without_a_marker_is_never_free(tmp_path: Path) -> None:
    with locked(tmp_path) as free:
        assert not free
    with pytest.raises(NotFound):
        Marker.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "\x00"])
def test_a_marker_that_is_not_json_is_told_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(RecoveryRequired, match="damaged"):
        Marker.read(tmp_path)
    assert (tmp_path / MARKER).read_text() == text


def test_a_root_that_is_a_file_is_a_wrong_setting(tmp_path: Path, marker: Marker) -> None:
    (tmp_path / "work").write_text("")
    with Cleanup() as cleanup, pytest.raises(InvalidSettings, match="not a folder"):
        open_workspace(cleanup, tmp_path / "work", marker)


def test_remove_tree_takes_what_a_body_locked_and_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    tree = tmp_path / "tree"
    (tree / "closed").mkdir(parents=True)
    (tree / "closed/file").write_text("x")
    (tree / "link").symlink_to(outside)
    (tree / "closed").chmod(0o500)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "kept.txt").read_text() == "kept"
    remove_tree(tree)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of two megabytes; skipped where this user may not mount one."""
    import ctypes

    folder = tmp_path / "small"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=2m") != 0:
        pytest.skip(f"no small disk can be mounted: {os.strerror(ctypes.get_errno())}")
    yield folder
    libc.umount2(str(folder).encode(), 2)


def test_a_disk_that_fills_during_the_body_fails_the_attempt_alone(kit: Kit, small_disk: Path) -> None:
    """Invariant 9: nothing is lost, nothing is published, and the next attempt works."""

    def greedy(workspace: Path, params: Params) -> Result:
        with (workspace / "big").open("wb") as file:
            for _ in range(8):
                file.write(b"x" * 1024**2)
        return Result(files=1)

    report = kit.with_options(workspace_root=small_disk / "work").run(declared(greedy))
    assert report.status == "FAILED"
    assert isinstance(report.error, OSError)
    assert report.error.errno == errno.ENOSPC
    assert kit.head() == kit.input_ref
    assert list((small_disk / "work").glob("0*")) == []
    assert kit.run(WRITE).ok


def test_a_disk_that_is_full_at_download_is_told(kit: Kit, small_disk: Path) -> None:
    with suppress(OSError):
        (small_disk / "filler").write_bytes(b"x" * 4 * 1024**2)
    report = kit.with_options(workspace_root=small_disk / "work").run(WRITE)
    assert report.status == "FAILED"
    assert isinstance(report.error, DiskFull)
    assert str(report.phase) == "download"
    assert report.error.hint
