"""The rows of a match as they grow: for each variable, which row of its table it is bound to.

A variable's column is a list of distinct ids and, for each row, a place in that list; joins and filters then move
small integers, and a property is fetched once per id, however many rows share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.errors import InvalidInput

Ints = np.ndarray[Any, np.dtype[np.int64]]
UNBOUND = -1
MOST_ROWS = 50_000_000


@dataclass(frozen=True)
class Bound:
    """What one variable is bound to in every row."""

    table: str
    ids: pa.Array
    places: Ints
    """For each row a place in `ids`, or `UNBOUND`."""
    values: dict[str, pa.Array] = field(default_factory=dict)
    """Properties fetched so far, aligned with `ids`."""

    def take(self, rows: Ints) -> Bound:
        return replace(self, places=self.places[rows])

    def used(self) -> Ints:
        """The places that occur, in order."""
        seen = np.zeros(len(self.ids), dtype=bool)
        seen[self.places[self.places >= 0]] = True
        return np.flatnonzero(seen)

    def compact(self) -> Bound:
        """The same with ids that no row is bound to left out."""
        used = self.used()
        if len(used) == len(self.ids):
            return self
        moved = np.full(len(self.ids) + 1, UNBOUND, dtype=np.int64)
        moved[used] = np.arange(len(used))
        at = pa.array(used)
        values = {name: array.take(at) for name, array in self.values.items()}
        return Bound(self.table, self.ids.take(at), moved[self.places], values)

    def gather(self, array: pa.Array) -> pa.Array:
        """An array aligned with the ids, spread over the rows; unbound rows are null."""
        if len(self.places) and self.places.min() < 0:
            return array.take(pa.array(self.places, mask=self.places < 0))
        return array.take(pa.array(self.places))


@dataclass(frozen=True)
class Bindings:
    """All variables, for so many rows."""

    count: int = 1
    variables: Mapping[str, Bound] = field(default_factory=dict)

    def take(self, rows: Ints) -> Bindings:
        return Bindings(len(rows), {name: bound.take(rows) for name, bound in self.variables.items()})

    def keep(self, mask: pa.BooleanArray | np.ndarray[Any, Any]) -> Bindings:
        chosen = np.flatnonzero(np.asarray(mask))
        return self if len(chosen) == self.count else self.take(chosen)

    def with_variable(self, name: str, bound: Bound) -> Bindings:
        return replace(self, variables={**self.variables, name: bound})

    def crossed(self, count: int) -> tuple[Bindings, Ints]:
        """Every row with each of `count` others; the second result says with which."""
        _refuse_too_many(self.count * count)
        rows = np.repeat(np.arange(self.count, dtype=np.int64), count)
        return self.take(rows), np.tile(np.arange(count, dtype=np.int64), self.count)


def joined(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """The pairs of places at which two lists of keys agree; negative keys agree with nothing."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, side="left")
    counts = np.searchsorted(ordered, left, side="right") - first
    counts[left < 0] = 0
    total = int(counts.sum())
    _refuse_too_many(total)
    rows = np.repeat(np.arange(len(left), dtype=np.int64), counts)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(total, dtype=np.int64) - starts
    return rows, order[np.repeat(first, counts) + within]


def encode(values: pa.Array) -> tuple[Ints, pa.Array]:
    """A place for each value in the list of distinct ones, and that list."""
    encoded = values.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _refuse_too_many(rows: int) -> None:
    if rows > MOST_ROWS:
        raise InvalidInput(
            message=f"the match makes {rows:,} rows, and at most {MOST_ROWS:,} are held in memory",
            hint="join its parts with a traversal, filter more, or use SQL",
        )
