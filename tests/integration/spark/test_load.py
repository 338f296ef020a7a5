"""Bulk load by Spark gives what the in-process load gives, for files of every format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.integration.spark.graphs import files, make_graph, people, rows
from typer.testing import CliRunner

from headgate.cli.main import app
from headgate.errors import InvalidInput, NotFound
from headgate.graph.graph import Graph
from headgate.spark import SparkSessions, splits
from headgate.spark.load import spark_load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark(sparks: SparkSessions) -> SparkSession:
    return sparks.session(jobs="load")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with make_graph(tmp_path) as graph:
        graph.load({"Person": people("ann", "bob"), "City": [{"name": "Oslo"}]})
        yield graph


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records))
    return path


def test_files_of_every_format_in_one_commit(
    spark: SparkSession, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "_PIECE_BYTES", 64)
    monkeypatch.setattr(splits, "_PIECE_ROWS", 2)
    mixed = lines(
        tmp_path / "mixed.jsonl",
        {"type": "Person", "data": {"key": "cid", "age": 3}},
        {"edge": "Knows", "from": "ann", "to": "cid"},
        {"edge": "Knows", "from": "p1", "to": "c2", "data": {"since": 5}},
        {"type": "City", "data": {"name": "Rome"}},
    )
    parquet = tmp_path / "person.parquet"
    pq.write_table(pa.table({"key": [f"p{n}" for n in range(7)], "age": range(7)}), parquet, row_group_size=1)
    csv = tmp_path / "Person.csv"
    csv.write_text("key,age\nc1,1\nc2,\n")
    before = graph.head().id
    done = spark_load(spark, graph, mixed, parquet, csv, message="all of it")
    assert done.rows == {"Person": 10, "Knows": 2, "City": 1}
    assert (graph.head().parent, graph.head().message) == (before, "all of it")
    assert len(rows(graph, "Person", "key")) == 12
    assert rows(graph, "Knows", "src", "dst", "since") == [("ann", "cid", None), ("p1", "c2", 5)]


def test_the_last_row_of_a_merge_counts_over_all_files(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    one = lines(tmp_path / "one.jsonl", *[{"type": "Person", "data": {"key": "ann", "age": n}} for n in (1, 2)])
    two = lines(tmp_path / "two.jsonl", {"type": "Person", "data": {"key": "ann", "age": 9}})
    done = spark_load(spark, graph, one, two, mode="merge", publish_id="once")
    assert rows(graph, "Person", "key", "age") == [("ann", 9), ("bob", 30)]
    again = spark_load(spark, graph, one, two, mode="merge", publish_id="once")
    assert again.repeated
    assert again.commit == done.commit


def test_every_rejected_row_is_set_aside_with_its_place(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    bad = lines(
        tmp_path / "bad.jsonl",
        {"type": "Person", "data": {"key": "cid", "age": 300}},
        "not json",
        {"type": "Persno", "data": {}},
        {"type": "Person", "data": {"key": "dan"}},
    )
    before, there = graph.head().id, files(graph)
    aside = tmp_path / "rejected.jsonl"
    with pytest.raises(InvalidInput, match="3 rows were rejected") as raised:
        spark_load(spark, graph, bad, rejects=aside)
    assert {problem.where for problem in raised.value.problems} == {"bad.jsonl:1", "bad.jsonl:2", "bad.jsonl:3"}
    told = [json.loads(line) for line in aside.read_text().splitlines()]
    assert sorted(one["where"] for one in told) == ["bad.jsonl:1", "bad.jsonl:2", "bad.jsonl:3"]
    assert graph.head().id == before
    assert files(graph) == there


def test_rows_that_break_rules_are_set_aside(
    spark: SparkSession, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headgate.spark import transaction

    monkeypatch.setattr(transaction, "IN_PROCESS_ROWS", 0)
    edges = lines(tmp_path / "edges.jsonl", *[{"edge": "Knows", "from": "ann", "to": f"no{n}"} for n in range(150)])
    aside = tmp_path / "rejected.jsonl"
    there = files(graph)
    with pytest.raises(InvalidInput, match="150 rows break the schema's rules, of which 100 are shown"):
        spark_load(spark, graph, edges, rejects=aside)
    told = [json.loads(line)["reason"] for line in aside.read_text().splitlines()]
    assert len(told) == 150
    assert "dst names Person no7, which does not exist" in told
    assert files(graph) == there


def test_tables_of_the_catalog_and_urls(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    spark.createDataFrame([("tab", 1)], "key string, age int").createOrReplaceTempView("Person")
    far = lines(tmp_path / "far.jsonl", {"type": "Person", "data": {"key": "far"}})
    csv = tmp_path / "city.csv"
    csv.write_text("name\nLima\n")
    done = spark_load(spark, graph, "table:Person", far.as_uri(), csv.as_uri())
    assert done.rows == {"Person": 2, "City": 1}
    assert rows(graph, "City", "name") == [("Lima",), ("Oslo",)]
    with pytest.raises(InvalidInput, match="the session has no table nope"):
        spark_load(spark, graph, "table:nope", type_name="Person")


def test_bad_sources(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        spark_load(spark, graph, tmp_path / "none.parquet")
    with pytest.raises(InvalidInput, match="holds no rows"):
        spark_load(spark, graph, lines(tmp_path / "empty.jsonl"))
    broken = tmp_path / "person.parquet"
    broken.write_bytes(b"no parquet")
    with pytest.raises(InvalidInput, match="must be a parquet file"):
        spark_load(spark, graph, broken)


def test_the_command_says_which_engine_and_why(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    data = lines(tmp_path / "more.jsonl", {"type": "Person", "data": {"key": "cid"}})
    told = CliRunner().invoke(app, ["graph", "load", graph.uri, str(data), "--json"])
    assert told.exit_code == 0, told.output
    assert "engine local: " in told.stderr
    assert json.loads(told.stdout)["engine"] == "local"
    refused = CliRunner().invoke(app, ["graph", "load", graph.uri, "table:People", "--engine", "local"])
    assert "can be read by Spark alone" in str(refused.exception)
