"""What a commit has answered lasts: by the order of calls, by power failures, by kill -9 at every call."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.unit.lake.disks import FullDisk, HookedDisk, PowerDisk

from headgate.errors import DiskFull, StoreDamaged, Transient
from headgate.lake import Changes, EmbeddedLake, LocalFile
from headgate.lake.disk import Disk
from headgate.publication import Ref

BIG = bytes(range(256)) * 9000  # more than one chunk


def make(folder: Path, disk: Disk) -> EmbeddedLake:
    with EmbeddedLake(folder, create=True) as plain:
        if "r" not in plain.repositories():
            plain.create_repository("r")
    return EmbeddedLake(folder, disk=disk)


def read(lake: EmbeddedLake, ref: Ref) -> dict[str, bytes]:
    found = {}
    for item in lake.objects("r", ref):
        with lake.open("r", ref, item.path) as file:
            found[item.path] = file.read()
    return found


def test_blobs_last_before_the_transaction_that_refers_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []
    connect = sqlite3.connect

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(lambda text: calls.append(("sql", text)))
        return connection

    (tmp_path / "big").write_bytes(BIG)
    lake = make(tmp_path / "lake", HookedDisk(after=lambda call, path: calls.append((call, path))))
    monkeypatch.setattr(sqlite3, "connect", traced)
    lake.close()  # its next use opens a traced connection
    with lake:
        lake.commit("r", "main", Changes(puts={"a": b"1", "b": b"2", "big": LocalFile(tmp_path / "big")}), message="m")
        names = [Path(lake.blobs.path(item.checksum)) for item in lake.objects("r", lake.head("r", "main").ref)]

    renames = [n for n, (call, _) in enumerate(calls) if call == "rename"]
    assert {calls[n][1] for n in renames} == {str(name) for name in names}
    writes = [n for n, (call, _) in enumerate(calls) if call == "write"]
    syncs = [n for n, (call, _) in enumerate(calls) if call == "sync_file"]
    assert len(syncs) == len(names) == 3
    for rename in renames:
        folder = str(Path(calls[rename][1]).parent)
        synced = [n for n, (call, path) in enumerate(calls) if call == "sync_folder" and path == folder]
        assert synced
        assert synced[-1] > rename
    for sync in syncs:
        written = [n for n in writes if calls[n][1] == calls[sync][1]]
        assert written
        assert max(written) < sync
        assert sync < max(renames)
    (committed,) = [n for n, call in enumerate(calls) if call == ("sql", "COMMIT")]
    assert max(n for n, (call, _) in enumerate(calls) if call == "sync_folder") < committed
    pragmas = [text for call, text in calls[:committed] if call == "sql" and "synchronous" in text]
    assert pragmas[-1] == "PRAGMA synchronous = FULL"


@pytest.mark.parametrize(("forgets", "whole"), [("", True), ("sync_file", False), ("sync_folder", False)])
def test_a_power_failure_takes_nothing_that_was_answered(tmp_path: Path, forgets: str, whole: bool) -> None:
    """With a disk that only pretends to synchronise the loss shows: the test can fail."""
    (tmp_path / "big").write_bytes(BIG)
    disk = PowerDisk(forgets=forgets)
    with make(tmp_path / "lake", disk) as lake:
        puts = {f"f{n}": f"{n}".encode() for n in range(70)}
        ref = lake.commit("r", "main", Changes(puts={**puts, "big": LocalFile(tmp_path / "big")}), message="m")
    disk.fail(tmp_path / "lake")
    with EmbeddedLake(tmp_path / "lake") as lake:
        assert lake.verify().whole is whole
        assert lake.head("r", "main").ref == ref


def in_child(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *args], capture_output=True, text=True, timeout=120, check=False
    )


COMMIT_AND_DIE = """
    import sys
    from pathlib import Path
    from headgate.lake import Changes, EmbeddedLake, LocalFile
    from tests.unit.lake.disks import KillingDisk
    folder, at = Path(sys.argv[1]), int(sys.argv[2])
    with EmbeddedLake(folder / "lake", disk=KillingDisk(at)) as lake:
        puts = {"a": b"new", "b": b"new too", "big": LocalFile(folder / "big")}
        print(lake.commit("r", "main", Changes(puts=puts, deletes=["old"]), message="m"), flush=True)
