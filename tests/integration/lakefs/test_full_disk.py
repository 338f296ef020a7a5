"""A server whose disk is full while an attempt uploads, commits or publishes.

A full block store is answered with an error. A full database ends the server: it writes through mapped memory.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.lakefs.world import FaultyWorld, check, faulty_world
from tests.unit.attempts.kit import WRITE
from tools.servers import lakefs_server
from tools.servers.fixtures import available, unavailable
from tools.servers.proxy import Fault, FaultProxy

from headgate.errors import DiskFull, HeadgateError, Transient

pytestmark = pytest.mark.real

SIZE = "32m"
REQUESTS = {
    "upload": r"/branches/headgate-staging-[^/]+/objects\?path=out",
    "commit": r"/branches/headgate-staging-[^/]+/commits",
    "merge": r"/refs/headgate-staging-[^/]+/merge/main",
}


@dataclass(frozen=True)
class SmallDisk:
    """A file system of a few megabytes, which can be filled to the last byte."""

    root: Path

    @property
    def _filler(self) -> Path:
        return self.root / "filler"

    def fill(self) -> None:
        """Take every block that is free, the last ones one by one."""
        fd = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (1 << 20, 1 << 12, 1):
                with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                    while True:
                        os.write(fd, bytes(size))
        finally:
            os.close(fd)

    def free(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    root = tmp_path / "disk"
    root.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("a small file system can be mounted by root alone")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "headgate-test", str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        if "permission denied" in done.stderr.lower() or "not permitted" in done.stderr.lower():
            pytest.skip(f"this machine lets nobody mount a file system: {done.stderr.strip()}")
        unavailable(f"a small file system cannot be mounted: {done.stderr.strip()}")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", str(root)], check=True)


@pytest.fixture
def small_blocks(disk: SmallDisk, tmp_path: Path) -> Iterator[FaultyWorld]:
    with (
        available(),
        lakefs_server(blocks=disk.root / "blocks") as server,
        faulty_world(server, tmp_path / "kit") as world,
    ):
        yield world


@pytest.fixture
def small_server(disk: SmallDisk, tmp_path: Path) -> Iterator[FaultyWorld]:
    folders = {"blocks": disk.root / "blocks", "metadata": disk.root / "metadata"}
    with available(), lakefs_server(**folders) as server, faulty_world(server, tmp_path / "kit") as world:
        yield world


def just_before(proxy: FaultProxy, request: str, action: Callable[[], object]) -> threading.Thread:
    """Do something when a request has left the client and has not reached the server."""
    armed = proxy.next("POST", request, Fault.HOLD_REQUEST)

    def act() -> None:
        if armed.arrived.wait(60):
            action()
        armed.release()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def fails_on_a_full_disk(world: FaultyWorld, disk: SmallDisk, request: str) -> tuple[str, BaseException | None, str]:
    """Run an attempt into a disk that is full from `request` on; its workflow, error and reason."""
    attempt = world.kit.submit(WRITE)
    acting = just_before(world.proxy, request, disk.fill)
    report = world.kit.run(WRITE, attempt)
    acting.join()
    assert report.status == "FAILED"
    assert report.output is None
    assert world.kit.orchestrator.task(attempt.id.task_id).status == "FAILED"
    return attempt.id.workflow, report.error, report.reason


@pytest.mark.parametrize("request_of", REQUESTS)
def test_a_block_store_without_space_fails_the_attempt_and_the_retry_succeeds(
    small_blocks: FaultyWorld, disk: SmallDisk, request_of: str
) -> None:
    world = small_blocks
    workflow, error, reason = fails_on_a_full_disk(world, disk, REQUESTS[request_of])
    assert isinstance(error, Transient if request_of == "merge" else DiskFull)
    assert "no space left on device" in reason
    assert world.server.running
    assert world.kit.head() == world.kit.input_ref
    disk.free()
    check(world, workflow)
    assert world.proxy.count("POST", REQUESTS["merge"]) == (2 if request_of == "merge" else 1)


@pytest.mark.parametrize("request_of", REQUESTS)
def test_a_server_without_any_space_fails_the_attempt_and_the_retry_succeeds(
    small_server: FaultyWorld, disk: SmallDisk, request_of: str
) -> None:
    """Blocks and database are on the same full disk: the server may answer an error, or may die of it."""
    world = small_server
    workflow, error, _ = fails_on_a_full_disk(world, disk, REQUESTS[request_of])
    assert isinstance(error, HeadgateError)
    disk.free()
    world.bounce()
    assert world.kit.head() == world.kit.input_ref
    check(world, workflow)
