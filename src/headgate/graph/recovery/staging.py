"""Who has staged files that nothing refers to yet, so that those of dead writers can be removed.

A process that is about to stage leaves a record, once in a while and not for each write, and its sidecars name the
record they were staged under. Whoever removes files first publishes a floor in the manifest: records below it are
revoked. A writer reads the manifest after it has created its sidecar, and gives up if its record is revoked; a remover
reads the sidecars after it has published the floor, and removes nothing while one is pending. So one of the two sees
the other, whoever is alive and however slow. A writer that was taken for dead wrongly has to write again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from headgate.errors import Contention, HeadgateError
from headgate.graph.manifest import Manifest
from headgate.graph.manifest.rows import StagingFloor
from headgate.graph.manifest.table import MergeContended, MergeUnknown
from headgate.graph.recovery.owner import Owner, is_running, this_process
from headgate.graph.storage import SmallObjects
from headgate.ids import IdSource

FOLDER = "__staging"
RENEWED = 600.0
"""Seconds after which a process that stages begins a new record: files older than all records are nobody's."""
_TRIES = 10


@dataclass(frozen=True)
class StagingRecord:
    """A process that stages files, since the store wrote this down."""

    id: str
    owner: Owner
    began: datetime

    @property
    def name(self) -> str:
        return f"{FOLDER}/{self.id}.json"


@dataclass
class Staging:
    """What this process has under way in one graph."""

    _lock: Lock = field(default_factory=Lock, repr=False)
    _current: str = ""
    _since: float = 0.0
    _users: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def under(self, objects: SmallObjects, ids: IdSource, *, floor: str, monotonic: float) -> Iterator[str]:
        """The record that files may be staged under inside."""
        with self._lock:
            if not self._current or self._current < floor or monotonic - self._since > RENEWED:
                self._renew(objects, ids, floor, monotonic)
            record = self._current
            self._users[record] = self._users.get(record, 0) + 1
        try:
            yield record
        finally:
            with self._lock:
                self._users[record] -= 1
                if not self._users[record] and record != self._current:
                    self._drop(objects, record)

    def end(self, objects: SmallObjects) -> None:
        """Take this process's record away, if nothing is being staged."""
        with self._lock:
            if self._current and not self._users.get(self._current):
                self._drop(objects, self._current)
                self._current = ""

    def _renew(self, objects: SmallObjects, ids: IdSource, floor: str, monotonic: float) -> None:
        made = ids.new()
        # Records are compared with the floor: one of a clock that is behind has to lie above it all the same.
        record = made if made > floor else f"{floor}-{made}"
        objects.put_if_absent(f"{FOLDER}/{record}.json", json.dumps({"owner": asdict(this_process())}).encode())
        if self._current and not self._users.get(self._current):
            self._drop(objects, self._current)
        self._current, self._since = record, monotonic

    def _drop(self, objects: SmallObjects, record: str) -> None:
        self._users.pop(record, None)
        with suppress(HeadgateError):  # one that stays is taken away with the dead ones
            objects.delete(f"{FOLDER}/{record}.json")


def staging_records(objects: SmallObjects) -> list[StagingRecord]:
    """Every record there is, oldest first."""
    found = []
    for stored in objects.list(FOLDER):
        data = objects.get(stored.name)
        if data is not None:
            record = stored.name.removeprefix(f"{FOLDER}/").removesuffix(".json")
            found.append(StagingRecord(record, Owner(**json.loads(data)["owner"]), stored.modified))
    return sorted(found, key=lambda record: record.id)


def revoke_dead(manifest: Manifest, objects: SmallObjects, *, older_than: timedelta) -> datetime:
    """Revoke the records of writers taken for dead; files staged before the answer belong to no record that is left.

    A record of a process of this host that is gone is revoked at once, one that cannot be asked when it is older than
    `older_than`. The caller then looks for sidecars: while one is pending, files without a version may be its own.
    """
    now = objects.now()
    records = staging_records(objects)
    alive = [record for record in records if _may_be_alive(record, now, older_than)]
    floor = min((record.id for record in alive), default="")
    dead = [record for record in records if not floor or record.id < floor]
    if dead:
        _publish_floor(manifest, floor or f"{dead[-1].id}-")
        for record in dead:
            objects.delete(record.name)
    return min([now, *(record.began for record in alive)])


def _may_be_alive(record: StagingRecord, now: datetime, older_than: timedelta) -> bool:
    running = is_running(record.owner)
    return now - record.began <= older_than if running is None else running


def _publish_floor(manifest: Manifest, below: str) -> None:
    for _ in range(_TRIES):
        state = manifest.state()
        if state.staging_floor >= below:
            return
        with suppress(MergeContended, MergeUnknown):
            manifest.merge(state, [StagingFloor(below=below)])
    raise Contention(message="other writers were first in all tries to revoke dead writers", tries=_TRIES)
