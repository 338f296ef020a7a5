"""The data source `headgate`: Spark reads a type at a commit, and writes DataFrames as one commit each.

What is read is pinned when the DataFrame is made: every partition, and every later run of it, sees that commit. What
is written is staged by the tasks and published by the driver's commit, in a process of its own without a session, so
its checks read the key columns there; for writes of any size there is `graph.transaction(spark)`.

Spark starts a process for each step of planning, and each imports this module: what is heavy is imported where it is
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)

from headgate.spark.filters import split
from headgate.spark.options import READ, WRITE, Options
from headgate.spark.pinned import Pinned, Split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_PUSHES = "spark.sql.python.filterPushdown.enabled"


class HeadgateSource(DataSource):  # type: ignore[misc]
    """`spark.read.format("headgate")` and `df.write.format("headgate")`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._pinned: Pinned | None = None

    @classmethod
    def name(cls) -> str:
        return "headgate"

    def schema(self) -> str:
        return self._pin().ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushingReader(self._pin(), Options.parse(self.options, READ).storage, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from headgate.spark.writing import HeadgateWriter

        return HeadgateWriter(Options.parse(self.options, WRITE), schema, overwrite=overwrite)

    def _pin(self) -> Pinned:
        if self._pinned is None:
            options = Options.parse(self.options, READ)
            self._pinned = Pinned.from_text(options.get("pinned")) if options.get("pinned") else _pinned_now(options)
        return self._pinned


def _pinned_now(options: Options) -> Pinned:
    from headgate.graph.graph import open_graph
    from headgate.spark.reading import pinned

    named = [name.strip() for name in options.get("columns").split(",") if name.strip()]
    with open_graph(options.get("graph"), "ro", options=options.storage) as graph:
        base = graph.base(branch=options.get("branch") or None, commit=options.get("commit") or None)
        return pinned(base, options.get("type"), named)


class PlainSource(HeadgateSource):
    """For a session that pushes no filters into Python: it refuses a reader that would take them."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return HeadgateReader(self._pin(), Options.parse(self.options, READ).storage, schema)


@dataclass
class ReadPartition(InputPartition):  # type: ignore[misc]
    split: Split | None


class HeadgateReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, what: Pinned, storage: dict[str, str], schema: StructType) -> None:
        self._what, self._storage, self._schema = what, storage, schema
        self._conditions: list[str] = []

    def partitions(self) -> list[InputPartition]:
        found = self._what.splits(whole=bool(self._conditions))
        return [ReadPartition(one) for one in found] or [ReadPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from headgate.spark.reading import read_split

        assert isinstance(partition, ReadPartition)
        if partition.split is None:
            return iter(())
        target = to_arrow_schema(self._schema, timezone="UTC")
        return read_split(self._what, self._storage, partition.split, self._conditions, target)


class PushingReader(HeadgateReader):
    """A reader that asks Lance for the rows a condition holds for."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        self._conditions, left = split(self._what.kinds, filters)
        yield from left


@dataclass
class StagedMessage(WriterCommitMessage):  # type: ignore[misc]
    """What a task has staged, as it told it."""

    told: Any


def register_source(spark: SparkSession) -> None:
    """Make `headgate` a format of a session. Sessions of ours have it from the start."""
    pushes = str(spark.conf.get(_PUSHES, "false")).lower() == "true"
    spark.dataSource.register(HeadgateSource if pushes else PlainSource)
