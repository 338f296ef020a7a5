"""Getting rows out of pinned tables: by index from few keys, by a join over cached columns from many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.query.lance_sql import lance_sql, lookup_sql
from headgate.graph.query.predicate import TRUE, Predicate
from headgate.graph.read.cache import SHARED, ColumnCache
from headgate.graph.read.source import TableSource
from headgate.graph.schema.model import RESERVED_COLUMNS

if TYPE_CHECKING:
    from lance import LanceDataset


_BYTES_PER_ID = 32
"""A guess at the length of an id with its offset."""
_BATCH = 1 << 16
_SCANNED_BESIDES = 100_000
"""Rows outside an index are scanned at each lookup; so many take a few milliseconds."""


class Way(StrEnum):
    """How rows with given keys are found."""

    INDEX = "index lookup"
    JOIN = "join over cached columns"


@dataclass(frozen=True)
class Costs:
    """When a join is cheaper than one index probe per key.

    A probe costs about as much as joining 5,000 rows that still have to be read, or 25,000 that are in memory.
    """

    cold_rows_per_key: int = 5_000
    warm_rows_per_key: int = 25_000
    most_keys: int = 1_024
    most_probed_if_hashed: int = 8
    """With the column hashed a join costs the same few milliseconds whatever its size."""

    def most_probed(self, rows: int, *, warm: bool) -> int:
        """The most keys worth probing one by one in a table of so many rows."""
        per_key = self.warm_rows_per_key if warm else self.cold_rows_per_key
        return min(self.most_keys, 2 + rows // per_key)


@dataclass
class Event:
    """One access to a table, for whoever asks how a query ran."""

    table: str
    what: str
    keys: int
    rows: int


@dataclass
class Tables:
    """The tables of one graph at one commit, as queries read them."""

    source: TableSource
    costs: Costs = Costs()
    cache: ColumnCache = field(default_factory=lambda: SHARED)
    way: Way | None = None
    """Set to take one way always."""
    events: list[Event] = field(default_factory=list)
    _opened: dict[str, _Table] = field(default_factory=dict)

    def rows(self, name: str) -> int:
        return self._table(name).rows

    def is_indexed(self, name: str, column: str) -> bool:
        return column in self._table(name).indexed

    def way_for(self, name: str, column: str, keys: int) -> Way:
        """How rows with so many keys would be found now."""
        if self.way is not None:
            return self.way
        table = self._table(name)
        if column not in table.indexed:
            return Way.JOIN
        version = self.source.cache_key(name)
        if self.cache.is_hashed(version, column):
            return Way.INDEX if keys <= self.costs.most_probed_if_hashed else Way.JOIN
        warm = self.cache.find(version, (column,)) is not None
        return Way.INDEX if keys <= self.costs.most_probed(table.rows, warm=warm) else Way.JOIN

    def scan(self, name: str, columns: Iterable[str], where: Predicate = TRUE, *, limit: int | None = None) -> pa.Table:
        """The rows a condition holds for, or so many of them; the filter runs inside Lance, and uses its indices."""
        wanted = list(dict.fromkeys(columns))
        sql = lance_sql(where)
        found = self._table(name).dataset.to_table(columns=wanted, filter=sql, limit=limit)
        self.events.append(Event(name, f"scan where {sql}" if sql else "scan", 0, found.num_rows))
        return found

    def count(self, name: str, where: Predicate = TRUE) -> int:
        """How many rows a condition holds for, without reading them where Lance knows."""
        sql = lance_sql(where)
        found = int(self._table(name).dataset.count_rows(filter=sql))
        self.events.append(Event(name, f"count where {sql}" if sql else "count", 0, found))
        return found

    def cached(self, name: str, columns: tuple[str, ...]) -> dict[str, pa.Array]:
        """Whole system columns, from memory if they were read before."""

        def load(missing: tuple[str, ...]) -> pa.Table:
            return self.scan(name, missing)

        return self.cache.columns(self.source.cache_key(name), columns, load)

    def find(
        self, name: str, column: str, keys: pa.Array, columns: Iterable[str], where: Predicate = TRUE
    ) -> tuple[np.ndarray[Any, Any], pa.Table]:
        """Rows whose `column` holds one of the distinct `keys` and for which `where` holds.

        With each row comes the place of its key among the keys.
        """
        wanted = tuple(dict.fromkeys(columns))
        if len(keys) == 0:
            empty = self._table(name).dataset.schema
            return np.empty(0, np.int64), pa.schema([empty.field(item) for item in wanted]).empty_table()
        way = self.way_for(name, column, len(keys))
        if way is Way.INDEX:
            found = self._probe(name, column, keys, wanted, where)
        else:
            found = self._join(name, column, keys, wanted, where)
        self.events.append(Event(name, f"{way} on {column}", len(keys), found[1].num_rows))
        return found

    def _probe(
        self, name: str, column: str, keys: pa.Array, columns: tuple[str, ...], where: Predicate
    ) -> tuple[np.ndarray[Any, Any], pa.Table]:
        read = list(dict.fromkeys((*columns, column)))
        sql = lookup_sql(column, keys.to_pylist(), where)
        table = self._table(name).dataset.to_table(columns=read, filter=sql)
        places = _places(_flat(table[column]), keys)
        return places, table.select(list(columns))

    def _join(
        self, name: str, column: str, keys: pa.Array, columns: tuple[str, ...], where: Predicate
    ) -> tuple[np.ndarray[Any, Any], pa.Table]:
        kept_columns = tuple(dict.fromkeys((column, *columns)))
        if where == TRUE and set(columns) <= set(RESERVED_COLUMNS) and self._fits(name, kept_columns):
            kept = self.cached(name, kept_columns)
            hashed = self.cache.hashed(self.source.cache_key(name), column)
            if hashed is not None:
                found_rows, found_places = hashed.find(keys)
                rows = pa.array(found_rows)
            else:
                places = pc.index_in(kept[column], value_set=keys.cast(kept[column].type))
                rows = pc.indices_nonzero(pc.is_valid(places))
                found_places = places.take(rows).to_numpy().astype(np.int64)
            return found_places, pa.table({item: kept[item].take(rows) for item in columns})
        return self._join_batches(name, column, keys, columns, where)

    def _fits(self, name: str, columns: tuple[str, ...]) -> bool:
        """Whether whole columns of ids can be kept without pushing everything else out."""
        return self.rows(name) * len(columns) * _BYTES_PER_ID <= self.cache.max_bytes

    def _join_batches(
        self, name: str, column: str, keys: pa.Array, columns: tuple[str, ...], where: Predicate
    ) -> tuple[np.ndarray[Any, Any], pa.Table]:
        """The join batch by batch: no more than what is found is held, however large the table or its values."""
        read = list(dict.fromkeys((*columns, column)))
        dataset = self._table(name).dataset
        places: list[np.ndarray[Any, Any]] = [np.empty(0, np.int64)]
        found = [pa.schema([dataset.schema.field(item) for item in columns]).empty_table()]
        # Each look-up hashes all the keys, so it should be for at least as many rows.
        for table in _gathered(dataset.to_batches(columns=read, filter=lance_sql(where)), max(_BATCH, len(keys))):
            matched = pc.index_in(_flat(table[column]), value_set=keys)
            rows = pc.indices_nonzero(pc.is_valid(matched))
            places.append(matched.take(rows).to_numpy().astype(np.int64))
            found.append(table.select(list(columns)).take(rows))
        return np.concatenate(places), pa.concat_tables(found)

    def _table(self, name: str) -> _Table:
        if name not in self._opened:
            self._opened[name] = _Table(self.source.dataset(name))
        return self._opened[name]


@dataclass
class _Table:
    dataset: LanceDataset

    @cached_property
    def rows(self) -> int:
        return int(self.dataset.count_rows())

    @cached_property
    def indexed(self) -> frozenset[str]:
        """Columns whose index finds rows by equality, and covers all but a few rows that were added since."""
        return frozenset(
            name
            for index in self.dataset.describe_indices()
            for name in index.field_names
            if index.index_type == "BTree" and self.rows - index.num_rows_indexed <= _SCANNED_BESIDES
        )


def _gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Batches put together to tables of at least so many rows; the last may have fewer."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(item) for item in waiting) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _places(values: pa.Array, keys: pa.Array) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = pc.index_in(values, value_set=keys).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
