"""The data source `headgate`: pinned reads, pushed conditions, writes as one commit each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.spark.graphs import files, make_graph, people, rows

from headgate.errors import InvalidInput
from headgate.graph.graph import Graph
from headgate.spark import SparkSessions, changes_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark(sparks: SparkSessions) -> SparkSession:
    return sparks.session(jobs="source")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with make_graph(tmp_path) as graph:
        graph.load({"Person": people("ann", "bob", "cid")})
        graph.load({"Person": people("dan", age=40)})
        graph.load({"Knows": [{"from": "ann", "to": "bob", "since": 1}]})
        yield graph


def read(spark: SparkSession, graph: Graph, **options: Any) -> DataFrame:
    return spark.read.format("headgate").options(graph=graph.uri, **{"type": "Person", **options}).load()


def written(frame: DataFrame, graph: Graph, mode: str = "append", **options: Any) -> None:
    frame.write.format("headgate").mode(mode).options(graph=graph.uri, **{"type": "Person", **options}).save()


def test_a_frame_is_pinned_when_it_is_made(spark: SparkSession, graph: Graph) -> None:
    frame = read(spark, graph)
    assert frame.columns == ["id", "key", "name", "age", "mail"]
    first = graph.head().id
    graph.load({"Person": people("eve")})
    assert frame.count() == 4
    assert read(spark, graph).count() == 5
    assert read(spark, graph, commit=first).count() == 4
    assert {row.key for row in read(spark, graph, branch="main", columns="key, age").collect()} >= {"ann", "eve"}


def test_a_partition_a_fragment_and_conditions_in_lance(spark: SparkSession, graph: Graph) -> None:
    frame = read(spark, graph)
    assert frame.rdd.getNumPartitions() == 2
    old = frame.where("age > 35 AND key IN ('dan', 'ann') AND name LIKE 'name%' AND mail IS NULL")
    plan = old._jdf.queryExecution().executedPlan().toString()
    assert [row.key for row in old.collect()] == ["dan"]
    assert "Filter " not in plan, plan
    assert frame.where("length(name) > 100").count() == 0


def test_sql_reads_a_view(spark: SparkSession, graph: Graph) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW folk USING headgate "
        f"OPTIONS (graph '{graph.uri}', type 'Person', branch 'main')"
    )
    [row] = spark.sql("SELECT count(*) AS n, max(age) AS oldest FROM folk WHERE age >= 30").collect()
    assert (row.n, row.oldest) == (4, 40)


def test_views_of_a_snapshot(spark: SparkSession, graph: Graph) -> None:
    snapshot = graph.snapshot()
    assert snapshot.register(spark, prefix="then_") == tuple(
        f"then_{name}" for name in ("Person", "City", "Knows", "LivesIn", "Owns")
    )
    graph.load({"Person": people("eve")})
    query = "SELECT p.key FROM then_Knows k JOIN then_Person p ON k.src = p.id"
    assert [row.key for row in spark.sql(query).collect()] == ["ann"]
    assert spark.table("then_Person").count() == 4
    assert spark.table("then_City").count() == 0
    assert snapshot.frame(spark, "Person", columns=["key"]).columns == ["key"]


def test_every_type_of_column_comes_back_as_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    schema = """node Thing { key: I64 @key
      s: String  b: Bool  i: I32  u: U32  w: U64  f: F32  d: F64  day: Date  at: DateTime
      blob: Blob  v: Vector(2)  e: enum(red, green)  many: [String] }"""
    values = (
        *(7, "s", True, -1, 2**32 - 1, Decimal(2**64 - 1), 0.5, 0.25, date(2020, 2, 29)),
        *(datetime(2020, 1, 2, 3, 4, 5, 6000, tzinfo=UTC), bytearray(b"\x00x"), [0.5, 1.5], "red", ["a", "b"]),
    )
    ddl = (
        "key bigint, s string, b boolean, i int, u bigint, w decimal(20,0), f float, d double, day date, at timestamp, "
        "blob binary, v array<float>, e string, many array<string>"
    )
    with make_graph(tmp_path, schema) as graph:
        given = spark.createDataFrame([values], ddl)
        written(given, graph, type="Thing")
        back = read(spark, graph, type="Thing")
        assert back.drop("id").schema.simpleString() == given.schema.simpleString()
        assert back.drop("id").collect() == given.collect()
        with graph.transaction(spark) as tx:
            tx.merge("Thing", back.drop("id").selectExpr("*").withColumn("s", back.s))
        assert back.where("w = 18446744073709551615 AND day = date'2020-02-29' AND b AND d < 0.3").count() == 1
        assert back.where("at > timestamp'2019-01-01 00:00:00' AND array_contains(many, 'a')").count() == 1


def test_writes_append_upsert_overwrite_delete(spark: SparkSession, graph: Graph) -> None:
    ddl = "key string, age int"
    written(spark.createDataFrame([("eve", 1), ("fox", 2)], ddl), graph, actor="ada", message="more")
    assert (graph.head().actor, graph.head().message) == ("ada", "more")
    written(spark.createDataFrame([("eve", 5), ("gus", 6)], ddl), graph, upsert="true")
    assert rows(graph, "Person", "key", "age")[-3:] == [("eve", 5), ("fox", 2), ("gus", 6)]
    written(spark.createDataFrame([("ann",), ("gus",)], "key string"), graph, delete="true")
    assert [key for (key,) in rows(graph, "Person", "key")] == ["bob", "cid", "dan", "eve", "fox"]
    assert rows(graph, "Knows", "src") == []
    written(spark.createDataFrame([("zoe", 9)], ddl), graph, "overwrite")
    assert rows(graph, "Person", "key", "age") == [("zoe", 9)]


def test_a_publish_id_is_written_once(spark: SparkSession, graph: Graph) -> None:
    frame = spark.createDataFrame([("eve", 1)], "key string, age int")
    written(frame, graph, publishId="one")
    head = graph.head().id
    written(frame, graph, publishId="one")
    assert graph.head().id == head


BAD: dict[str, tuple[str, list[tuple[Any, ...]], dict[str, str], list[str]]] = {
    "columns": ("nmae string, age string", [("x", "y")], {}, ["nmae", "age is string", "key is required"]),
    "options": ("key string", [("x",)], {"tpye": "Person", "upsert": "maybe"}, ["tpye", "true or false"]),
    "modes": ("key string", [("x",)], {"upsert": "true", "delete": "true"}, ["names several"]),
    "twice": ("key string", [("x",), ("x",)], {}, ["given more than once: 'x'"]),
    "taken": ("key string", [("ann",)], {}, ["there is a Person ann already"]),
    "nulls": ("key string, age int", [(None, 1), ("x", 1)], {}, ["1 rows do not fit Person"]),
    "dangling": ("src string, dst string", [("ann", "zed")], {"type": "Knows"}, ["rows break the schema's rules"]),
}


@pytest.mark.parametrize("case", BAD)
def test_invariant_9_a_bad_write_is_told_and_changes_nothing(spark: SparkSession, graph: Graph, case: str) -> None:
    ddl, given, options, told = BAD[case]
    before, there = graph.head().id, files(graph)
    with pytest.raises(Exception) as raised:
        written(spark.createDataFrame(given, ddl), graph, **options)
    for text in told:
        assert text in str(raised.value)
    assert graph.head().id == before
    assert files(graph) == there


def test_bad_reads(spark: SparkSession, graph: Graph) -> None:
    for options, told in (
        ({"type": "Persno"}, "there is no type Persno"),
        ({"columns": "key,agee"}, "has no column agee"),
        ({"commit": "nope"}, "nope"),
        ({"branch": "nope"}, "nope"),
        ({"brnch": "x"}, "there is no option brnch"),
    ):
        with pytest.raises(Exception) as raised:
            read(spark, graph, **options)
        assert told in str(raised.value), options
    with pytest.raises(InvalidInput, match="no column nope"):
        graph.snapshot().frame(spark, "Person", columns=["nope"])


def test_changes_are_those_that_the_graph_tells(spark: SparkSession, graph: Graph) -> None:
    old = graph.head().id
    graph.mutate('query q() { update Person set { age: 99 } where key = "bob"  delete Person where key = "cid" }')
    graph.load({"Person": people("eve")})
    new = graph.head().id
    told = sorted(
        (change.kind, change.id, change.before, change.after) for change in graph.changes(old, new, types=["Person"])
    )
    found = sorted(
        (row.kind, row.id, row.before and row.before.asDict(), row.after and row.after.asDict())
        for row in changes_frame(spark, graph, "Person", old, new).collect()
    )
    assert found == told
    assert [(kind, key) for kind, key, _, _ in found] == [("added", "eve"), ("changed", "bob"), ("removed", "cid")]
    assert changes_frame(spark, graph, "Person", new, new).collect() == []
