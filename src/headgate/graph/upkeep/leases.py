"""Leases: a process that reads an earlier commit says so, and cleanup leaves that commit alone.

A lease is written first, then the floors are looked at; cleanup publishes its floors first, then looks at the leases.
So either the reader sees that its commit is gone, or cleanup sees that it is read.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from headgate.clock import Clock
from headgate.errors import HeadgateError
from headgate.graph.recovery.owner import Owner, is_running, this_process
from headgate.graph.storage.objects import SmallObjects
from headgate.ids import IdSource

_log = logging.getLogger(__name__)
FOLDER = "__leases"


@dataclass(frozen=True)
class Lease:
    """A commit that somebody reads."""

    commit: str
    name: str
    owner: Owner
    modified: datetime


@dataclass
class _Held:
    name: str
    since: float
    holders: int = 0
    until_closed: bool = False


class Leases:
    """The leases of one graph, and those this process has taken. Threads may share it."""

    def __init__(self, objects: SmallObjects, ids: IdSource, clock: Clock, age: timedelta) -> None:
        self._objects, self._ids, self._clock, self._age = objects, ids, clock, age
        self._taken: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def take(self, commit: str) -> None:
        """Hold a commit until the graph is closed; one that is read for long is held anew."""
        with self._lock:
            held = self._written(commit)
            if held is not None:
                held.until_closed = True

    def hold(self, commit: str) -> None:
        """Hold a commit until it is let go as often as it was held."""
        with self._lock:
            held = self._written(commit)
            if held is not None:
                held.holders += 1

    def let_go(self, commit: str) -> None:
        with self._lock:
            held = self._taken.get(commit)
            if held is None:
                return
            held.holders -= 1
            if held.holders > 0 or held.until_closed:
                return
            del self._taken[commit]
        self._drop(held.name)

    def release(self) -> None:
        """Let go of everything that was held until now."""
        with self._lock:
            ended = {commit: held for commit, held in self._taken.items() if not held.holders}
            for commit in ended:
                del self._taken[commit]
            for held in self._taken.values():
                held.until_closed = False
        for held in ended.values():
            self._drop(held.name)

    def _written(self, commit: str) -> _Held | None:
        """The lease of a commit, written now if there is none or it is getting old."""
        held, now = self._taken.get(commit), self._clock.monotonic()
        if held is not None and now - held.since < self._age.total_seconds() / 2:
            return held
        name = f"{FOLDER}/{commit}/{self._ids.new()}.json"
        try:
            self._objects.put_if_absent(name, json.dumps({"owner": asdict(this_process())}).encode())
        except HeadgateError as error:
            # A reader without the right to write is protected by what cleanup keeps anyway.
            _log.info("no lease of commit %s could be written: %s", commit, error)
            return held
        if held is None:
            held = self._taken[commit] = _Held(name, now)
        else:
            self._drop(held.name)
            held.name, held.since = name, now
        return held

    def find(self) -> list[Lease]:
        """Every lease, whoever took it."""
        out = []
        for stored in self._objects.list(FOLDER):
            data = self._objects.get(stored.name)
            if data is None:
                continue
            try:
                owner = Owner(**json.loads(data)["owner"])
            except (ValueError, TypeError, KeyError):
                owner = Owner()
            out.append(Lease(stored.name.split("/")[1], stored.name, owner, stored.modified))
        return out

    def held(self, *, remove: bool = True) -> set[str]:
        """The commits that may still be read; leases of dead processes and old ones are removed."""
        found = self.find()
        now = self._objects.now() if found else None
        commits = set()
        for lease in found:
            assert now is not None
            running = is_running(lease.owner)
            if running is False or (running is None and now - lease.modified > self._age):
                if remove:
                    self._drop(lease.name)
            else:
                commits.add(lease.commit)
        return commits

    def _drop(self, name: str) -> None:
        try:
            self._objects.delete(name)
        except HeadgateError as error:
            _log.info("the lease %s was not deleted: %s", name, error)
