"""Who wrote a sidecar, and whether that process is known to be gone. Decides only when it is polite to act."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A process: its host (with its process namespace, since containers share names), pid and start time."""

    host: str = ""
    pid: int = 0
    started: float = 0.0


@cache
def _host() -> str:
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}".strip()


_started: dict[int, float] = {}


def this_process() -> Owner:
    """This process; asked again after a fork, since the child is another one."""
    pid = os.getpid()
    if pid not in _started:
        import psutil

        _started[pid] = psutil.Process(pid).create_time()
    return Owner(_host(), pid, _started[pid])


_active: set[str] = set()
_guard = threading.Lock()


class at_work:  # noqa: N801 - reads as a statement
    """While inside, this process is known to be at work on an operation."""

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __enter__(self) -> None:
        with _guard:
            _active.add(self._operation)

    def __exit__(self, *_: object) -> None:
        with _guard:
            _active.discard(self._operation)


def is_gone(owner: Owner, operation: str) -> bool:
    """Whether nobody of this host works on an operation any more; False where this cannot be told."""
    if owner == this_process():
        with _guard:
            return operation not in _active
    return is_running(owner) is False


def is_running(owner: Owner) -> bool | None:
    """Whether a process of this host runs; None where this cannot be told."""
    if owner.host != _host():
        return None
    import psutil

    try:
        process = psutil.Process(owner.pid)
        return bool(process.create_time() == owner.started and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return None
