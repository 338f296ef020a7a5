"""Work for executors: a list of pieces, each done by one Spark task, and what they need to reach a graph's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.graph.storage import Location, TableSnapshot, TableStore
from headgate.graph.write.base import Base

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_Piece = TypeVar("_Piece")


@dataclass(frozen=True)
class TableRef:
    """A table at a version, as another process opens it."""

    location: Location
    path: str
    fork: str
    version: int

    @classmethod
    def of(cls, base: Base, name: str) -> TableRef:
        row, pin = base.tables[name]
        return cls(base.store.location, row.path, pin.fork, pin.version)

    @property
    def store(self) -> TableStore:
        return _store(self.location.uri, tuple(sorted(self.location.options.items())))

    def open(self) -> TableSnapshot:
        return self.store.open(self.path, self.version, self.fork)


@lru_cache(maxsize=8)
def _store(uri: str, options: tuple[tuple[str, str], ...]) -> TableStore:
    """A worker process is used again for many tasks: what it has opened stays open."""
    return TableStore(Location(uri, dict(options)))


def each(
    spark: SparkSession,
    pieces: Sequence[_Piece],
    do: Callable[[_Piece], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """What `do` yields for every piece, one task a piece."""
    given = list(pieces)

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from do(given[number])

    if not given:
        return spark.createDataFrame([], schema)
    return spark.range(0, len(given), 1, len(given)).mapInArrow(body, schema)


def grouped(pieces: Sequence[_Piece], sizes: Sequence[int], *, at_most: int) -> list[list[_Piece]]:
    """Pieces in at most so many groups of about the same size, in their order."""
    total = sum(sizes) or 1
    groups: list[list[_Piece]] = [[] for _ in range(max(1, min(at_most, len(pieces))))]
    before = 0
    for piece, size in zip(pieces, sizes, strict=True):
        groups[min(before * len(groups) // total, len(groups) - 1)].append(piece)
        before += size
    return [group for group in groups if group]


def parallel(spark: Any) -> int:
    """How many tasks are enough to keep every core busy."""
    return max(2, 2 * int(spark.sparkContext.defaultParallelism))
