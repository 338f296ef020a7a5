"""A condition means the same to Lance, to Arrow in memory, and to plain Python."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.graph.naive import Naive

from headgate.graph.query.check_mutation import check_mutation
from headgate.graph.query.evaluate import evaluate
from headgate.graph.query.lance_sql import lance_sql
from headgate.graph.query.mutation import BoundDelete, lookup_ids
from headgate.graph.query.parse import parse_queries
from headgate.graph.query.predicate import Predicate
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.parse import parse_schema

SCHEMA = parse_schema("""
node Thing {
  name: String @key  text: String?  flag: Bool?  i: I32?  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?
  day: Date?  at: DateTime?  kind: enum(red, green)?  tags: [String]?  numbers: [I32]?
}
""")
THING = SCHEMA.nodes[0]


def _row(number: int, **values: Any) -> dict[str, Any]:
    return {"id": f"n{number}", "name": f"n{number}", **values}


ROWS = [
    _row(0),
    _row(1, text="it's", flag=True, i=-3, l=2**62, u=7, w=2**64 - 1, f=0.5, d=0.1, kind="red", tags=["x"], numbers=[1]),
    _row(2, text="", flag=False, i=0, l=-1, u=0, w=0, f=0.0, d=-1.5, kind="green", tags=[], numbers=[]),
    _row(3, text="50%_\\", flag=True, i=2**31 - 1, l=0, u=2**32 - 1, w=5, f=1.5, d=1e300, day=date(2024, 2, 29)),
    _row(4, text="é", i=5, l=5, u=5, w=5, f=5.0, d=5.0, day=date(1969, 1, 1), at=datetime(2026, 1, 1, tzinfo=UTC)),
    _row(5, text="abc", tags=["x", "y"], numbers=[5, 6], at=datetime(1960, 5, 1, 1, 2, 3, 456789, tzinfo=UTC)),
]  # fmt: skip
COLUMNS = [field.name for field in arrow_schema(THING)]
FULL = [{name: row.get(name) for name in COLUMNS} for row in ROWS]


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, lance.LanceDataset]:
    table = pa.Table.from_pylist(FULL, schema=arrow_schema(THING))
    dataset = lance.write_dataset(table, str(tmp_path_factory.mktemp("things") / "t.lance"))
    for column in ("name", "i", "w", "at", "kind"):
        dataset.create_scalar_index(column, "BTREE")
    return table, dataset


NUMBERS = st.sampled_from(["-3", "0", "5", "5.0", "0.5", "-1.5", "2.5", "7", "4294967295", "9223372036854775807",
                           "18446744073709551615", "-9223372036854775808"])  # fmt: skip
TEXTS = st.sampled_from(['"it\'s"', '""', '"50%_\\\\"', '"é"', '"abc"', '"b"', '"%"', '"_"'])
OPS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
NUMERIC = st.sampled_from(["i", "l", "u", "w", "f", "d"])


def _in(column: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(values, max_size=3).map(lambda made: f"[{', '.join(made)}]")
    return st.builds("{} {} {}".format, column, st.sampled_from(["in", "not in"]), lists)


LEAVES = st.one_of(
    st.builds("{} {} {}".format, NUMERIC, OPS, NUMBERS),
    st.builds("{} {} {}".format, NUMBERS, OPS, NUMERIC),
    st.builds("{} {} {}".format, NUMERIC, OPS, NUMERIC),
    _in(NUMERIC, NUMBERS),
    st.builds("text {} {}".format, OPS, TEXTS),
    st.builds("text {} {}".format, st.sampled_from(["contains", "starts_with"]), TEXTS),
    _in(st.sampled_from(["text", "name"]), TEXTS),
    st.builds("flag {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(["true", "false"])),
    st.builds("kind {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(['"red"', '"green"', "text"])),
    st.builds("day {} {}".format, OPS, st.sampled_from(['"2024-02-29"', '"1969-01-01"', '"2000-01-01"'])),
    st.builds(
        "at {} {}".format,
        OPS,
        st.sampled_from(['"2026-01-01T01:00:00+01:00"', '"1960-05-01T01:02:03.456789Z"', '"2000-01-01T00:00:00"']),
    ),
    st.builds("tags contains {}".format, st.sampled_from(['"x"', '"z"'])),
    st.builds("{} in numbers".format, st.sampled_from(["5", "i", "l"])),
    st.builds("{} is {}".format, st.sampled_from(COLUMNS), st.sampled_from(["null", "not null"])),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' and '.join(parts)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' or '.join(parts)})"),
        inner.map("not ({})".format),
    ),
    max_leaves=5,
)


def condition(text: str, declared: str = "", given_values: dict[str, Any] | None = None) -> Predicate:
    query = parse_queries(f"query q({declared}) {{ delete Thing where {text} }}")[0]
    (bound,) = check_mutation(query, SCHEMA).bind(given_values)
    assert isinstance(bound, BoundDelete)
    return bound.where


def names(table: pa.Table) -> list[str]:
    return sorted(table["name"].to_pylist())


Things = tuple[pa.Table, lance.LanceDataset]


@settings(max_examples=100, deadline=None)
@given(CONDITIONS)
def test_lance_arrow_and_plain_python_keep_the_same_rows(things: Things, text: str) -> None:
    keep_the_same_rows(things, text)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(CONDITIONS)
def test_many_conditions_keep_the_same_rows(things: Things, text: str) -> None:
    keep_the_same_rows(things, text)


def keep_the_same_rows(things: Things, text: str) -> None:
    table, dataset = things
    where = condition(text)
    by_arrow = names(table.filter(evaluate(where, table)))
    assert names(dataset.to_table(filter=lance_sql(where))) == by_arrow, lance_sql(where)
    by_hand = sorted(row["name"] for row in FULL if Naive({}, {})._holds(where, {"": row}))
    assert by_hand == by_arrow


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('name = "a"', ("a",)),
        ('name in ["a", "b", "a"]', ("a", "b")),
        ('id = "a" and name = "b"', ("a",)),
        ('name = "a" or i = 3', None),
        ('not name = "a"', None),
        ("i = 3", None),
    ],
)
def test_a_fixed_key_gives_the_only_ids_that_can_match(text: str, ids: tuple[str, ...] | None) -> None:
    assert lookup_ids(THING, condition(text)) == ids


def test_a_null_parameter_compares_as_unknown(things: Things) -> None:
    table, _ = things
    for text in ("i = $p", "i != $p", "not i = $p", "i in [1] and i < $p"):
        assert table.filter(evaluate(condition(text, "$p: I32?"), table)).num_rows == 0
    assert table.filter(evaluate(condition("$p is null", "$p: I32?"), table)).num_rows == len(ROWS)


@pytest.mark.parametrize("hostile", ["' or 1=1 --", "`", "\\'", "'; drop table Thing", "%", '"'])
def test_no_value_can_be_read_as_sql(things: Things, hostile: str) -> None:
    _, dataset = things
    where = condition("text = $p or name starts_with $p", "$p: String", {"p": hostile})
    assert dataset.to_table(filter=lance_sql(where)).num_rows == 0
