"""Remove the versions of tables that no kept commit shows, beside readers and writers.

Floors are published, the grace goes by, branches and leases are read again, and what lies below both answers is
removed. Whoever opens a commit or makes a branch writes that down first and looks at the floors then: so nothing that
somebody can still ask for is ever removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headgate.errors import Contention, HeadgateError, InvalidInput
from headgate.graph.manifest.rows import Floor, Head, Kept, Pin, Row, SchemaRow, TableRow, Tombstone, stamp_time
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import MergeContended, MergeUnknown
from headgate.graph.manifest.upkeep import drop_old_versions
from headgate.graph.store import GraphStore
from headgate.graph.upkeep.orphans import remove_orphans, remove_staged
from headgate.graph.upkeep.retention import Retention, Stored, retention
from headgate.graph.upkeep.runs import upkeep_run

_TRIES = 50
_SHOWN = (Pin, Tombstone, SchemaRow)
KEEP = 10
OLDER_THAN = timedelta(days=7)
GRACE = timedelta(seconds=60)


@dataclass
class Cleaned:
    """What a run removed, or would remove."""

    versions: dict[str, int] = field(default_factory=dict)
    """By table, and by the fork of one."""
    bytes: int = 0
    """What the versions took; not known before they are removed."""
    rows: int = 0
    """Rows of the history that no kept commit shows."""
    files: int = 0
    """Files that dead writers had staged."""
    forks: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What could not be removed now, and why."""

    @property
    def nothing(self) -> bool:
        return not (self.versions or self.rows or self.files or self.forks or self.tables)


def cleanup(
    store: GraphStore,
    *,
    keep: int = KEEP,
    older_than: timedelta = OLDER_THAN,
    grace: timedelta = GRACE,
    dry_run: bool = False,
    only: Collection[tuple[str, str]] | None = None,
) -> Cleaned:
    """Keep the last commits of each branch and those that were a head lately; remove what only others show."""
    if keep < 1:
        raise InvalidInput(
            message=f"keep is {keep}, and the head of a branch is always kept", hint="keep at least 1 commit"
        )
    if older_than < timedelta(0) or grace < timedelta(0):
        raise InvalidInput(message="older_than and grace are lengths of time", hint="give 0 or more")
    cutoff = stamp_time(store.clock.now() - max(older_than, grace))
    run = _Run(store, keep, cutoff, only)
    if dry_run:
        return run.look()
    with upkeep_run(store, "cleanup") if only is None else nullcontext():
        return run.clean(grace)


class _Run:
    def __init__(self, store: GraphStore, keep: int, cutoff: str, only: Collection[tuple[str, str]] | None) -> None:
        self._store, self._keep, self._cutoff, self._only = store, keep, cutoff, only

    def look(self) -> Cleaned:
        state = self._whole()
        plan = self._plan(state, remove=False)
        done = Cleaned()
        for stored, row, versions in self._gone(state, plan, plan):
            if versions:
                done.versions[_told(stored, row)] = len(versions)
        done.rows = len(self._unshown(state, plan))
        remove_orphans(self._store, state, plan, done, dry_run=True)
        return done

    def clean(self, grace: timedelta) -> Cleaned:
        plan = self._publish_floors()
        self._store.wait(grace.total_seconds())
        state = self._whole()
        now = self._plan(state)
        done = Cleaned()
        if self._only is None:
            # First, since a fork holds the version it was made from.
            remove_orphans(self._store, state, now, done)
        for stored, row, versions in self._gone(state, plan, now):
            self._remove(stored, row, versions, done)
        if self._only is None:
            done.rows = len(self._unshown(state, now))
            # First, since it moves rows to the history that may be pruned there.
            drop_old_versions(self._store.manifest)
            self._prune(state, now)
            remove_staged(self._store, state, done)
        return done

    # -------- deciding

    def _whole(self) -> ManifestState:
        """The live rows together with those of the history that say what commits show."""
        state = self._store.manifest.state()
        past = self._store.manifest.history.rows("kind IN ('commit','pin','tombstone','schema')")
        return ManifestState(state.version, {**{row.object_id: row for row in past}, **state.rows})

    def _plan(self, state: ManifestState, *, remove: bool = True) -> Retention:
        held = self._store.leases.held(remove=remove)
        held |= {found.sidecar.base.commit for found in self._store.sidecars.find()}
        plan = retention(state, keep=self._keep, cutoff=self._cutoff, held=held)
        if self._only is None:
            return plan
        floors = {stored: floor for stored, floor in plan.floors.items() if stored in self._only}
        exceptions = tuple(sorted({*plan.exceptions, *state.exceptions}))
        return replace(plan, floors=floors, exceptions=exceptions, orders=state.kept.orders)

    def _publish_floors(self) -> Retention:
        """Write the floors in one merge with all heads as they are, so that it meets every publish."""
        manifest = self._store.manifest
        for _ in range(_TRIES):
            state = self._whole()
            plan = self._plan(state)
            live = manifest.stored()
            if live.version != state.version:
                continue
            at = stamp_time(self._store.clock.now())
            rows: list[Row] = [row for row in live.rows.values() if isinstance(row, Head)]
            rows.append(Kept(orders=plan.orders, commits=plan.exceptions, created_at=at))
            for stored, version in plan.floors.items():
                before = live.find_floor(stored.table, stored.fork)
                if before is None or before.version != version:
                    rows.append(Floor(table=stored.table, fork=stored.fork, version=version, created_at=at))
            try:
                manifest.merge(live, rows)
            except (MergeContended, MergeUnknown):
                continue
            return plan
        raise Contention(message="other writers were first in all tries to publish what cleanup keeps", tries=_TRIES)

    def _gone(
        self, state: ManifestState, plan: Retention, now: Retention
    ) -> Iterator[tuple[Stored, TableRow, list[int]]]:
        """The stored versions that neither answer keeps."""
        for stored in plan.floors:
            row = state.rows.get(f"table:{stored.table}")
            if not isinstance(row, TableRow) or stored not in now.floors:
                continue
            versions = self._store.tables.versions(row.path, stored.fork)
            yield stored, row, [v for v in versions[:-1] if not plan.is_kept(stored, v) and not now.is_kept(stored, v)]

    def _unshown(self, state: ManifestState, plan: Retention) -> list[str]:
        return [name for name, row in state.rows.items() if isinstance(row, _SHOWN) and not plan.is_shown(row)]

    # -------- removing

    def _remove(self, stored: Stored, row: TableRow, versions: list[int], done: Cleaned) -> None:
        if not versions:
            return
        try:
            done.bytes += self._store.tables.drop_versions(row.path, stored.fork, versions)
        except HeadgateError as error:
            done.left.append(f"{_told(stored, row)}: {error.message}")
            return
        done.versions[_told(stored, row)] = len(versions)

    def _prune(self, state: ManifestState, plan: Retention) -> None:
        gone = set(self._unshown(state, plan))
        self._store.manifest.history.prune(lambda name: name not in gone)


def _told(stored: Stored, row: TableRow) -> str:
    return f"{row.name} ({row.table})" + (f" on {stored.fork}" if stored.fork else "")
