"""The calls whose order decides what survives a power failure, behind one object.

A test hands in a `Disk` that records or refuses them. Faults of the file system come out as errors of ours.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.errors import AccessDenied, DiskFull, HeadgateError, InvalidInput, Transient
from headgate.failpoints import Failpoint, failpoint

_FULL = (errno.ENOSPC, errno.EDQUOT)
_SHOWN = 200
"""Characters of a name that is too long; the rest of the message must fit behind it."""
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_UNRELATED = 0x00020000


class Disk:
    """The disk as it is."""

    def write(self, fd: int, data: bytes | memoryview) -> None:
        """All of `data`."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        failpoint(Failpoint.DISK_CHANGED)

    def sync_file(self, fd: int) -> None:
        os.fsync(fd)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)
        failpoint(Failpoint.DISK_CHANGED)

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder last: renames are lost in a power failure without it."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def unlink(self, path: str) -> None:
        os.unlink(path)
        failpoint(Failpoint.DISK_CHANGED)


class UnsyncedDisk(Disk):
    """A disk nobody waits for: a killed process loses nothing, a power failure may."""

    def sync_file(self, fd: int) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass


DISK = Disk()


def disk_error(fault: OSError, path: str | Path, doing: str) -> HeadgateError:
    """What a fault of the file system means to a caller."""
    if fault.errno in _FULL:
        return DiskFull(
            message=f"no space is left to {doing} {path}", hint="free some space and try again", path=str(path)
        )
    if fault.errno in _DENIED:
        return AccessDenied(
            message=f"the system does not let this user {doing} {path}: {fault.strerror}",
            hint="grant the right, or choose another folder",
            right=doing,
        )
    if fault.errno == errno.ENAMETOOLONG:
        return InvalidInput(
            message=f"{str(path)[:_SHOWN]}… is too long a name for this disk",
            hint="rename it in the lake, or leave it out with the task's exclude",
        )
    return Transient(message=f"could not {doing} {path}: {fault.strerror or fault}", hint="try again")


def keep_apart(folder: Path | str) -> None:
    """Tell the file system that what lies in one folder of `folder` has nothing to do with what lies in another.

    ext4 then puts each of them into a part of the disk of its own. Without it, and without a journal, making a file
    where many were just removed takes ten times as long: ext4 does not use the place of a removed file again for a
    while, and looks through all of them for each new one. A file system that knows no such hint is left as it is.
    """
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = array.array("I", [0])
            fcntl.ioctl(fd, _GET_FLAGS, flags)
            if not flags[0] & _UNRELATED:
                flags[0] |= _UNRELATED
                fcntl.ioctl(fd, _SET_FLAGS, flags)
        finally:
            os.close(fd)


@contextmanager
def disk_faults(path: str | Path, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise disk_error(fault, path, doing) from fault
