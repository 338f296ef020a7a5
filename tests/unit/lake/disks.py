"""Disks for tests: one that writes down what is asked of it, one whose power can fail, one that stops or is full."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

from headgate.lake.disk import Disk


def _name_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


class HookedDisk(Disk):
    """The real disk; `before` and `after` hear of every call with its name and path."""

    def __init__(
        self,
        *,
        before: Callable[[str, str], None] = lambda call, path: None,
        after: Callable[[str, str], None] = lambda call, path: None,
    ) -> None:
        self._before, self._after = before, after

    def write(self, fd: int, data: bytes | memoryview) -> None:
        path = _name_of(fd)
        self._before("write", path)
        super().write(fd, data)
        self._after("write", path)

    def sync_file(self, fd: int) -> None:
        path = _name_of(fd)
        self._before("sync_file", path)
        super().sync_file(fd)
        self._after("sync_file", path)

    def rename(self, old: str, new: str) -> None:
        self._before("rename", new)
        super().rename(old, new)
        self._after("rename", new)

    def sync_folder(self, path: str) -> None:
        self._before("sync_folder", path)
        super().sync_folder(path)
        self._after("sync_folder", path)


class PowerDisk(Disk):
    """Keeps in mind what a power failure would take: bytes not synchronised, and names in folders not synchronised."""

    def __init__(self, *, forgets: str = "") -> None:
        self._forgets = forgets  # a call that this disk only pretends to do
        self._unsynced: dict[int, str] = {}
        self._names: dict[str, set[str]] = {}

    def write(self, fd: int, data: bytes | memoryview) -> None:
        super().write(fd, data)
        self._unsynced[os.fstat(fd).st_ino] = ""

    def sync_file(self, fd: int) -> None:
        super().sync_file(fd)
        if self._forgets != "sync_file":
            self._unsynced.pop(os.fstat(fd).st_ino, None)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._names.setdefault(os.path.dirname(new), set()).add(new)

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        if self._forgets != "sync_folder":
            self._names.pop(path, None)

    def fail(self, folder: Path) -> None:
        """Lose everything that was not made to last."""
        for name in set().union(*self._names.values()):
            os.unlink(name)
        for file in folder.rglob("*"):
            if file.is_file() and file.stat().st_ino in self._unsynced:
                file.chmod(0o644)
                file.write_bytes(bytes(file.stat().st_size))


class KillingDisk(HookedDisk):
    """Kills its process just before the n-th call."""

    def __init__(self, at: int) -> None:
        self._left = at
        super().__init__(before=self._count)

    def _count(self, call: str, path: str) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class FullDisk(HookedDisk):
    """Has no space left for any call of the given name."""

    def __init__(self, call: str) -> None:
        self._call = call
        super().__init__(before=self._refuse)

    def _refuse(self, call: str, path: str) -> None:
        if call == self._call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
