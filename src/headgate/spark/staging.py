"""Rows into Lance fragments, on the executors: what a task tells the driver is the names of its files, never rows.

Spark hands the driver the answer of exactly one try of each task, so rows of a task that was repeated, or run twice at
a time, are published once. The files of its other tries are in no answer, and nobody reads them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.load.sources import Rejected
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import DST, ID, INTEGERS, SRC, EdgeType, Key, NodeType, Schema, TableType
from headgate.graph.storage import Location
from headgate.graph.storage.parts import part_to_text, write_column
from headgate.graph.write.shape import FROM, TO, shape
from headgate.graph.write.text import typed
from headgate.ids import ULIDS
from headgate.spark.work import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK_ROWS = 1 << 16
SAMPLE = 100
"""Bad rows that one task tells in full; all of them are counted."""
ANSWER = "told string"


@dataclass(frozen=True, kw_only=True)
class Staging:
    """What an executor needs to know to stage rows of one type."""

    table: TableRef
    schema: Schema = field(repr=False)
    type: str

    @property
    def declared(self) -> TableType:
        found = self.schema.find(self.type)
        assert found is not None
        return found


@dataclass(frozen=True)
class Chunk:
    """Some rows, and how the place of one of them is told."""

    rows: Any
    place: Callable[[int], str]
    text: bool = False


@dataclass
class Told:
    """What one task has done."""

    type: str
    fragments: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rows: int = 0
    made_up: bool = True
    bad: int = 0
    sample: list[tuple[str, str]] = field(default_factory=list)
    rejected: str = ""
    """The kept column with every bad row's place and reason."""
    shape_s: float = 0.0
    lance_s: float = 0.0

    def batch(self) -> pa.RecordBatch:
        return pa.record_batch([pa.array([json.dumps(asdict(self))], pa.string())], names=["told"])

    @classmethod
    def read(cls, text: str) -> Told:
        return cls(**json.loads(text))

    @classmethod
    def unread(cls, rejected: Rejected, location: Location, rejects: str) -> Told:
        """What was no row of any type."""
        told = cls("", bad=rejected.count)
        told.sample = [(problem.where, problem.message) for problem in rejected.problems[:SAMPLE]]
        if rejects:
            lines = [json.dumps({"where": one.where, "reason": one.message}) for one in rejected.problems]
            told.rejected = write_column(location, rejects, pa.array(lines, pa.string()), "told")
        return told


def stage_chunks(staging: Staging, chunks: Iterable[Chunk], *, rejects: str = "") -> Told:
    """Write rows as fragments that nobody reads yet. With `rejects`, every bad row is kept in that folder."""
    told = Told(staging.type)
    at, declared = staging.table.open(), staging.declared
    kept: list[str] = []
    shaped = _shaped(staging, declared, chunks, told, kept if rejects else None)
    first = next(shaped, None)
    if first is not None:
        began, before = time.perf_counter(), told.shape_s

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first.to_batches()
            for rows in shaped:
                yield from rows.to_batches()

        reader = pa.RecordBatchReader.from_batches(arrow_schema(declared), batches())
        part = staging.table.store.write_part(at, reader)
        told.lance_s = time.perf_counter() - began - (told.shape_s - before)
        told.fragments, told.rows = part_to_text(part), part.rows
    if kept:
        told.rejected = write_column(staging.table.location, rejects, pa.array(kept, pa.string()), "told")
    return told


def _shaped(
    staging: Staging, declared: TableType, chunks: Iterable[Chunk], told: Told, kept: list[str] | None
) -> Iterator[pa.Table]:
    began = time.perf_counter()
    for chunk in chunks:
        given = chunk.rows
        if isinstance(given, pa.Table):
            given = typed(declared, given) if chunk.text else whole_numbers(declared, given)
        shaped = shape(staging.schema, declared, given, ids=ULIDS, text=chunk.text)
        rows = shaped.rows
        told.made_up = told.made_up and shaped.made_up
        if shaped.bad:
            for row, reasons in shaped.bad.items():
                place, reason = chunk.place(row), "; ".join(map(str, reasons))
                if len(told.sample) < SAMPLE:
                    told.sample.append((place, reason))
                if kept is not None:
                    kept.append(json.dumps({"where": place, "reason": reason}, ensure_ascii=False))
            told.bad += len(shaped.bad)
            good = pa.array([row for row in range(rows.num_rows) if row not in shaped.bad], pa.int64())
            rows = rows.take(good).cast(arrow_schema(declared))
        told.shape_s += time.perf_counter() - began
        if rows.num_rows:
            yield rows
        began = time.perf_counter()
    told.shape_s += time.perf_counter() - began


