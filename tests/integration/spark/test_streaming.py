"""Structured Streaming publishes every micro-batch exactly once, replays included."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.spark.graphs import make_graph, rows

from headgate.errors import InvalidInput
from headgate.spark import SparkSessions
from headgate.spark.streaming import batches_into, each_batch, publish_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headgate.spark.transaction import SparkTransaction

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark(sparks: SparkSessions) -> SparkSession:
    return sparks.session(jobs="streaming")


def arrive(folder: Path, name: str, *keys: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text("".join(json.dumps({"key": key}) + "\n" for key in keys))


def run(spark: SparkSession, root: Path, publish: object) -> None:
    stream = spark.readStream.schema("key string").json(str(root / "in"))
    query = (
        stream.writeStream.foreachBatch(publish)
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_replayed_batch_is_published_once(spark: SparkSession, tmp_path: Path) -> None:
    with make_graph(tmp_path) as graph:
        arrive(tmp_path / "in", "one", "ann", "bob")
        run(spark, tmp_path, batches_into(graph, "Person", actor="stream"))
        head = graph.head()
        query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
        assert graph.find_publish(publish_id(query, 0)) is not None
        assert head.actor == "stream"
        # As after a crash between the commit of the batch and Spark's own note of it.
        shutil.rmtree(tmp_path / "checkpoint" / "commits")
        run(spark, tmp_path, batches_into(graph, "Person"))
        assert graph.head().id == head.id
        arrive(tmp_path / "in", "two", "cid")
        run(spark, tmp_path, batches_into(graph, "Person"))
        assert rows(graph, "Person", "key") == [("ann",), ("bob",), ("cid",)]


def test_a_batch_may_write_several_types(spark: SparkSession, tmp_path: Path) -> None:
    def body(tx: SparkTransaction, frame: DataFrame) -> None:
        tx.merge("Person", frame)
        tx.merge("City", frame.selectExpr("'Oslo' AS name").distinct())
        tx.append("LivesIn", frame.selectExpr("key AS src", "'Oslo' AS dst"))

    with make_graph(tmp_path) as graph:
        arrive(tmp_path / "in", "one", "ann", "bob")
        run(spark, tmp_path, each_batch(graph, body))
        assert rows(graph, "LivesIn", "src", "dst") == [("ann", "Oslo"), ("bob", "Oslo")]
        assert graph.head().message.startswith("batch 0 of query ")


def test_an_unknown_way_to_write(tmp_path: Path) -> None:
    with make_graph(tmp_path) as graph, pytest.raises(InvalidInput, match="'upsert'"):
        batches_into(graph, "Person", how="upsert")
