"""Conditions of loops, as JavaScript reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.orchestrators.engine.conditions import NotACondition, parse

KNOWN = {"loop": {"iteration": 2}, "work": {"result": {"left": 4, "name": "x"}, "list": [5]}, "n": None}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("$.loop['iteration'] < 3", True),
        ("$.loop.iteration >= 3", False),
        ("if ($.loop['iteration'] < 2) { true; } else { false; }", False),
        ("if ($.work.result.left > 0) { return true; } else { return false; }", True),
        ("$.work['result']['name'] == 'x' && !($.loop.iteration === 3)", True),
        ('$.work.result.name !== "x" || $.work.list[0] == 5;', True),
        ("$.loop.iteration < $.work.result.left - 2", False),
        ("$.loop.iteration + 1 < $.work.result.left", True),
        ("$.gone.further < 3", False),
        ("$.gone.further == null", True),
        ("$.n < 1", True),
        ("$.n === 0", False),
        ("'2' == $.loop.iteration", True),
        ("'2' === $.loop.iteration", False),
        ("-1 < 0", True),
        ("true", True),
        ("$.work.list", True),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:
    assert parse(text).holds(KNOWN) is holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "$.a <",
        "alert(1)",
        "$.a = 3",
        "if ($.a) { true; }",
        "$.a < 3 4",
        "for (;;) {}",
        "$.a.map(x => x)",
        "$[x]",
    ],
)
def test_what_is_not_read_is_refused(text: str) -> None:
    with pytest.raises(NotACondition):
        parse(text)


@given(left=st.integers(0, 10**6), right=st.integers(0, 10**6))
def test_numbers_compare_as_numbers(left: int, right: int) -> None:
    known = {"a": {"l": left, "r": right}}
    assert parse("$.a.l < $.a.r").holds(known) is (left < right)
    assert parse("$.a.l === $.a.r").holds(known) is (left == right)
    assert parse(f"$.a.l >= {right}").holds(known) is (left >= right)


def test_the_names_it_asks_for_are_known() -> None:
    assert parse("$.loop['iteration'] < $.n && $.work.x == 1").roots == {"loop", "n", "work"}
