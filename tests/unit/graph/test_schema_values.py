"""What a property accepts, value by value and column by column: both must agree."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.schema.arrow import PROPERTY_ID, arrow_schema, arrow_type
from headgate.graph.schema.keys import row_id, row_ids
from headgate.graph.schema.model import (
    Annotations,
    Cardinality,
    Check,
    EdgeType,
    Index,
    Key,
    Kind,
    NodeType,
    Property,
    PropertyType,
    Range,
    Schema,
    Unique,
    with_ids,
)
from headgate.graph.schema.serial import schema_from_json, schema_to_json
from headgate.graph.schema.values import BadValue, Rules, check_column, coerce

COLOR = PropertyType(Kind.ENUM, values=("red", "green"))
PERSON = NodeType(
    "Person",
    (
        Property("name", PropertyType(Kind.STRING)),
        Property("age", PropertyType(Kind.I32), nullable=True),
        Property("tags", PropertyType(Kind.STRING, is_list=True), nullable=True),
        Property("face", PropertyType(Kind.VECTOR, size=3), nullable=True),
    ),
    (Key(("name",)), Range("age", 0, 150), Unique(("age", "name")), Index("age"), Check("name", "[a-z]+")),
)
KNOWS = EdgeType(
    "Knows", (Property("since", PropertyType(Kind.DATE)),), src="Person", dst="Person", cardinality=Cardinality(0, 5)
)
SCHEMA = Schema((PERSON,), (KNOWS,))


def rules(kind: Kind, **more: Any) -> Rules:
    made = {name: more.pop(name) for name in ("is_list", "values", "size") if name in more}
    return Rules("x", PropertyType(kind, **made), **more)


@pytest.mark.parametrize(
    ("rule", "value", "code"),
    [
        (rules(Kind.STRING), None, "required"),
        (rules(Kind.STRING), 3, "type"),
        (rules(Kind.STRING), "\ud800", "text"),
        (rules(Kind.BOOL), 1, "type"),
        (rules(Kind.I32), True, "type"),
        (rules(Kind.I32), 2**31, "out_of_range"),
        (rules(Kind.U32), -1, "out_of_range"),
        (rules(Kind.U64), 2**64, "out_of_range"),
        (rules(Kind.I64), 1.5, "type"),
        (rules(Kind.F64), math.nan, "not_finite"),
        (rules(Kind.F64), math.inf, "not_finite"),
        (rules(Kind.F64), 10**400, "not_finite"),
        (rules(Kind.F32), 1e39, "out_of_range"),
        (rules(Kind.DATE), "2026-02-30", "no_such_date"),
        (rules(Kind.DATE), "2026-2-3", "type"),
        (rules(Kind.DATE), datetime(2026, 1, 1, tzinfo=UTC), "type"),
        (rules(Kind.DATETIME), "2026-02-30T00:00:00Z", "no_such_date"),
        (rules(Kind.DATETIME), "0001-01-01T00:00:00+01:00", "no_such_date"),
        (rules(Kind.DATETIME), "yesterday", "type"),
        (rules(Kind.BLOB), "not base64!", "type"),
        (rules(Kind.VECTOR, size=2), [1.0], "size"),
        (rules(Kind.VECTOR, size=2), [1.0, math.nan], "not_finite"),
        (rules(Kind.ENUM, values=("a", "b")), "c", "enum"),
        (rules(Kind.I32, is_list=True), [1, "two"], "type"),
        (rules(Kind.I32, is_list=True), [1, None], "type"),
        (rules(Kind.I32, is_list=True), 7, "type"),
        (rules(Kind.I32, ranges=(Range("x", 0, 9),)), 10, "range"),
        (rules(Kind.F64, ranges=(Range("x", 0.5, None),)), 0.25, "range"),
        (rules(Kind.DATE, ranges=(Range("x", "2020-01-01", None),)), "2019-12-31", "range"),
        (rules(Kind.STRING, checks=(Check("x", "[a-z]+"),)), "ab\n", "check"),
    ],
)
def test_a_bad_value_is_refused_with_its_code_alone_and_in_a_column(rule: Rules, value: Any, code: str) -> None:
    with pytest.raises(BadValue) as caught:
        coerce(rule, value)
    assert caught.value.code == code
    assert "x" in caught.value.message
    try:
        column = pa.array([value])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return  # a value no Arrow column can hold
    assert check_column(rule, column).bad[0].code == code


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        (rules(Kind.I32), 3.0, 3),
        (rules(Kind.U64), 2**63 - 1, 2**63 - 1),
        (rules(Kind.F64), 3, 3.0),
        (rules(Kind.DATE), "2024-02-29", date(2024, 2, 29)),
        (rules(Kind.DATETIME), "2026-01-01T01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC)),
        (rules(Kind.DATETIME), "2026-01-01 00:00", datetime(2026, 1, 1, tzinfo=UTC)),
        (rules(Kind.BLOB), "aGk=", b"hi"),
        (rules(Kind.VECTOR, size=2), [1, 2.5], [1.0, 2.5]),
        (rules(Kind.I32, ranges=(Range("x", 0, 9),)), 9, 9),
        (rules(Kind.STRING, nullable=True), None, None),
    ],
)
def test_a_good_value_is_the_same_alone_and_in_a_column(rule: Rules, value: Any, expected: Any) -> None:
    assert coerce(rule, value) == expected
    checked = check_column(rule, pa.array([value]))
    assert not checked.bad
    assert checked.array.type == arrow_type(rule.type)
    assert checked.array.to_pylist() == [expected]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(Kind.I32, " 12 ", 12), (Kind.BOOL, "TRUE", True), (Kind.F64, "1e3", 1000.0), (Kind.STRING, " a ", " a ")],
)
def test_text_without_types_is_read_by_the_declared_one(kind: Kind, text: str, expected: Any) -> None:
    assert coerce(rules(kind), text, text=True) == expected
    assert check_column(rules(kind), pa.array([text]), text=True).array.to_pylist() == [expected]


def test_a_column_tells_every_bad_row_and_keeps_the_good_ones() -> None:
    checked = check_column(rules(Kind.I32, ranges=(Range("x", 0, 9),)), pa.array([1, 50, 3, -2]))
    assert sorted(checked.bad) == [1, 3]
    assert checked.array.to_pylist() == [1, None, 3, None]


def test_nulls_of_a_nullable_enum_are_no_members_and_still_fine() -> None:
    checked = check_column(rules(Kind.ENUM, values=("a",), nullable=True), pa.array(["a", None]))
    assert not checked.bad


ANY_VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=4), st.dates().map(str)
)
ANY_RULE = st.builds(
    lambda kind, nullable, is_list: Rules(
        "x", PropertyType(kind, is_list, ("a", "b") if kind is Kind.ENUM else (), 0), nullable
    ),
    st.sampled_from([kind for kind in Kind if kind is not Kind.VECTOR]),
    st.booleans(),
    st.just(False),
)


@given(ANY_RULE, st.lists(ANY_VALUE, min_size=1, max_size=5))
def test_column_and_single_value_agree(rule: Rules, values: list[Any]) -> None:
    try:
        column = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return
    checked = check_column(rule, column)
    for row, value in enumerate(column.to_pylist()):
        expected = _coerced(rule, value)
        if isinstance(expected, BadValue):
            assert checked.bad[row].code == expected.code
            continue
        assert row not in checked.bad
        assert checked.array[row].as_py() == expected


def _coerced(rule: Rules, value: Any) -> Any:
    try:
        return coerce(rule, value)
    except BadValue as problem:
        return problem


def test_tables_have_their_system_columns_then_the_properties() -> None:
    schema = with_ids(SCHEMA)
    assert arrow_schema(schema.nodes[0]).names == ["id", "name", "age", "tags", "face"]
    assert arrow_schema(schema.edges[0]).names == ["id", "src", "dst", "since"]
    age = arrow_schema(schema.nodes[0]).field("age")
    assert age.type == pa.int32()
    assert age.nullable
    assert age.metadata == {PROPERTY_ID: str(schema.nodes[0].property("age").id).encode()}


KEY_VALUES = st.one_of(
    st.tuples(st.just(pa.string()), st.text(st.characters(codec="utf-8"), max_size=6)),
    st.tuples(st.just(pa.int64()), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(pa.uint64()), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(pa.bool_()), st.booleans()),
    st.tuples(st.just(pa.date32()), st.dates()),
    st.tuples(st.just(pa.timestamp("us", tz="UTC")), st.datetimes(timezones=st.just(timezone(timedelta(hours=-5))))),
)


@given(st.lists(KEY_VALUES, min_size=1, max_size=3))
def test_an_id_is_the_same_for_one_row_and_for_a_column(parts: list[tuple[pa.DataType, Any]]) -> None:
    try:
        columns = [pa.array([value, value], kind) for kind, value in parts]
    except OverflowError:
        return
    alone = row_id([value for _, value in parts])
    assert row_ids(columns).to_pylist() == [alone, alone]
    if len(parts) > 1:
        assert isinstance(json.loads(alone), list)


def test_ids_of_types_and_properties_survive_a_rename_and_are_never_reused() -> None:
    first = with_ids(SCHEMA)
    renamed = Property("years", PropertyType(Kind.I32), nullable=True, annotations=Annotations(rename_from="age"))
    kept = tuple(renamed if item.name == "age" else item for item in PERSON.properties if item.name != "tags")
    new = Property("city", PropertyType(Kind.STRING), nullable=True)
    second = with_ids(Schema((NodeType("Person", (*kept, new)),), (KNOWS,)), first)
    assert second.nodes[0].property("years").id == first.nodes[0].property("age").id
    assert second.nodes[0].property("city").id == first.next_id
    assert second.next_id == first.next_id + 1


def test_a_stored_schema_reads_back_and_ignores_fields_of_a_later_version() -> None:
    schema = with_ids(SCHEMA)
    stored = json.loads(schema_to_json(schema))
    stored["later"] = {"x": 1}
    stored["nodes"][0]["properties"][0]["later"] = True
    assert schema_from_json(json.dumps(stored)) == schema
