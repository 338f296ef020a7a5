"""A log file that several processes write and rotate together."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path


class RotatingFile(logging.Handler):
    """Appends one line a record; a file that has grown to `max_bytes` becomes `NAME.1`, that one `NAME.2`, and so on.

    A line is one write to a file opened for appending, so lines of several processes do not mix. One process at a time
    rotates, under a lock; the others notice that the name stands for a new file, and go on there.
    """

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        super().__init__()
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = self._open()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).replace("\n", "\\n") + "\n"
            self._rotate_if_full()
            os.write(self._fd, line.encode("utf-8", "backslashreplace"))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self.acquire()
        try:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
        finally:
            self.release()
        super().close()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def _rotate_if_full(self) -> None:
        if self._moved():
            self._reopen()
        if os.fstat(self._fd).st_size < self._max_bytes:
            return
        with self._path.with_name(f"{self._path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._moved():  # nobody rotated while we waited
                for number in range(self._keep, 0, -1):
                    older = self._numbered(number - 1) if number > 1 else self._path
                    if older.exists():
                        older.replace(self._numbered(number))
            self._reopen()

    def _moved(self) -> bool:
        ours = os.fstat(self._fd)
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        return (ours.st_dev, ours.st_ino) != (named.st_dev, named.st_ino)

    def _reopen(self) -> None:
        fresh = self._open()
        os.close(self._fd)
        self._fd = fresh

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
