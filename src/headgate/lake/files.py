"""Moving bytes between files: clones, bounded reads, digests."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from blake3 import blake3

from headgate.errors import Transient
from headgate.lake.disk import disk_faults

WORKERS = 8
"""Threads that read, write and synchronise: a disk's flush is shared by the files that wait for one at that moment."""

CHUNK = 1 << 20
"""The most bytes of one file held in memory at once."""

T = TypeVar("T")
R = TypeVar("R")

_FICLONE = 0x40049409
_CANNOT_CLONE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EBADF)


def clone(source: int, target: int) -> bool:
    """Let `target`, an empty open file, share the blocks of `source` until either is written; False if it cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as fault:
        if fault.errno in _CANNOT_CLONE:
            return False
        raise
    return True


def read_some(fd: int, limit: int) -> bytes:
    """Up to `limit` bytes: fewer only at the end of the file."""
    data = os.read(fd, limit)
    if len(data) == limit or not data:
        return data
    parts = [data]
    got = len(data)
    while got < limit and (more := os.read(fd, limit - got)):
        parts.append(more)
        got += len(more)
    return b"".join(parts) if len(parts) > 1 else data


def digest_of(path: Path) -> str:
    """The BLAKE3 digest of a file's bytes."""
    with disk_faults(path, "read"):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            digest = blake3()
            buffer = memoryview(bytearray(CHUNK))
            while count := os.readv(fd, [buffer]):
                digest.update(buffer[:count])
            return digest.hexdigest()
        finally:
            os.close(fd)


def in_parallel(work: Callable[[T], R], items: Sequence[T], *, workers: int = WORKERS) -> list[R]:
    """The results in order; the first error ends what has not begun. A single item is done in this thread."""
    if len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(workers, len(items)), thread_name_prefix="headgate-lake") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def changed_meanwhile(name: str) -> Transient:
    return Transient(
        message=f"{name} changed while it was being staged",
        hint="end threads and child processes that write files before the task returns",
    )
