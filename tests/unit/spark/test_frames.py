"""Columns of DataFrames, conditions for Lance, and workers that differ: decided without a session."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import datasource as ds
from pyspark.sql import types as st

import headgate.graph as hg
from headgate.errors import InvalidInput, MissingExtra
from headgate.graph.schema.parse import parse_schema
from headgate.graph.write.parts import How
from headgate.spark.filters import split
from headgate.spark.options import WRITE, Options
from headgate.spark.pinned import SPLIT_ROWS, Fragment, Pinned, Split
from headgate.spark.reading import pinned
from headgate.spark.types import check_frame, spark_columns
from headgate.spark.work import grouped
from headgate.spark.workers import differing

SCHEMA = parse_schema(
    """
node Person { key: String @key  age: I32?  size: U64?  day: Date?  at: DateTime?  tags: [String]?  score: F64? }
node Pair { a: String  b: I64  @key(a, b) }
edge Knows: Person -> Person { since: I32 }
edge Has: Person -> Pair
"""
)


SIMPLE = {
    "string": st.StringType(),
    "int": st.IntegerType(),
    "bigint": st.LongType(),
    "double": st.DoubleType(),
    "date": st.DateType(),
    "timestamp": st.TimestampType(),
    "decimal(20;0)": st.DecimalType(20, 0),
    "array<string>": st.ArrayType(st.StringType()),
}


def struct(ddl: str) -> st.StructType:
    """Reading it as Spark does would need a JVM."""
    pairs = [column.split() for column in ddl.split(", ")]
    return st.StructType([st.StructField(name, SIMPLE[kind]) for name, kind in pairs])


def problems(name: str, ddl: str, how: How = How.APPEND) -> list[str]:
    table = SCHEMA.find(name)
    assert table is not None
    try:
        check_frame(SCHEMA, table, struct(ddl), how)
    except InvalidInput as error:
        return [f"{problem.where} {problem.message}" for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("name", "ddl"),
    [
        ("Person", "key string, age int, size decimal(20;0), day date, at timestamp, tags array<string>, score double"),
        ("Person", "key string, age bigint, size bigint, score int"),
        ("Knows", "src string, dst string, since int"),
        ("Knows", "from string, to string, since int, id string"),
        ("Has", "src string, dst array<string>"),
    ],
)
def test_frames_that_fit(name: str, ddl: str) -> None:
    assert problems(name, ddl) == []


def test_all_that_does_not_fit_is_told() -> None:
    assert problems("Person", "id string, age string, day timestamp, tags string, nope int") == [
        "id is made of the key, and is not given",
        "age is string, and I32 takes int",
        "day is timestamp, and Date takes date",
        "tags is string, and [String] takes array<string>",
        "nope is no property of Person",
        "key is required, and is missing",
    ]
    assert problems("Knows", "src int, since int, id int") == [
        "src is int, and the key of Person takes string",
        "id is int, and an id is string",
        "dst is required, and is missing",
    ]
    assert problems("Has", "src string, dst string") == [
        "dst is string, and names a Pair by an array of its key's values"
    ]
    assert problems("Person", "key string, key string") == ["key is there more than once"]


def test_rows_are_removed_by_id_or_key() -> None:
    assert problems("Person", "id string", How.DELETE) == []
    assert problems("Pair", "a string, b bigint, more int", How.DELETE) == []
    assert problems("Pair", "a string", How.DELETE) == ["b is missing: rows of Pair are removed by id, or by a, b"]
    assert problems("Knows", "src string", How.DELETE) == ["id is missing: rows of Knows are removed by their id"]


def test_conditions_that_lance_takes() -> None:
    kinds = {"key": "String", "age": "I32", "size": "U64", "day": "Date", "at": "DateTime", "tags": "", "score": "F64"}
    taken, left = split(
        kinds,
        [
            ds.EqualTo(("key",), "o'hara"),
            ds.In(("age",), (1, 2)),
            ds.Not(ds.GreaterThan(("score",), 0.5)),
            ds.EqualNullSafe(("day",), date(2020, 1, 2)),
            ds.StringStartsWith(("key",), "a"),
            ds.LessThan(("size",), Decimal(7)),
            ds.IsNull(("tags",)),
            ds.EqualTo(("at",), datetime(2020, 1, 2, tzinfo=UTC)),
            ds.StringContains(("key",), "50%"),
            ds.In(("age",), (1, None)),
            ds.EqualTo(("score",), float("nan")),
            ds.EqualTo(("tags", "x"), 1),
        ],
    )
    assert taken == [
        "`key` = 'o''hara'",
        "`age` IN (1, 2)",
        "NOT (`score` > 0.5)",
        "(`day` IS NOT NULL AND `day` = date '2020-01-02')",
        "`key` LIKE 'a%'",
        "`size` < 7",
    ]
    assert len(left) == 6


def test_columns_as_spark_reads_them() -> None:
    table = SCHEMA.find("Person")
    assert table is not None
    assert spark_columns(table)["size"] == "decimal(20,0)"
    assert list(spark_columns(table))[:2] == ["id", "key"]


def test_workers_that_differ() -> None:
    here = {"python": "3.11", "pylance": "1.0"}
    assert differing(here, [here, dict(here)]) == ()
    [problem] = differing(here, [here, {"python": "3.11", "pylance": "2.0"}])
    assert (problem.where, problem.message) == ("pylance", "is 2.0 there and 1.0 here")


def test_pieces_in_groups_of_one_size() -> None:
    assert grouped(list("abcdef"), [1] * 6, at_most=3) == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert grouped(list("ab"), [0, 0], at_most=4) == [["a", "b"]]
    assert [len(group) for group in grouped(list(range(10)), [100, *[1] * 9], at_most=2)] == [1, 9]


def test_graphframes_that_are_not_there(tmp_path: Path) -> None:
    if importlib.util.find_spec("graphframes") is not None:
        pytest.skip("GraphFrames is installed")
    with hg.init(tmp_path / "graph", "node Person { key: String @key }") as graph:
        with pytest.raises(MissingExtra, match="GraphFrames is not installed") as raised:
            graph.snapshot().graphframe(None)
        assert "pip install graphframes-py" in raised.value.hint


def test_options_that_are_wrong_are_told_together() -> None:
    with pytest.raises(InvalidInput) as raised:
        Options.parse({"grpah": "x", "type": "Person", "upsert": "maybe"}, WRITE)
    told = raised.value.message
    assert "there is no option grpah; did you mean graph?" in told
    assert "the option graph is missing" in told
    assert "upsert is 'maybe'" in told
    parsed = Options.parse({"path": "./g", "Type": "Person", "storage.aws_region": "eu", "Delete": "TRUE"}, WRITE)
    assert (parsed.get("graph"), parsed.storage, parsed.is_set("delete")) == ("./g", {"aws_region": "eu"}, True)


def test_what_is_pinned_travels_as_text(tmp_path: Path) -> None:
    with hg.init(tmp_path / "graph", "node Person { key: String @key  tags: [String]? }") as graph:
        graph.load({"Person": [{"key": "ann"}, {"key": "bob"}]})
        what = pinned(graph.base(), "Person", ["tags", "key"])
    assert Pinned.from_text(what.to_text()) == what
    assert what.ddl == "`tags` array<string>, `key` string"
    assert what.kinds == {"id": "String", "key": "String", "tags": ""}
    assert what.splits(whole=True) == [Split(0, 0, 2)]
    large = replace(what, fragments=(Fragment(3, SPLIT_ROWS + 1), Fragment(4, 0)))
    assert large.splits(whole=False) == [Split(3, 0, SPLIT_ROWS), Split(3, SPLIT_ROWS, SPLIT_ROWS)]
