"""Tables and forks that nothing names: left by writers that never published, or by branches and types that are gone.

A writer makes tables and forks before anything names them, so only what is older than any write takes is an orphan.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from headgate.errors import HeadgateError
from headgate.graph.manifest.rows import Pin, TableRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.staging import revoke_dead
from headgate.graph.store import GraphStore
from headgate.graph.upkeep.retention import Retention, Stored

if TYPE_CHECKING:
    from headgate.graph.upkeep.cleanup import Cleaned

_FOLDER = "tables"


def remove_orphans(
    store: GraphStore, state: ManifestState, plan: Retention, done: Cleaned, *, dry_run: bool = False
) -> None:
    """Remove the tables and forks that no kept commit shows and no sidecar names, once they are old enough."""
    shown = {Stored(row.table, row.fork) for name in plan.rows if isinstance(row := state.rows.get(name), Pin)}
    named = {fork for found in store.sidecars.find() for at in found.sidecar.tables for fork in (at.fork, at.new_fork)}
    fresh = {row.table for found in store.sidecars.find() for row in found.sidecar.new_tables}
    oldest = store.objects.now() - store.patience.orphan_age
    tables = {row.path: row for row in state.rows.values() if isinstance(row, TableRow)}
    for path in _folders(store):
        row = tables.get(path)
        key = row.table if row else path.partition("/")[2]
        try:
            if any(stored.table == key for stored in shown):
                needed = named | {stored.fork for stored in shown if stored.table == key}
                for fork in _forks(store, path, needed, oldest):
                    if not dry_run:
                        store.tables.drop_fork(path, fork)
                    done.forks.append(f"{row.name if row else key} on {fork}")
            elif key not in fresh and all(item.modified < oldest for item in store.objects.list(path)):
                if not dry_run:
                    store.tables.drop_table(path)
                done.tables.append(row.name if row else key)
        except HeadgateError as error:
            done.left.append(f"{path}: {error.message}")


def remove_staged(store: GraphStore, state: ManifestState, done: Cleaned) -> None:
    """Remove the files that dead writers have staged. While a sidecar is pending they may be its own."""
    since = revoke_dead(store.manifest, store.objects, older_than=store.patience.orphan_age)
    if store.sidecars.find():
        done.left.append("staged files: a write is under way")
        return
    known = {row.path for row in state.rows.values() if isinstance(row, TableRow)}
    for path in _folders(store):
        if path not in known:
            continue
        try:
            for item in store.tables.unnamed_files(path):
                if item.modified < since:
                    store.objects.delete(item.name)
                    done.files += 1
        except HeadgateError as error:
            done.left.append(f"staged files of {path}: {error.message}")


def _folders(store: GraphStore) -> Iterator[str]:
    yield from sorted({"/".join(item.name.split("/")[:2]) for item in store.objects.list(_FOLDER)})


def _forks(store: GraphStore, path: str, needed: set[str], oldest: datetime) -> Iterator[str]:
    """The forks of a table that nothing needs. The names after the first belong to makers that died half way."""
    for fork, made in store.tables.forks(path).items():
        if fork not in needed and fork.rpartition("-")[0] not in needed and made < oldest:
            yield fork
