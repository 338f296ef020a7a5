"""Indices on the columns that rows are looked up by: a commit of its own that changes no content."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.writers import Writer
from headgate.graph.schema.model import TableType
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written, write
from headgate.graph.write.prepared import Prepared, WriteRequest

INDEXED_FROM = 100_000
"""A load that leaves a table of this many rows indexes it: below that a scan is as fast."""


def indexed_columns(table: TableType) -> list[str]:
    """The ends and ids of every table are looked up by each write."""
    return list(table.system_columns)


def ensure_indices(store: GraphStore, branch: str, types: Sequence[str], *, at_least: int = 1) -> Written:
    """Index tables of at least so many rows that are not yet."""
    request = WriteRequest(
        branch=branch, writer=Writer.ENSURE_INDICES, actor="headgate:indices", message="index tables"
    )

    def prepare(state: ManifestState) -> Prepared | None:
        base = Base.of(store, state, branch)
        changes = []
        for name in types:
            if base.rows[name] < at_least:
                continue
            at = base.snapshot(name)
            staged = store.tables.stage_indices(at, indexed_columns(base.type(name)))
            if staged is not None:
                changes.append(base.change(name, at, staged))
        if not changes:
            return None
        return Prepared(changes=tuple(changes), schema_order=base.schema_order, insert_only=True, content=False)

    return write(store, request, prepare)
