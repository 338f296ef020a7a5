"""A DataFrame into one type as one commit, as Spark's two-phase write has it: tasks stage, the driver's commit
publishes, abort removes what was staged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from headgate.errors import InvalidInput
from headgate.graph.graph import Graph, open_graph
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.base import Base
from headgate.graph.write.commit import write
from headgate.graph.write.parts import How, Made, insert_only, prepare_parts
from headgate.graph.write.prepared import Prepared, WriteRequest
from headgate.spark.options import Options
from headgate.spark.source import StagedMessage
from headgate.spark.staged import StagedRows, gather
from headgate.spark.staging import Staging, Told, stage_batches, write_removals
from headgate.spark.types import check_frame
from headgate.spark.work import TableRef

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class HeadgateWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._how = _how(options, overwrite=overwrite)
        graph = self._open()
        base = graph.base(branch=options.get("branch") or None)
        table = base.type(options.get("type"))
        check_frame(base.schema, table, schema, self._how)
        self._staging = Staging(table=TableRef.of(base, table.name), schema=base.schema, type=table.name)
        self._commit, self._folder = base.commit, graph.store.ids.new()
        # This process ends before the rows are staged, and its record stays: if the rows are then taken for a dead
        # writer's and removed, the record was revoked before, and the commit is refused.
        with graph.store.staged_under() as record:
            self._record = record

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._how is How.DELETE:
            return StagedMessage(write_removals(self._staging, iterator, self._folder))
        return StagedMessage(stage_batches(self._staging, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with self._open() as graph:
            _publish(graph, self._request(), self._staged(graph), self._staging.type, self._how, _told(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with self._open() as graph:
            staged = self._staged(graph)
            staged.take(self._staging.declared, self._how, _told(messages))
            staged.discard()

    def _open(self) -> Graph:
        return open_graph(self._options.get("graph"), options=self._options.storage)

    def _staged(self, graph: Graph) -> StagedRows:
        return StagedRows(graph.store, graph.base(commit=self._commit), folder=self._folder, record=self._record)

    def _request(self) -> WriteRequest:
        options = self._options
        return WriteRequest(
            branch=options.get("branch") or "main",
            writer=Writer.TRANSACTION,
            actor=options.get("actor"),
            message=options.get("message"),
            publish_id=options.get("publishid"),
            if_commit=options.get("ifcommit"),
        )


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[Told]:
    return [message.told for message in messages if isinstance(message, StagedMessage)]


def _publish(
    graph: Graph, request: WriteRequest, staged: StagedRows, type_name: str, how: How, told: Sequence[Told]
) -> None:
    """Check what tasks have staged, in this process, and publish it as one commit."""
    store = graph.store

    def prepare(state: ManifestState) -> Prepared | None:
        on = Base.of(store, state, request.branch) if insert_only(staged.writes) else staged.base
        made = Made()
        staged.named = False
        try:
            ready = prepare_parts(on, gather(store, on, staged.writes, made), made)
        finally:
            staged.renew(made)
        staged.named = ready is not None
        return ready

    staged.publish(
        staged.base.type(type_name), how, told, lambda: write(store, request, prepare, staged_under=staged.record)
    )


def _how(options: Options, *, overwrite: bool) -> How:
    upsert, delete = options.is_set("upsert"), options.is_set("delete")
    if upsert + delete + overwrite > 1:
        raise InvalidInput(
            message="a write is one of append, upsert, overwrite and delete, and this names several",
            hint='use mode("overwrite") alone, or mode("append") with upsert or delete',
        )
    return How.OVERWRITE if overwrite else How.MERGE if upsert else How.DELETE if delete else How.APPEND
