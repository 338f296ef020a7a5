"""Leases: how a living reader or writer keeps upkeep away from what it uses.

A lease is a file that its owner holds with `flock`; the system lets go of it when the owner dies, however it dies. In
the file stand the names of what is in use. Leases make upkeep considerate; that no commit points at something upkeep
took is decided elsewhere, under the database's write lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.ids import ULIDS, IdSource
from headgate.lake.disk import disk_faults


class Lease:
    """A held lease. Pins are lines; they need no synchronising, since they mean nothing once the owner is gone."""

    def __init__(self, id_: str, fd: int) -> None:
        self.id = id_
        self._fd = fd
        self._guard = threading.Lock()

    def pin(self, names: Iterable[str]) -> None:
        data = "".join(f"{name}\n" for name in names).encode()
        with self._guard:
            while data:
                data = data[os.write(self._fd, data) :]


class Leases:
    """The leases of one store, in a folder of their own."""

    def __init__(self, folder: Path, *, ids: IdSource = ULIDS) -> None:
        self._folder = str(folder)
        self._ids = ids

    @contextmanager
    def hold(self, pins: Iterable[str] = ()) -> Iterator[Lease]:
        with disk_faults(self._folder, "write a lease in"):
            id_, fd = self._take()
        try:
            lease = Lease(id_, fd)
            lease.pin(pins)
            yield lease
        finally:
            self._remove(id_)
            os.close(fd)

    def _take(self) -> tuple[str, int]:
        while True:
            id_ = self._ids.new()
            fd = os.open(self._path(id_), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                return id_, fd
            os.close(fd)  # upkeep found it in the instant before it was held

    def living(self) -> dict[str, set[str]]:
        """The pins of every lease whose owner lives, by its id; the leases of the dead are removed."""
        found: dict[str, set[str]] = {}
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries]
        for id_ in names:
            pins = self._pins_if_living(id_)
            if pins is not None:
                found[id_] = pins
        return found

    def _pins_if_living(self, id_: str) -> set[str] | None:
        try:
            fd = os.open(self._path(id_), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return set(_whole(fd).decode().split())
            self._remove(id_)
            return None
        finally:
            os.close(fd)

    def _path(self, id_: str) -> str:
        return f"{self._folder}/{id_}"

    def _remove(self, id_: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path(id_))


def _whole(fd: int) -> bytes:
    """All that is in a file, whose name may be gone already."""
    parts, at = [], 0
    while part := os.pread(fd, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