"""


@pytest.mark.slow
def test_killed_at_every_call_leaves_the_old_head_or_the_new(tmp_path: Path) -> None:
    """Invariant 1: a commit is there whole or not at all, and the same commit can be made again."""
    (tmp_path / "big").write_bytes(BIG)
    killed = 0
    for at in range(1, 100):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "big").hardlink_to(tmp_path / "big")
        with make(folder / "lake", Disk()) as lake:
            before = lake.commit("r", "main", Changes(puts={"old": b"old"}), message="before")
        done = in_child(COMMIT_AND_DIE, str(folder), str(at))
        with EmbeddedLake(folder / "lake") as lake:
            assert lake.verify().whole
            head = lake.head("r", "main").ref
            if done.returncode == 0:
                assert head == done.stdout.strip()
                break
            assert done.returncode == -signal.SIGKILL, done.stderr
            killed += 1
            assert head == before
            lake.gc()
            assert not list((folder / "lake" / "incoming").iterdir())
            assert not list((folder / "lake" / "leases").iterdir())
            again = lake.commit("r", "main", Changes(puts={"a": b"new"}, deletes=["old"]), message="m")
            assert read(lake, again) == {"a": b"new"}
    else:
        pytest.fail("it never got through")
    assert killed >= 9  # three blobs, each written, synchronised, renamed; then folders


COMMIT_FOREVER = """
    import sys
    from headgate.lake import Changes, EmbeddedLake
    with EmbeddedLake(sys.argv[1]) as lake:
        number = 0
        while True:
            number += 1
            print(lake.commit("r", "main", Changes(puts={"n": str(number).encode()}), message="m"), flush=True)
"""


@pytest.mark.slow
def test_every_answered_commit_survives_kill_9(tmp_path: Path) -> None:
    make(tmp_path / "lake", Disk()).close()
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(COMMIT_FOREVER), str(tmp_path / "lake")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        answered = [child.stdout.readline().strip() for _ in range(7)]
        child.kill()
        answered += child.stdout.read().split()
        child.wait()
        child.stdout.close()
        with EmbeddedLake(tmp_path / "lake") as lake:
            known = [commit.ref for commit in lake.log("r", lake.head("r", "main").ref)]
            assert set(answered) <= set(known)
            assert lake.verify().whole


@pytest.mark.parametrize("call", ["write", "sync_file", "rename", "sync_folder"])
def test_a_full_disk_is_said_and_nothing_is_committed(tmp_path: Path, call: str) -> None:
    """Invariant 9."""
    with make(tmp_path / "lake", FullDisk(call)) as lake:
        before = lake.head("r", "main").ref
        with pytest.raises(DiskFull):
            lake.commit("r", "main", Changes(puts={"a": b"1", "b": b"2"}), message="m")
        assert lake.head("r", "main").ref == before
        assert not list((tmp_path / "lake" / "incoming").iterdir())
        assert not list((tmp_path / "lake" / "leases").iterdir())
    with EmbeddedLake(tmp_path / "lake") as lake:
        lake.commit("r", "main", Changes(puts={"a": b"1", "b": b"2"}), message="m")
        assert lake.verify().whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A real disk of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1536k", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_really_full_disk(small_disk: Path) -> None:
    with make(small_disk / "lake", Disk()) as lake:
        before = lake.commit("r", "main", Changes(puts={"a": b"1"}), message="m")
        with pytest.raises(DiskFull):
            for number in range(40):
                before = lake.commit("r", "main", Changes(puts={f"b{number}": os.urandom(100_000)}), message="m")
        assert lake.head("r", "main").ref == before
        assert lake.verify().whole


def test_a_damaged_database_is_said(tmp_path: Path) -> None:
    make(tmp_path / "lake", Disk()).close()
    (tmp_path / "lake" / "lake.db").write_bytes(b"this was a database" * 1000)
    for leftover in (tmp_path / "lake").glob("lake.db-*"):
        leftover.unlink()
    with pytest.raises(StoreDamaged, match=r"lake\.db"):
        EmbeddedLake(tmp_path / "lake")


def test_a_locked_database_is_waited_for_and_then_said(tmp_path: Path) -> None:
    make(tmp_path / "lake", Disk()).close()
    holder = sqlite3.connect(tmp_path / "lake" / "lake.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with EmbeddedLake(tmp_path / "lake", busy_seconds=0.05) as lake:
            before = lake.head("r", "main").ref  # readers do not wait
            with pytest.raises(Transient, match="locked"):
                lake.commit("r", "main", Changes(puts={"a": b"1"}), message="m")
            holder.execute("ROLLBACK")
            assert lake.head("r", "main").ref == before
            lake.commit("r", "main", Changes(puts={"a": b"1"}), message="m")
    finally:
        holder.close()
