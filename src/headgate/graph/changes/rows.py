"""The rows in which two versions of one table differ, by id: added, removed, changed.

What is held in memory is the ids of rows that can differ; the rows themselves are read a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.changes.pairing import Pair, Side, as_type
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import ID
from headgate.graph.storage.differences import Addresses, Piece, differing, ids_in, rows_at
from headgate.graph.storage.lookup import ADDRESS
from headgate.graph.storage.objects import SmallObjects

_BATCH = 1 << 14
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Changed:
    """Rows that differ, before and after, in one order; both in the columns of the newer type."""

    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class Located:
    """Rows by id and address, in one order."""

    ids: pa.Array
    at: Addresses

    def chosen(self, mask: Mask) -> Located:
        return Located(self.ids.filter(pa.array(mask)), self.at[mask])

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True)
class Candidates:
    """Rows that can differ: of one side only, and of both, before and after in one order, equal or not."""

    removed: Located
    added: Located
    before: Located
    after: Located


class TableDifference:
    """What turns a table at one commit into the same table at another."""

    def __init__(self, objects: SmallObjects, pair: Pair) -> None:
        self._objects = objects
        self.pair = pair

    @cached_property
    def _candidates(self) -> tuple[pa.Table, pa.Table]:
        before, after = self.pair.before, self.pair.after
        if before is not None and after is not None:
            gone, come = differing(self._objects, before.at, after.at)
        else:
            gone, come = _all(before), _all(after)
        return self._ids(before, gone), self._ids(after, come)

    def _ids(self, side: Side | None, pieces: list[Piece]) -> pa.Table:
        if side is None:
            return pa.table({ID: pa.array([], pa.string()), ADDRESS: pa.array([], pa.uint64())})
        return ids_in(self._objects, side.at, pieces, ID).combine_chunks()

    @cached_property
    def candidates(self) -> Candidates:
        """The rows that can differ, by id; whatever is not among them is the same on both sides."""
        old, new = self._candidates
        old_ids, new_ids = _flat(old[ID]), _flat(new[ID])
        where = pc.index_in(new_ids, value_set=old_ids)
        found = where.is_valid()
        places = where.drop_null()
        before, after = old[ADDRESS].to_numpy(), new[ADDRESS].to_numpy()
        kept = np.ones(len(before), bool)
        kept[places.to_numpy()] = False
        mask = found.to_numpy(zero_copy_only=False)
        return Candidates(
            removed=Located(old_ids.filter(pa.array(kept)), before[kept]),
            added=Located(new_ids.filter(pc.invert(found)), after[~mask]),
            before=Located(old_ids.take(places), before[places.to_numpy()]),
            after=Located(new_ids.filter(found), after[mask]),
        )

    # -------- by batches

    def removed(self) -> Iterator[pa.Table]:
        """Rows that are no longer there, as they were."""
        if self.pair.before is not None:
            yield from self._read(self.pair.before, self.candidates.removed.at)

    def added(self) -> Iterator[pa.Table]:
        if self.pair.after is not None:
            yield from self._read(self.pair.after, self.candidates.added.at)

    def changed(self) -> Iterator[Changed]:
        """Rows that were there before and hold other values now."""
        for before, after, mask in self._compared():
            if mask.any():
                chosen = pa.array(mask)
                yield Changed(before.filter(chosen), after.filter(chosen))

    @cached_property
    def really_changed(self) -> tuple[Located, Located]:
        """Of the rows of both sides those that differ, before and after."""
        masks = [mask for _, _, mask in self._compared()]
        mask = np.concatenate(masks) if masks else np.zeros(0, bool)
        return self.candidates.before.chosen(mask), self.candidates.after.chosen(mask)

    def _compared(self) -> Iterator[tuple[pa.Table, pa.Table, Mask]]:
        old, new = self.pair.before, self.pair.after
        if old is None or new is None:
            return
        was, now = self.candidates.before.at, self.candidates.after.at
        for start in range(0, len(was), _BATCH):
            span = slice(start, start + _BATCH)
            before = as_type(self._rows(old, was[span]), old.type, new.type)
            after = self._rows(new, now[span])
            yield before, after, differs(before, after)

    def _read(self, side: Side, addresses: Addresses) -> Iterator[pa.Table]:
        for start in range(0, len(addresses), _BATCH):
            yield self._rows(side, addresses[start : start + _BATCH])

    def _rows(self, side: Side, addresses: Addresses) -> pa.Table:
        schema = arrow_schema(side.type)
        found = rows_at(self._objects, side.at, addresses, schema.names)
        return found.select(schema.names).cast(schema)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _all(side: Side | None) -> list[Piece]:
    if side is None:
        return []
    return [Piece(fragment.fragment_id) for fragment in side.at.dataset.get_fragments()]


def differs(before: pa.Table, after: pa.Table) -> Mask:
    """For each row whether any column holds another value."""
    mask = np.zeros(after.num_rows, bool)
    for name in after.column_names:
        mask |= column_differs(before[name].combine_chunks(), after[name].combine_chunks())
    return mask


def column_differs(before: pa.Array, after: pa.Array) -> Mask:
    """For each row whether a column holds another value; nothing is equal to nothing, and NaN to NaN."""
    if pa.types.is_nested(after.type):
        pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
        return np.fromiter((repr(old) != repr(new) for old, new in pairs), bool, len(after))
    other = pc.fill_null(pc.not_equal(before, after), False)
    if pa.types.is_floating(after.type):
        both = pc.fill_null(pc.and_(pc.is_nan(before), pc.is_nan(after)), False)
        other = pc.and_(other, pc.invert(both))
    nulls = pc.xor(pc.is_null(before), pc.is_null(after))
    told: Mask = pc.or_(other, nulls).to_numpy(zero_copy_only=False)
    return told
