"""Indices on the columns that rows are looked up by: a commit of its own that changes no content."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headgate.errors import Conflict, Transient
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.writers import Writer
from headgate.graph.schema.model import Kind, TableType
from headgate.graph.storage.indices import IndexKind, WantedIndex
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written, write
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest

_log = logging.getLogger(__name__)
INDEXED_FROM = 100_000
"""A load that leaves a table of this many rows indexes it: below that a scan is as fast."""
ACTOR = "headgate:upkeep"


def wanted_indices(table: TableType) -> list[WantedIndex]:
    """Ids and ends, which every write looks up, and what the schema declares: text by its words too."""
    wanted = [WantedIndex(name, IndexKind.ORDERED) for name in table.system_columns]
    for name in table.indexed:
        declared = table.property(name).type
        if declared.kind is Kind.VECTOR:
            wanted.append(WantedIndex(name, IndexKind.NEAREST))
        elif declared.is_ordered:
            wanted.append(WantedIndex(name, IndexKind.ORDERED))
        if declared.kind is Kind.STRING:
            wanted.append(WantedIndex(name, IndexKind.WORDS))
    return wanted


def ensure_indices(store: GraphStore, branch: str, types: Sequence[str], *, at_least: int = 1) -> Written:
    """Build the indices that tables of at least so many rows lack; one that is there is left as it is."""

    def indexed(base: Base, name: str) -> TableChange | None:
        at = base.snapshot(name)
        staged = store.tables.stage_indices(at, wanted_indices(base.type(name)))
        return base.change(name, at, staged) if staged is not None else None

    request = WriteRequest(branch=branch, writer=Writer.ENSURE_INDICES, actor=ACTOR, message="index tables")

    def prepare(state: ManifestState) -> Prepared | None:
        base = Base.of(store, state, branch)
        due = [name for name in own_tables(base) if name in types and base.rows[name] >= at_least]
        changes = [change for name in due if (change := indexed(base, name)) is not None]
        return _neutral(base, changes)

    return write(store, request, prepare)


def index_after(store: GraphStore, branch: str, types: Sequence[str], *, at_least: int = 1) -> None:
    """`ensure_indices` behind a write, which is done whatever becomes of this: the next optimize finds it due."""
    try:
        ensure_indices(store, branch, types, at_least=at_least)
    except (Conflict, Transient) as error:
        _log.warning("%s was not indexed: %s", ", ".join(types), error)


def own_tables(base: Base) -> list[str]:
    """Types whose tables this branch has written itself: what it only inherits is its parent's to look after."""
    return [name for name, (_, pin) in base.tables.items() if pin.branch == base.branch]


def _neutral(base: Base, changes: Sequence[TableChange]) -> Prepared | None:
    if not changes:
        return None
    return Prepared(changes=tuple(changes), schema_order=base.schema_order, insert_only=True, content=False)
