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


@dataclass(frozen=True)
class Changed:
    """Rows that differ, before and after, in one order; both in the columns of the newer type."""

    before: pa.Table
    after: pa.Table


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
    def _places(self) -> tuple[Addresses, Addresses, Addresses, Addresses]:
        """Addresses: removed, added, and of rows with the same id before and after."""
        old, new = self._candidates
        where = pc.index_in(new[ID].combine_chunks(), value_set=old[ID].combine_chunks())
        found = where.is_valid().to_numpy(zero_copy_only=False)
        places = where.drop_null().to_numpy()
        before, after = old[ADDRESS].to_numpy(), new[ADDRESS].to_numpy()
        kept = np.ones(len(before), bool)
        kept[places] = False
        return before[kept], after[~found], before[places], after[found]

    # -------- by batches

    def removed(self) -> Iterator[pa.Table]:
        """Rows that are no longer there, as they were."""
        if self.pair.before is not None:
            yield from self._read(self.pair.before, self._places[0])

    def added(self) -> Iterator[pa.Table]:
        if self.pair.after is not None:
            yield from self._read(self.pair.after, self._places[1])

    def changed(self) -> Iterator[Changed]:
        """Rows that were there before and hold other values now."""
        old, new = self.pair.before, self.pair.after
        if old is None or new is None:
            return
        _, _, was, now = self._places
        for start in range(0, len(was), _BATCH):
            span = slice(start, start + _BATCH)
            before = as_type(self._rows(old, was[span]), old.type, new.type, same_table=self.pair.same_table)
            after = self._rows(new, now[span])
            mask = differs(before, after)
            if mask.any():
                chosen = pa.array(mask)
                yield Changed(before.filter(chosen), after.filter(chosen))

    def _read(self, side: Side, addresses: Addresses) -> Iterator[pa.Table]:
        for start in range(0, len(addresses), _BATCH):
            yield self._rows(side, addresses[start : start + _BATCH])

    def _rows(self, side: Side, addresses: Addresses) -> pa.Table:
        schema = arrow_schema(side.type)
        found = rows_at(self._objects, side.at, addresses, schema.names)
        return found.select(schema.names).cast(schema)


def _all(side: Side | None) -> list[Piece]:
    if side is None:
        return []
    return [Piece(fragment.fragment_id) for fragment in side.at.dataset.get_fragments()]


def differs(before: pa.Table, after: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each row whether any column holds another value."""
    mask = np.zeros(after.num_rows, bool)
    for name in after.column_names:
        mask |= column_differs(before[name].combine_chunks(), after[name].combine_chunks())
    return mask


def column_differs(before: pa.Array, after: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each row whether a column holds another value; nothing is equal to nothing, and NaN to NaN."""
    if pa.types.is_nested(after.type):
        pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
        return np.fromiter((repr(old) != repr(new) for old, new in pairs), bool, len(after))
    other = pc.fill_null(pc.not_equal(before, after), False)
    if pa.types.is_floating(after.type):
        both = pc.fill_null(pc.and_(pc.is_nan(before), pc.is_nan(after)), False)
        other = pc.and_(other, pc.invert(both))
    nulls = pc.xor(pc.is_null(before), pc.is_null(after))
    told: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.or_(other, nulls).to_numpy(zero_copy_only=False)
    return told
