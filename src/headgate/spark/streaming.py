"""Structured Streaming: each micro-batch is one commit, and a batch that is replayed is known by its publish id."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headgate.errors import InvalidInput
from headgate.graph.graph import Graph
from headgate.graph.write.parts import How
from headgate.spark.transaction import SparkTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

Body: TypeAlias = "Callable[[SparkTransaction, DataFrame], None]"
_QUERY = "sql.streaming.queryId"


def publish_id(query: str, batch: int) -> str:
    """The publish id of a batch: the query's id stays the same over restarts from its checkpoint."""
    return f"spark-stream:{query}:{batch}"


def batches_into(
    graph: Graph, type_name: str, *, how: How | str = How.APPEND, branch: str = "main", actor: str = ""
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that publishes every batch of rows of one type exactly once."""
    if how not in list(How):
        raise InvalidInput(message=f"batches are written by {how!r}", hint=f"use {', '.join(How)}")

    def body(transaction: SparkTransaction, frame: DataFrame) -> None:
        getattr(transaction, str(How(how)))(type_name, frame)

    return each_batch(graph, body, branch=branch, actor=actor)


def each_batch(graph: Graph, body: Body, *, branch: str = "main", actor: str = "") -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that runs `body` in a transaction of each batch, published exactly once.

    Spark may hand out a batch again after a crash. Its publish id is made of the query and the number of the batch,
    so a batch that was published is recognised, and nothing of it is staged again.
    """

    def publish(frame: DataFrame, number: int) -> None:
        spark = frame.sparkSession
        query = spark.sparkContext.getLocalProperty(_QUERY) or "no-query"
        known = publish_id(query, number)
        if graph.find_publish(known) is not None:
            log.info("batch %s of query %s is published already", number, query)
            return
        transaction = graph.transaction(
            spark, branch=branch, actor=actor, message=f"batch {number} of query {query}", publish_id=known
        )
        assert isinstance(transaction, SparkTransaction)
        with transaction:
            body(transaction, frame)

    return publish
