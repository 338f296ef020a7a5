"""The one door into user code, and what a body may leave behind in the process it ran in.

A body runs in the process of its attempt. It may change the working folder, start threads and children, print and log
as it likes: the folder is put back, what goes on without it is named in the log, what it printed is kept beside the
workspace. It cannot end the process: `sys.exit` in a body is a failure of that body.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from headgate.logs import FactsFormatter
from headgate.tasks.signals import TaskFailed

log = logging.getLogger(__name__)

KEPT_BYTES = 10 * 1024 * 1024
"""How much of what a body prints and logs is kept; it may print more."""


@contextmanager
def body_boundary(*, task: str, kept_at: Path, logger: logging.Logger | None = None) -> Iterator[None]:
    """Run user code inside, and nowhere else: bodies and guardrails. What it raises passes.

    What it prints through `sys.stdout` and `sys.stderr`, and logs on `logger`, also goes to the file `kept_at`.
    """
    with ExitStack() as undo:
        undo.enter_context(_working_folder_kept())
        undo.enter_context(_named_if_left_behind(task))
        undo.enter_context(_output_kept(kept_at, logger))
        try:
            yield
        except SystemExit as stop:
            raise TaskFailed(f"the body ended the program: sys.exit({stop.code!r})") from stop


@contextmanager
def _working_folder_kept() -> Iterator[None]:
    # A descriptor leads back even if the body renames or removes the folder.
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        yield
    finally:
        os.fchdir(fd)
        os.close(fd)


@contextmanager
def _named_if_left_behind(task: str) -> Iterator[None]:
    threads, children = set(threading.enumerate()), _children()
    try:
        yield
    finally:
        if left := [thread.name for thread in threading.enumerate() if thread not in threads and not thread.daemon]:
            log.warning("task %s left threads running: %s; end them before the body returns", task, ", ".join(left))
        if running := _children() - children:
            pids = ", ".join(map(str, sorted(running)))
            log.warning("task %s left processes running: %s; what they still write is not published", task, pids)


def _children() -> set[int]:
    """The pids of this process's children; empty where the system cannot tell quickly."""
    found: set[int] = set()
    try:
        for listed in Path("/proc/self/task").iterdir():
            found.update(map(int, (listed / "children").read_text().split()))
    except OSError:
        return set()
    return found


@contextmanager
def _output_kept(kept_at: Path, logger: logging.Logger | None) -> Iterator[None]:
    kept = _Kept(kept_at)
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Tee(stdout, kept), _Tee(stderr, kept)
    handler = _ToKept(kept)
    if logger is not None:
        logger.addHandler(handler)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        if logger is not None:
            logger.removeHandler(handler)
        kept.close()


class _Kept:
    """A file that begins with the first write, takes so much and no more, and never fails its writer."""

    def __init__(self, path: Path) -> None:
        self._path, self._room, self._closed = path, KEPT_BYTES, False
        self._file: io.BufferedWriter | None = None
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        data = text.encode(errors="replace")
        with self._lock:
            if self._closed or self._room <= 0:
                return
            try:
                self._file = self._file or self._path.open("ab")
                self._file.write(data[: self._room])
            except OSError:
                self._room = 0  # a full disk must not become an error of the body's print
                return
            self._room -= len(data)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._file is not None:
                try:
                    self._file.close()
                except OSError as error:
                    log.warning("the output of the body could not be kept at %s: %s", self._path, error)


class _Tee(io.TextIOBase):
    """Writes to both; everything else is the stream's own."""

    def __init__(self, stream: TextIO, kept: _Kept) -> None:
        self._stream, self._kept = stream, kept

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding


class _ToKept(logging.Handler):
    def __init__(self, kept: _Kept) -> None:
        super().__init__()
        self._kept = kept
        self.setFormatter(FactsFormatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._kept.write(self.format(record) + "\n")
