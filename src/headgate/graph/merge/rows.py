"""One table three ways: which rows of theirs come into ours, and which rows both sides changed.

Rows that only one side touched are never compared value by value: they are taken as they are, and found in ours by
where they lay in the base. Rows that both sides touched are put together column by column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.changes.pairing import Pair, Side, as_type
from headgate.graph.changes.rows import Located, Mask, TableDifference
from headgate.graph.merge.conflicts import Choice, ConflictKind, RowConflict
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import ID, TableType
from headgate.graph.storage.differences import Addresses, moved_addresses, rows_at
from headgate.graph.storage.lookup import ADDRESS, scan
from headgate.graph.storage.objects import SmallObjects

Row = dict[str, Any]
NOWHERE = Located(pa.array([], pa.string()), np.empty(0, np.uint64))


@dataclass(frozen=True)
class ThreeWay:
    """One type's table in the base, in ours and in theirs, and the type as it will be."""

    type: TableType
    base: Side | None
    ours: Side
    theirs: Side

    @property
    def rewritten(self) -> bool:
        """Whether the columns of ours are not those of the result: then the whole table is written anew."""
        return bool(arrow_schema(self.ours.type) != arrow_schema(self.type))


@dataclass
class TableMerge:
    """How ours has to change. What is here can still be taken back, row by row, before anything is written."""

    sides: ThreeWay
    taken: Located = NOWHERE
    """Rows of theirs that are written as they are."""
    made: dict[str, Row] = field(default_factory=dict)
    """Rows that are written, put together of both sides."""
    deleted: set[str] = field(default_factory=set)
    stored: dict[str, int] = field(default_factory=dict)
    """Where ours has rows that are replaced or deleted."""
    conflicts: list[RowConflict] = field(default_factory=list)

    def leave(self, row: str) -> bool:
        """Keep ours of one row; False if it is not touched anyway."""
        index = pc.index(self.taken.ids, pa.scalar(row)).as_py()
        if index >= 0:
            mask = np.ones(len(self.taken), bool)
            mask[index] = False
            self.taken = self.taken.chosen(mask)
        touched = index >= 0 or row in self.made or row in self.deleted
        self.made.pop(row, None)
        self.deleted.discard(row)
        self.stored.pop(row, None)
        return bool(touched)

    def put(self, row: Row, *, stored: int | None) -> None:
        self.leave(row[ID])
        self.made[row[ID]] = row
        if stored is not None:
            self.stored[row[ID]] = stored

    def delete(self, row: str, *, stored: int) -> None:
        self.leave(row)
        self.deleted.add(row)
        self.stored[row] = stored

    @property
    def changes(self) -> bool:
        return bool(len(self.taken) or self.made or self.deleted)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Rows added, changed and removed in ours."""
        written = len(self.taken) + len(self.made)
        replaced = len(self.stored) - len(self.deleted)
        return written - replaced, replaced, len(self.deleted)


def put_changes_of_ours(objects: SmallObjects, merge: TableMerge) -> None:
    """Write again what ours changed, so that it is held against rules that only theirs had."""
    sides = merge.sides
    difference = TableDifference(objects, Pair(sides.base, sides.ours))
    mine = _joined(difference.candidates.added, difference.really_changed[1])
    touched = {*merge.taken.ids.to_pylist(), *merge.made, *merge.deleted}
    found = rows_at(objects, sides.ours.at, mine.at, arrow_schema(sides.ours.type).names)
    for row, at in zip(as_type(found, sides.ours.type, sides.type).to_pylist(), mine.at.tolist(), strict=True):
        if row[ID] not in touched:
            merge.put(row, stored=at)


def merge_rows(objects: SmallObjects, sides: ThreeWay, choice: Choice | None) -> TableMerge:
    """Compare one table three ways with one base."""
    return _Merger(objects, sides, choice).run()


class _Merger:
    def __init__(self, objects: SmallObjects, sides: ThreeWay, choice: Choice | None) -> None:
        self._objects = objects
        self._sides = sides
        self._choice = choice
        self._theirs = TableDifference(objects, Pair(sides.base, sides.theirs))
        self._ours = TableDifference(objects, Pair(sides.base, sides.ours))

    def run(self) -> TableMerge:
        out = TableMerge(self._sides)
        removed, added = self._theirs.candidates.removed, self._theirs.candidates.added
        before, after = self._theirs.really_changed
        if not (len(removed) or len(added) or len(after)):
            return out
        ours = self._ours.candidates
        touched = pc.unique(pa.concat_arrays([ours.removed.ids, ours.added.ids, ours.after.ids]))
        apart = {
            name: ~_is_in(found.ids, touched)
            for name, found in (("removed", removed), ("added", added), ("changed", after))
        }
        out.taken = _joined(added.chosen(apart["added"]), after.chosen(apart["changed"]))
        gone = removed.chosen(apart["removed"])
        out.deleted = set(gone.ids.to_pylist())
        replaced = _joined(before.chosen(apart["changed"]), gone)
        if len(replaced):
            assert self._sides.base is not None
            there = moved_addresses(self._sides.base.at, self._sides.ours.at, replaced.at)
            out.stored = dict(zip(replaced.ids.to_pylist(), there.tolist(), strict=True))
        self._both(
            out,
            removed.chosen(~apart["removed"]),
            added.chosen(~apart["added"]),
            before.chosen(~apart["changed"]),
            after.chosen(~apart["changed"]),
        )
        return out

    def _both(self, out: TableMerge, removed: Located, added: Located, before: Located, after: Located) -> None:
        """Rows that theirs changed and ours may have."""
        ids = pa.concat_arrays([removed.ids, added.ids, after.ids])
        if not len(ids):
            return
        sides, ours = self._sides, self._ours.candidates
        held = _joined(ours.added, ours.after)
        held = held.chosen(_is_in(held.ids, ids))
        base = self._rows(sides.base, _joined(removed, before))
        mine, others = self._rows(sides.ours, held), self._rows(sides.theirs, _joined(added, after))
        stored = dict(zip(held.ids.to_pylist(), held.at.tolist(), strict=True))
        for row in ids.to_pylist():
            decide(out, row, base.get(row), mine.get(row), others.get(row), stored.get(row), self._choice)

    def _rows(self, side: Side | None, located: Located) -> dict[str, Row]:
        if side is None or not len(located):
            return {}
        found = rows_at(self._objects, side.at, located.at, arrow_schema(side.type).names)
        return {row[ID]: row for row in as_type(found, side.type, self._sides.type).to_pylist()}


def decide(
    out: TableMerge,
    row: str,
    base: Row | None,
    ours: Row | None,
    theirs: Row | None,
    stored: int | None,
    choice: Choice | None,
) -> None:
    """Settle one row that may have changed on both sides."""
    if _equal(ours, theirs) or _equal(base, theirs):
        return
    conflict: RowConflict | None = None
    result = theirs
    if not _equal(base, ours):
        result, conflict = _three_way(out.sides.type, row, base, ours, theirs)
    if conflict is not None:
        if choice is None:
            out.conflicts.append(conflict)
            return
        if ours is None or theirs is None or base is None:
            result = ours if choice == "ours" else theirs
        elif choice == "theirs":
            assert result is not None
            result = {**result, **{name: theirs[name] for name in conflict.columns}}
    if result is None:
        if stored is not None:
            out.delete(row, stored=stored)
    elif not _equal(result, ours):
        out.put(result, stored=stored)


def _three_way(
    table: TableType, row: str, base: Row | None, ours: Row | None, theirs: Row | None
) -> tuple[Row | None, RowConflict | None]:
    """A row that both sides changed: put together, with the columns of ours where that cannot be."""

    def conflict(kind: ConflictKind, message: str, columns: Iterable[str] = ()) -> RowConflict:
        return RowConflict(kind, table.name, row, message, tuple(columns), base, ours, theirs)

    if ours is None or theirs is None:
        gone, kept = ("ours", "theirs") if ours is None else ("theirs", "ours")
        told = f"{table.name} {row} was removed in {gone} and changed in {kept}"
        return ours, conflict(ConflictKind.DELETE_VERSUS_UPDATE, told)
    if base is None:
        columns = [name for name in ours if not _same(ours[name], theirs[name])]
        told = f"{table.name} {row} was added on both sides with other values of {', '.join(columns)}"
        return ours, conflict(ConflictKind.DIVERGENT_INSERT, told, columns)
    merged, columns = dict(ours), []
    for name, value in theirs.items():
        if _same(value, base[name]) or _same(value, ours[name]):
            continue
        if _same(ours[name], base[name]):
            merged[name] = value
        else:
            columns.append(name)
    if not columns:
        return merged, None
    told = f"{table.name} {row} was changed on both sides in {', '.join(columns)}"
    return merged, conflict(ConflictKind.DIVERGENT_UPDATE, told, columns)


def _equal(one: Row | None, other: Row | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(_same(value, other[name]) for name, value in one.items())


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))


def _is_in(ids: pa.Array, values: pa.Array) -> Mask:
    found: Mask = pc.is_in(ids, value_set=values).to_numpy(zero_copy_only=False).astype(bool)
    return found


def _joined(*parts: Located) -> Located:
    return Located(pa.concat_arrays([part.ids for part in parts]), np.concatenate([part.at for part in parts]))


def merge_by_id(
    sides: ThreeWay,
    ids: Iterable[str],
    *,
    base: Mapping[str, Row],
    ours: Mapping[str, Row],
    theirs: Mapping[str, Row],
    stored: Mapping[str, int],
    choice: Choice | None,
) -> TableMerge:
    """Compare rows three ways where the base is none that is stored."""
    out = TableMerge(sides)
    for row in ids:
        decide(out, row, base.get(row), ours.get(row), theirs.get(row), stored.get(row), choice)
    return out


def taken_rows(objects: SmallObjects, merge: TableMerge, addresses: Addresses, columns: list[str]) -> pa.Table:
    """Rows of theirs in the shape they will have."""
    side = merge.sides.theirs
    if side.type == merge.sides.type:
        return rows_at(objects, side.at, addresses, columns)
    found = rows_at(objects, side.at, addresses, arrow_schema(side.type).names)
    return as_type(found, side.type, merge.sides.type).select(columns)


def kept_rows(merge: TableMerge) -> Iterator[pa.Table]:
    """Every row of ours that stays, in the shape it will have."""
    side = merge.sides.ours
    gone = pa.array(list(merge.stored.values()), pa.uint64())
    for batch in scan(side.at, arrow_schema(side.type).names, address=True):
        rows = pa.Table.from_batches([batch])
        kept = rows.filter(pc.invert(pc.is_in(rows[ADDRESS], value_set=gone)))
        yield as_type(kept.drop_columns([ADDRESS]), side.type, merge.sides.type)
