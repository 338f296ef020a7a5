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
from headgate.graph.recovery.owner import Owner, is_gone, this_process
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


class Leases:
    """The leases of one graph, and those this process has taken. Threads may share it."""

    def __init__(self, objects: SmallObjects, ids: IdSource, clock: Clock, age: timedelta) -> None:
        self._objects, self._ids, self._clock, self._age = objects, ids, clock, age
        self._taken: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def take(self, commit: str) -> None:
        """Hold a commit for as long as leases last; one that is held for a while is held anew."""
        with self._lock:
            held = self._taken.get(commit)
            now = self._clock.monotonic()
            if held is not None and now - held[1] < self._age.total_seconds() / 2:
                return
            name = f"{FOLDER}/{commit}/{self._ids.new()}.json"
            body = {"owner": asdict(this_process()), "operation": name}
            try:
                self._objects.put_if_absent(name, json.dumps(body).encode())
            except HeadgateError as error:
                # A reader without the right to write is protected by what cleanup keeps anyway.
                _log.info("no lease of commit %s could be written: %s", commit, error)
                return
            self._taken[commit] = (name, now)
        if held is not None:
            self._drop(held[0])

    def release(self) -> None:
        """Let go of everything this process holds here."""
        with self._lock:
            names, self._taken = [name for name, _ in self._taken.values()], {}
        for name in names:
            self._drop(name)

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
            mine = lease.owner == this_process()
            dead = not mine and is_gone(lease.owner, lease.name)
            if dead or now - lease.modified > self._age:
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
