"""Prepare a write whose rows were written by others: executors stage them, and only the checked columns are read here.

Every write of one transaction stands beside the others: an id may be touched by one of them only, so their order does
not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import InvalidInput
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, TableType
from headgate.graph.storage import Part, TableSnapshot
from headgate.graph.storage.lookup import rows_with
from headgate.graph.storage.parts import read_column, read_part, read_part_table
from headgate.graph.write.base import Base
from headgate.graph.write.distinct import last_rows, repeated
from headgate.graph.write.ends import with_known_ids
from headgate.graph.write.evaluate import NO_IDS, Delta, evaluate, key_columns
from headgate.graph.write.prepare import prepared, refuse, stage_parts
from headgate.graph.write.prepared import Prepared

_SHOWN = 5


class How(StrEnum):
    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(frozen=True, kw_only=True)
class PartWrite:
    """What one call of a transaction does to one type."""

    type: str
    how: How
    rows: int
    parts: tuple[Part, ...] = ()
    removed: tuple[str, ...] = ()
    """Kept columns with the ids of rows that go."""
    made_up: bool = False
    """The ids were made up when the rows were staged."""


@dataclass
class Made:
    """What preparing a write has changed about its files."""

    parts: list[tuple[TableSnapshot, Part]] = field(default_factory=list)
    """Parts that were added: to be removed if the write is not published."""
    superseded: list[tuple[TableSnapshot, Part]] = field(default_factory=list)
    """Parts whose place they took: to be removed if it is."""


def prepare_parts(base: Base, writes: Sequence[PartWrite], made: Made) -> Prepared | None:
    """Check and stage what the writes bring; None if nothing would change."""
    changes = [_change(base, base.type(name), group, made) for name, group in by_type(writes).items()]
    deltas = {change.table.name: change.delta(base) for change in changes}
    _with_edges_of_removed(base, deltas)
    evaluation = evaluate(base.schema, deltas, base.snapshot)
    refuse(evaluation.rejected)
    parts = {change.table.name: change.parts for change in changes}
    staged = {}
    for name, delta in deltas.items():
        change = stage_parts(base, delta, evaluation, parts.get(name, ()))
        if change is not None:
            staged[name] = change
    return prepared(base, deltas, evaluation, staged, insert_only=insert_only(writes))


def insert_only(writes: Sequence[PartWrite]) -> bool:
    """Whether the writes rest on no row that was seen, and may be prepared again on a newer head."""
    return all(write.how in (How.APPEND, How.MERGE) for write in writes)


def by_type(writes: Sequence[PartWrite]) -> dict[str, list[PartWrite]]:
    found: dict[str, list[PartWrite]] = {}
    for write in writes:
        found.setdefault(write.type, []).append(write)
    return found


def known_by_ends(table: TableType, how: How) -> bool:
    """Whether rows replace those with the same two ends: edges that have no key, when they are merged."""
    return how is How.MERGE and isinstance(table, EdgeType) and not table.key


def clash(table: TableType, told: str) -> InvalidInput:
    return InvalidInput(
        message=f"one transaction writes {table.name} more than once, and its writes touch the same rows: {told}",
        hint="write each row in one call, or in transactions one after the other",
    )


def given_twice(table: TableType, count: int, sample: Iterable[str]) -> InvalidInput:
    return InvalidInput(
        message=f"{count} ids of {table.name} are given more than once: {', '.join(map(repr, sample))}",
        hint="give each row an id of its own, or merge",
    )


@dataclass
class _Change:
    """All writes of one type."""

    table: TableType
    keys: pa.Table
    parts: list[Part]
    strict: pa.Array
    deleted: pa.Array
    image: bool
    made_up: bool

    def delta(self, base: Base) -> Delta:
        return Delta(
            table=self.table,
            at=base.snapshot(self.table.name),
            keys=self.keys,
            deleted=self.deleted,
            image=self.image,
            strict=self.strict,
            made_up=self.made_up,
        )


def _change(base: Base, table: TableType, writes: Sequence[PartWrite], made: Made) -> _Change:
    at = base.snapshot(table.name)
    location = base.store.location
    all_keys: list[pa.Table] = []
    parts: list[Part] = []
    strict, deleted = [NO_IDS], [NO_IDS]
    for write in writes:
        if write.how is How.DELETE:
            deleted += [ids for path in write.removed for ids in read_column(location, path, ID)]
            continue
        keys = read_part_table(location, at, write.parts, key_columns(table))
        written = list(write.parts)
        if write.how is How.MERGE:
            keys, written = _merged(base, table, write, keys, made)
        elif not write.made_up and len(twice := repeated(keys[ID].combine_chunks())):
            raise given_twice(table, len(twice), twice.slice(0, _SHOWN).to_pylist())
        if write.how is How.APPEND and not write.made_up:
            strict.append(keys[ID].combine_chunks())
        all_keys.append(keys)
        parts += written
    keys = pa.concat_tables(all_keys) if all_keys else _no_keys(table)
    gone = pc.unique(pa.concat_arrays(deleted))
    if len(writes) > 1 and len(touched := repeated(pa.concat_arrays([keys[ID].combine_chunks(), gone]))):
        raise clash(table, ", ".join(map(repr, touched.slice(0, _SHOWN).to_pylist())))
    if len(gone):
        gone = rows_with(at, ID, gone, [ID])[ID].combine_chunks()
    return _Change(
        table=table,
        keys=keys,
        parts=parts,
        strict=pa.concat_arrays(strict),
        deleted=gone,
        image=any(write.how is How.OVERWRITE for write in writes),
        made_up=all(write.made_up and not known_by_ends(table, write.how) for write in writes),
    )


def _merged(base: Base, table: TableType, write: PartWrite, keys: pa.Table, made: Made) -> tuple[pa.Table, list[Part]]:
    """The last row of each identity, with the id of the stored row it replaces."""
    at, location = base.snapshot(table.name), base.store.location
    ends = known_by_ends(table, write.how)
    kept = last_rows(keys, [SRC, DST] if ends else [ID])
    chosen = keys if kept is None else keys.take(kept)
    if ends:
        named = with_known_ids(chosen, at)
        if kept is None and named[ID].equals(chosen[ID]):
            return chosen, list(write.parts)
        chosen = named
    elif kept is None:
        return chosen, list(write.parts)
    rows = pa.Table.from_batches(
        [batch for part in write.parts for batch in read_part(location, at, part, arrow_schema(table).names)]
    )
    rows = rows if kept is None else rows.take(kept)
    rows = rows.set_column(rows.schema.get_field_index(ID), rows.schema.field(ID), chosen[ID])
    again = base.store.tables.write_part(at, rows)
    made.parts.append((at, again))
    made.superseded += [(at, part) for part in write.parts]
    return chosen, [again]


def _with_edges_of_removed(base: Base, deltas: dict[str, Delta]) -> None:
    """A node that is deleted takes its stored edges along."""
    for name, delta in list(deltas.items()):
        if not len(delta.deleted):
            continue
        for edge in base.schema.edges_at(name):
            at = base.snapshot(edge.name)
            found = [
                rows_with(at, side, delta.deleted, [ID])[ID].combine_chunks()
                for side, node in ((SRC, edge.src), (DST, edge.dst))
                if node == name
            ]
            there = deltas.get(edge.name)
            if there is None:
                there = Delta(table=edge, at=at, keys=_no_keys(edge))
            elif there.image:
                continue
            gone = pc.unique(pa.concat_arrays([there.deleted, *found]))
            deltas[edge.name] = Delta(
                table=edge, at=at, keys=there.keys, deleted=gone, strict=there.strict, made_up=there.made_up
            )


def _no_keys(table: TableType) -> pa.Table:
    return arrow_schema(table).empty_table().select(key_columns(table))
