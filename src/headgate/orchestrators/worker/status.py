"""How a worker is seen by others on this machine: a small file it keeps up to date, and a lock that says it lives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

FOLDER = "workers"


@dataclass(frozen=True, kw_only=True)
class LiveAttempt:
    """What an executor does."""

    task: str
    workflow: str
    task_id: str
    execution: str
    retry_count: int
    phase: str
    began_at: str
    progress: str = ""

    def age(self, now: datetime) -> float:
        return (now - datetime.fromisoformat(self.began_at)).total_seconds()


@dataclass(frozen=True, kw_only=True)
class LiveWorker:
    """A worker on this machine."""

    id: str
    pid: int
    state: str
    """`waiting` for its server, `working` or `draining`."""
    server: str
    domain: str | None
    tasks: tuple[str, ...]
    executors: int
    started_at: str
    ended: int
    """Attempts that ended since it started."""
    per_minute: float
    """How many of them did in each of the last minutes."""
    attempts: tuple[LiveAttempt, ...] = field(default=())


class StatusFile:
    """Written when something changed; it is gone when the worker is."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.json"
        self._last: Mapping[str, Any] | None = None

    def write(self, worker: LiveWorker) -> None:
        told = asdict(worker)
        if told == self._last:
            return
        self._last = told
        unfinished = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):  # nobody's work depends on being seen
            unfinished.write_text(json.dumps(told))
            unfinished.replace(self._path)


@contextmanager
def status_file(state: Path, name: str) -> Iterator[StatusFile]:
    """Be seen while the block runs."""
    folder = state / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / f"{name}.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield StatusFile(folder, name)
    finally:
        _remove(lock)
        os.close(descriptor)


def live_workers(state: Path) -> list[LiveWorker]:
    """The workers on this machine that live, oldest first; what dead ones left behind is removed."""
    found = []
    for lock in sorted((state / FOLDER).glob("*.lock")):
        if _is_free(lock):
            _remove(lock)
            continue
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(lock.with_suffix(".json").read_text())
            attempts = tuple(LiveAttempt(**attempt) for attempt in told.pop("attempts"))
            found.append(LiveWorker(**{**told, "tasks": tuple(told["tasks"]), "attempts": attempts}))
    return sorted(found, key=lambda worker: worker.started_at)


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _remove(lock: Path) -> None:
    for path in (lock.with_suffix(".json"), lock.with_suffix(".new"), lock):
        with contextlib.suppress(OSError):
            path.unlink()