def whole_numbers(declared: TableType, rows: pa.Table) -> pa.Table:
    """Decimals as the whole numbers they are: Spark has no unsigned type, and reads ours as decimals."""
    for place, column in enumerate(rows.schema):
        item = declared.find_property(column.name)
        if item is not None and item.type.kind in INTEGERS and pa.types.is_decimal(column.type):
            rows = rows.set_column(place, column.name, rows[column.name].cast(pa.uint64()))
    return rows


def gathered(batches: Iterable[pa.RecordBatch], at_least: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """Batches put together, so that each is worth the work on it."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= at_least:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def stage_batches(
    staging: Staging, batches: Iterable[pa.RecordBatch], *, rejects: str = "", text: bool = False
) -> Told:
    """Stage one partition of a DataFrame; with `text`, its columns are all text that is read by their types."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0

    def chunks() -> Iterator[Chunk]:
        first = 0
        for rows in gathered(batches):
            yield Chunk(rows, _placed(f"{staging.type} partition {partition} row ", first), text)
            first += rows.num_rows

    return stage_chunks(staging, chunks(), rejects=rejects)


def _placed(told: str, first: int) -> Callable[[int], str]:
    return lambda row: f"{told}{first + row}"


def stage_frame(staging: Staging, frame: DataFrame, *, rejects: str = "", text: bool = False) -> list[Told]:
    """Stage a DataFrame, a task a partition."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield stage_batches(staging, batches, rejects=rejects, text=text).batch()

    return answers(frame.mapInArrow(body, ANSWER))


def stage_removals(staging: Staging, frame: DataFrame, folder: str) -> list[Told]:
    """Keep the ids of rows that go, a task a partition."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield write_removals(staging, batches, folder).batch()

    return answers(frame.mapInArrow(body, ANSWER))


def write_removals(staging: Staging, batches: Iterable[pa.RecordBatch], folder: str) -> Told:
    """Keep the ids of rows that go, of one partition of a DataFrame."""
    told = Told(staging.type, made_up=False)
    for rows in gathered(batches, 1 << 18):
        ids = removed_ids(staging.schema, staging.declared, rows)
        told.rows += len(ids)
        if len(ids):
            told.removed.append(write_column(staging.table.location, folder, ids, ID))
    return told


def removed_ids(schema: Schema, declared: TableType, rows: pa.Table) -> pa.Array:
    """The ids that rows name: by `id`, or by the columns of the key."""
    if ID in rows.column_names:
        return pc.unique(rows[ID].combine_chunks().cast(pa.string()).drop_null())
    shaped = shape(schema, _only_key(declared), whole_numbers(declared, rows.select(list(declared.key))), ids=ULIDS)
    return pc.unique(shaped.rows[ID].combine_chunks().drop_null())


def _only_key(declared: TableType) -> NodeType:
    """A type with nothing but its key."""
    return NodeType(
        name=declared.name,
        properties=tuple(item for item in declared.properties if item.name in declared.key),
        constraints=tuple(found for found in declared.constraints if isinstance(found, Key)),
    )


def answers(frame: DataFrame) -> list[Told]:
    return [Told.read(row.told) for row in frame.collect()]


def columns_of(declared: TableType) -> set[str]:
    """Every column a DataFrame of this type may have."""
    names = {*declared.system_columns, *(item.name for item in declared.properties)}
    if isinstance(declared, EdgeType):
        names |= {FROM, TO}
    return names - ({ID} if declared.key else set())


def ends_of(given: Sequence[str]) -> dict[str, str]:
    """Which of the given columns name the two ends of an edge."""
    return {side: side if side in given else other for side, other in ((SRC, FROM), (DST, TO))}
