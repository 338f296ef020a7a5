"""Load files, tables and DataFrames of any size as one commit: all their rows, or none with the reason for each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headgate.errors import InvalidInput, Problem
from headgate.graph.graph import Graph
from headgate.graph.load.loader import LoadMode
from headgate.graph.load.sources import type_of_file
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.parts import How
from headgate.graph.write.prepared import WriteRequest
from headgate.spark.progress import Report, told
from headgate.spark.splits import FileStaging, Piece, pieces_of
from headgate.spark.staging import ANSWER, Told, answers, stage_frame
from headgate.spark.transaction import SparkTransaction
from headgate.spark.types import check_frame
from headgate.spark.work import each, grouped, parallel
from headgate.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "table:"
"""Before the name of a table of the session's catalog: a Delta or Iceberg table, where the session has them."""
Data: TypeAlias = "str | Path | Mapping[str, DataFrame]"
_SHOWN = 100
_HOW = {LoadMode.APPEND: How.APPEND, LoadMode.MERGE: How.MERGE, LoadMode.OVERWRITE: How.OVERWRITE}


@dataclass(frozen=True)
class SparkLoaded:
    """What a load did: its commit, the rows of each type, and where its time went."""

    commit: str
    changed: bool
    rows: dict[str, int] = field(default_factory=dict)
    repeated: bool = False
    engine: str = "spark"
    seconds: dict[str, float] = field(default_factory=dict)


def spark_load(
    spark: SparkSession,
    graph: Graph,
    *data: Data,
    mode: LoadMode | str = LoadMode.APPEND,
    type_name: str | None = None,
    branch: str = "main",
    actor: str = "",
    message: str = "",
    publish_id: str = "",
    if_commit: str = "",
    rejects: Path | None = None,
    report: Report | None = None,
) -> SparkLoaded:
    """Load files, tables of a catalog (`table:NAME`) and DataFrames by type, checked and published together."""
    how = _HOW[LoadMode(mode)]
    request = WriteRequest(
        writer=Writer.LOAD,
        branch=branch,
        actor=actor,
        message=message,
        publish_id=publish_id,
        if_commit=if_commit,
    )
    began = time.perf_counter()
    check_workers(spark)
    base = graph.base(branch=branch)
    transaction = SparkTransaction(spark, graph.store, base, request, rejects=rejects)
    inputs = _Inputs(spark, transaction, how, type_name, rejects=rejects is not None)
    jobs = f"headgate-load-{graph.store.ids.new()}"
    before = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    spark.sparkContext.setJobGroup(jobs, f"load {graph.uri}", interruptOnCancel=True)
    try:
        with transaction, told(spark, jobs, report):
            inputs.add(data)
            staged = time.perf_counter()
            done = transaction.commit()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", before)
    times = {"stage": staged - began, "check_and_publish": time.perf_counter() - staged, **inputs.times()}
    return SparkLoaded(
        commit=done.commit,
        changed=done.changed,
        rows={} if done.repeated else inputs.rows(),
        repeated=done.repeated,
        seconds={name: round(value, 3) for name, value in times.items()},
    )


class _Inputs:
    """Everything that is loaded, staged as one write of each type."""

    def __init__(
        self, spark: SparkSession, transaction: SparkTransaction, how: How, type_name: str | None, *, rejects: bool
    ) -> None:
        self._spark, self._transaction, self._how, self._type_name = spark, transaction, how, type_name
        base = transaction.reads
        self._schema = base.schema
        self._files = FileStaging(
            base.store.location,
            base.schema,
            {table.name: transaction.staging(table.name) for table in base.schema.tables()},
            f"{transaction.folder}/rejected" if rejects else "",
        )
        self._told: list[Told] = []

    def add(self, data: Sequence[Data]) -> None:
        """Stage all of it; nothing is kept if any row is bad."""
        try:
            self._stage(data)
        finally:
            by_type: dict[str, list[Told]] = {}
            for one in self._told:
                by_type.setdefault(one.type, []).append(one)
            unread = by_type.pop("", [])
            self._transaction.stage_all(by_type, self._how, unread)
        bad = sum(one.bad for one in self._told)
        if bad:
            sample = [Problem(where, reason) for one in self._told for where, reason in one.sample][:_SHOWN]
            more = f", of which {len(sample)} are shown" if bad > len(sample) else ""
            raise InvalidInput(
                message=f"{_named(data)}: {bad} rows were rejected{more}",
                problems=tuple(sample),
                hint="correct them and load again; nothing was written",
            )
        if not sum(one.rows for one in self._told):
            raise InvalidInput(message=f"{_named(data)} holds no rows", hint="check that it is the right file")

    def _stage(self, data: Sequence[Data]) -> None:
        pieces: list[Piece] = []
        frames: list[tuple[str, DataFrame, bool]] = []
        for given in data:
            if isinstance(given, Mapping):
                frames += [(name, frame, False) for name, frame in given.items()]
            elif str(given).startswith(TABLE):
                table = str(given).removeprefix(TABLE)
                frames.append((self._named_type(table), self._table(table), False))
            elif "://" in str(given):
                self._remote(str(given), frames)
            else:
                pieces += pieces_of(self._schema, Path(given), self._type_name)
        for name, frame, text in frames:
            if not text:
                check_frame(self._schema, self._transaction.reads.type(name), frame.schema, self._how)
        if pieces:
            sizes = [piece.rows or piece.end - piece.start or 1 for piece in pieces]
            groups = grouped(pieces, sizes, at_most=max(parallel(self._spark), len(pieces) // 4))
            self._told += answers(each(self._spark, groups, self._files.pieces, ANSWER))
        for name, frame, text in frames:
            staging = self._transaction.staging(name)
            self._told += stage_frame(staging, frame, rejects=self._files.rejects, text=text)

    def _remote(self, url: str, frames: list[tuple[str, DataFrame, bool]]) -> None:
        """A file that Spark reaches and this process perhaps does not."""
        form = Path(url.rstrip("/")).suffix.lower()
        if form in (".jsonl", ".ndjson", ".json"):
            self._told += answers(self._spark.read.text(url).mapInArrow(self._files.lines, ANSWER))
            return
        name = type_of_file(self._schema, Path(url.rstrip("/")), self._type_name)
        if form == ".csv":
            frames.append((name, self._spark.read.csv(url, header=True), True))
        else:
            frames.append((name, self._spark.read.parquet(url), False))

    def _named_type(self, table: str) -> str:
        """The last part of a table's name is the type's."""
        return type_of_file(self._schema, Path(table.rpartition(".")[2]), self._type_name)

    def _table(self, name: str) -> DataFrame:
        try:
            return self._spark.table(name)
        except Exception as error:
            reason = (str(error).strip().splitlines() or [""])[0]
            raise InvalidInput(
                message=f"the session has no table {name}: {reason}",
                hint="set the catalog in [spark.conf], with the jars of its format",
            ) from error

    def rows(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for one in self._told:
            found[one.type] = found.get(one.type, 0) + one.rows
        return found

    def times(self) -> dict[str, float]:
        """Seconds of the executors' Python, over all tasks."""
        return {
            "python_shape": sum(one.shape_s for one in self._told),
            "lance_write": sum(one.lance_s for one in self._told),
        }


def _named(data: Sequence[Data]) -> str:
    return ", ".join(str(given) if isinstance(given, str | Path) else ", ".join(given) for given in data)
