"""Expressions: typed where they are the whole text, a text where they are part of one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.orchestrators.engine.expressions import NotAnExpression, parse, resolve

KNOWN = {
    "workflow": {"input": {"n": 3, "list": [1, {"x": "y"}], "none": None, "yes": True, "a b": 1}},
    "ref": {"output": {"result": {"z": 1.5}, "name": "Ü"}, "status": "COMPLETED"},
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${workflow.input.n}", 3),
        ("${ workflow.input.n }", 3),
        ("${workflow.input.list}", [1, {"x": "y"}]),
        ("${workflow.input.list[1].x}", "y"),
        ("${workflow.input.list[-1]['x']}", "y"),
        ('${workflow.input["a b"]}', 1),
        ("${ref.output.result.z}", 1.5),
        ("${ref.output.result}", {"z": 1.5}),
        ("${ref.output.gone.further}", None),
        ("${workflow.input.list[7]}", None),
        ("${workflow.input.list.x}", None),
        ("${other.output}", None),
        ("n=${workflow.input.n}!", "n=3!"),
        ("${workflow.input.n}${workflow.input.n}", "33"),
        ("${workflow.input.none}/${workflow.input.yes}", "null/true"),
        ("x ${ref.output.result} ${workflow.input.list}", "x {z=1.5} [1, {x=y}]"),
        ("$${workflow.input.n}", "${workflow.input.n}"),
        ("costs 3$", "costs 3$"),
        ("{}", "{}"),
    ],
)
def test_a_text_is_resolved(text: str, value: Any) -> None:
    assert resolve(text, KNOWN) == value


@pytest.mark.parametrize("text", ["${", "${a.${b}}", "${}", "${ }", "${1a}", "${a..b}", "${a[*]}", "${a.b[?(@.x)]}"])
def test_what_is_not_read_is_refused(text: str) -> None:
    with pytest.raises(NotAnExpression, match=re.escape(text[:2])):
        parse(text)


@given(value=json_values)
def test_a_whole_expression_keeps_the_type_of_its_value(value: Any) -> None:
    found = resolve({"a": ["${workflow.input.x}"]}, {"workflow": {"input": {"x": value}}})
    assert found == {"a": [value]}
    assert type(found["a"][0]) is type(value)


@given(value=json_values, before=st.text(alphabet="ab {}$", max_size=4).filter(lambda text: "$" not in text))
def test_an_expression_inside_a_text_gives_a_text(value: Any, before: str) -> None:
    found = resolve(before + "-${workflow.input.x}", {"workflow": {"input": {"x": value}}})
    assert isinstance(found, str)
    assert found.startswith(before + "-")


@given(value=json_values)
def test_a_value_without_expressions_is_left_as_it_is(value: Any) -> None:
    if "${" not in repr(value):
        assert resolve(value, {}) == value


@given(value=json_values)
def test_what_an_expression_brings_in_is_not_read_again(value: str) -> None:
    """Data is never taken for a program."""
    known = {"workflow": {"input": {"x": "${workflow.input.y}", "y": value}}}
    assert resolve("${workflow.input.x}", known) == "${workflow.input.y}"
