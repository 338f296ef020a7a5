"""A graph's parts, opened once and handed around: where it is, its tables, its manifest, its sidecars."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.graph.manifest import Manifest
from headgate.graph.manifest.format import Formats
from headgate.graph.recovery.sidecar import Sidecars
from headgate.graph.recovery.staging import Staging
from headgate.graph.storage import Location, SmallObjects, TableStore, open_objects
from headgate.graph.upkeep.leases import Leases
from headgate.ids import ULIDS, IdSource


@dataclass(frozen=True)
class Patience:
    """When it is polite to act, in seconds. Safety rests on none of these."""

    write_timeout: float = 60.0
    """How long a write goes on waiting for the branch before it gives up."""
    sidecar_age: timedelta = timedelta(seconds=60)
    """The age at which a sidecar of a writer that cannot be asked is taken for left behind."""
    lease_age: timedelta = timedelta(days=1)
    """How long a process that cannot be asked holds the commit it reads."""
    orphan_age: timedelta = timedelta(days=1)
    """The age at which a table or fork that nothing names is taken for left behind."""


@dataclass(frozen=True, kw_only=True)
class GraphStore:
    location: Location
    manifest: Manifest
    tables: TableStore
    objects: SmallObjects
    locks: Locks
    leases: Leases
    clock: Clock = SYSTEM_CLOCK
    ids: IdSource = ULIDS
    patience: Patience = Patience()
    staging: Staging = field(default_factory=Staging)
    wait: Callable[[float], None] = time.sleep
    """How a writer pauses for so many seconds before it looks again."""

    def staged_under(self) -> AbstractContextManager[str]:
        """The record of this process that files may be staged under inside."""
        floor = self.manifest.known().staging_floor
        return self.staging.under(self.objects, self.ids, floor=floor, monotonic=self.clock.monotonic())

    @property
    def sidecars(self) -> Sidecars:
        return Sidecars(self.objects)

    @classmethod
    def open(
        cls,
        location: Location,
        *,
        clock: Clock = SYSTEM_CLOCK,
        ids: IdSource = ULIDS,
        patience: Patience | None = None,
        formats: Formats | None = None,
    ) -> GraphStore:
        """The graph at a location, whatever branch; refuses formats it does not know."""
        manifest = Manifest.open(location, formats)
        manifest.formats.check(manifest.stored())
        objects, chosen = open_objects(location), patience or Patience()
        return cls(
            location=location,
            manifest=manifest,
            tables=TableStore(location),
            objects=objects,
            leases=Leases(objects, ids, clock, chosen.lease_age),
            locks=locks_of(location.uri),
            clock=clock,
            ids=ids,
            patience=chosen,
        )


class Locks:
    """Queues of this process, one per name: they only spare local callers a lost race."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._named: dict[str, Lock] = {}

    def named(self, name: str) -> Lock:
        with self._guard:
            return self._named.setdefault(name, Lock())

    def all_of(self, names: Mapping[str, object] | list[str]) -> list[Lock]:
        """The locks of several names, in the one order in which everybody takes them."""
        return [self.named(name) for name in sorted(set(names))]


_of_graph: dict[str, Locks] = {}
_guard = Lock()


def locks_of(uri: str) -> Locks:
    """The queues of a graph, shared by everything in this process that has it open."""
    with _guard:
        return _of_graph.setdefault(uri, Locks())
