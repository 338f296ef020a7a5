"""Fewer, larger fragments, indices over all rows, a compact manifest: commits of their own that change no content.

One table at a time and in two commits, so that writers at work are seldom in the way. A table that they keep moving is
left to the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headgate.errors import Conflict, Contention
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.upkeep import keep_compact
from headgate.graph.recovery.writers import Writer
from headgate.graph.schema.model import Index
from headgate.graph.storage import Staged, TableSnapshot
from headgate.graph.storage.compact import due_fragments
from headgate.graph.storage.indices import WantedIndex, due_indices, stored_indices
from headgate.graph.store import GraphStore
from headgate.graph.upkeep.indices import ACTOR, INDEXED_FROM, own_tables, wanted_indices
from headgate.graph.write.base import Base
from headgate.graph.write.commit import write
from headgate.graph.write.prepared import Prepared, WriteRequest

Stage = Callable[[Base, str, TableSnapshot], Staged | None]


@dataclass
class Optimized:
    """What a run did, by branch and type: `main:Song`."""

    compacted: list[str] = field(default_factory=list)
    indexed: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    """Left as they are: other writers kept moving them."""


def look(store: GraphStore, branches: Sequence[str]) -> Optimized:
    """What a run would do; nothing is written."""
    found = Optimized()
    for branch in branches:
        base = Base.of(store, store.manifest.state(), branch)
        for name in own_tables(base):
            at = base.snapshot(name)
            compacts = bool(due_fragments(at))
            if compacts:
                found.compacted.append(f"{branch}:{name}")
            wanted = _worth(base, name, at)
            if due_indices(at, wanted) or (compacts and wanted):
                found.indexed.append(f"{branch}:{name}")
    return found


def optimize(store: GraphStore, branches: Sequence[str]) -> Optimized:
    """Optimize the tables that branches have written themselves, then the manifest."""
    done = Optimized()
    for branch in branches:
        for name in own_tables(Base.of(store, store.manifest.state(), branch)):
            _table(store, branch, name, done)
    keep_compact(store.manifest, store.manifest.state(), fully=True)
    return done


def _table(store: GraphStore, branch: str, name: str, done: Optimized) -> None:
    steps: tuple[tuple[Stage, str, list[str]], ...] = (
        (_compacted, f"compact {name}", done.compacted),
        (_indexed, f"index the rows of {name}", done.indexed),
    )
    for stage, message, told in steps:
        try:
            if _rewrite(store, branch, name, stage, message):
                told.append(f"{branch}:{name}")
        except (Conflict, Contention):
            done.busy.append(f"{branch}:{name}")
            return


def _rewrite(store: GraphStore, branch: str, name: str, stage: Stage, message: str) -> bool:
    def prepare(state: ManifestState) -> Prepared | None:
        base = Base.of(store, state, branch)
        if name not in own_tables(base):
            return None
        at = base.snapshot(name)
        staged = stage(base, name, at)
        if staged is None:
            return None
        change = base.change(name, at, staged)
        return Prepared(changes=(change,), schema_order=base.schema_order, insert_only=True, content=False)

    request = WriteRequest(branch=branch, writer=Writer.OPTIMIZE, actor=ACTOR, message=message)
    return write(store, request, prepare).changed


def _compacted(base: Base, name: str, at: TableSnapshot) -> Staged | None:
    return base.store.tables.stage_compaction(at)


def _indexed(base: Base, name: str, at: TableSnapshot) -> Staged | None:
    return base.store.tables.stage_indices(at, _worth(base, name, at), fold=True)


def _worth(base: Base, name: str, at: TableSnapshot) -> list[WantedIndex]:
    """The indices that are there, those the schema asks for, and in a large table those of ids and ends."""
    table = base.type(name)
    there = {(index.column, index.kind) for index in stored_indices(at)}
    asked = {item.property for item in table.constraints if isinstance(item, Index)}
    return [
        item
        for item in wanted_indices(table)
        if base.rows[name] >= INDEXED_FROM or (item.column, item.kind) in there or item.column in asked
    ]
