"""A column of ids that is asked for again and again: its hashes in order, so that a key is found by bisection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.read.database import cursor

Ints = np.ndarray[Any, np.dtype[np.int64]]


class HashedColumn:
    """Finds the rows of a column that hold given keys in time that grows with the keys, not with the column."""

    def __init__(self, column: pa.Array) -> None:
        self._column = column
        hashes = _hashes(column)
        self._order = np.argsort(hashes, kind="stable").astype(np.int32 if len(column) < 2**31 else np.int64)
        self._hashes = hashes[self._order]

    @property
    def nbytes(self) -> int:
        """What is held besides the column itself."""
        return int(self._hashes.nbytes + self._order.nbytes)

    def find(self, keys: pa.Array) -> tuple[Ints, Ints]:
        """The rows that hold one of the distinct keys, and for each the place of its key."""
        hashes = _hashes(keys)
        order = np.argsort(hashes)
        first = np.searchsorted(self._hashes, hashes[order], side="left")
        counts = np.searchsorted(self._hashes, hashes[order], side="right") - first
        starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
        rows = self._order[starts + np.arange(len(starts))].astype(np.int64)
        places = np.repeat(order, counts).astype(np.int64)
        # Two texts may share a hash, so what was found is held against what was looked for.
        same = pc.equal(self._column.take(pa.array(rows)), keys.cast(self._column.type).take(pa.array(places)))
        if pc.all(same).as_py() is False:
            right = np.asarray(same)
            return rows[right], places[right]
        return rows, places


def _hashes(texts: pa.Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A 64-bit hash of each text, in the order of the texts."""
    with cursor() as connection:
        connection.register("texts", pa.table({"text": texts}))
        table = connection.sql("select hash(text) as hash from texts").to_arrow_table()
    hashes: np.ndarray[Any, np.dtype[np.uint64]] = table["hash"].combine_chunks().to_numpy()
    return hashes
