"""Merging branches whose schemas have changed: on one side, on both, in ways that fit together and ways that do not."""

from __future__ import annotations

from typing import Any

import pytest

import headgate.graph as hg
from headgate.errors import MergeConflict
from headgate.graph.merge import ConflictKind

START = """node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { }"""
CHANGED = """node Person { name: String @key  years: I32? @rename_from("age")  city: String @default("rome") }
node Tag { word: String @key }
edge Knows: Person -> Person { }
edge Tagged: Person -> Tag { }"""
RANGED = """node Person { name: String @key  age: I32? @range(age, 0..50) }
edge Knows: Person -> Person { }"""
UNIQUE = """node Person { name: String @key  age: I32? @unique }
edge Knows: Person -> Person { }"""


def people(graph: hg.Graph, branch: str = "main") -> dict[str, dict[str, Any]]:
    found = graph.base(branch=branch).dataset("Person").to_table().to_pylist()
    assert len(found) == graph.base(branch=branch).rows["Person"]
    return {row.pop("id"): row for row in found}


def put(graph: hg.Graph, branch: str, **rows: Any) -> None:
    with graph.transaction(branch=branch) as work:
        work.merge("Person", [{"name": name, **row} for name, row in rows.items()])


@pytest.fixture
def graph(place: str) -> hg.Graph:
    made = hg.init(place, START)
    put(made, "main", ann={"age": 1}, bob={"age": 2})
    made.create_branch("side")
    return made


@pytest.mark.parametrize("moved", [False, True])
def test_a_schema_changed_in_theirs_comes_with_its_rows(graph: hg.Graph, moved: bool) -> None:
    graph.apply_schema(CHANGED, branch="side")
    put(graph, "side", cy={"years": 3, "city": "oslo"})
    with graph.transaction(branch="side") as work:
        work.append("Tag", [{"word": "new"}])
        work.append("Tagged", [{"from": "cy", "to": "new"}])
    if moved:
        put(graph, "main", ann={"age": 10}, dee={"age": 4})
    graph.merge("side")
    expected: dict[str, dict[str, Any]] = {
        "ann": {"name": "ann", "years": 10 if moved else 1, "city": "rome"},
        "bob": {"name": "bob", "years": 2, "city": "rome"},
        "cy": {"name": "cy", "years": 3, "city": "oslo"},
    }
    if moved:
        expected["dee"] = {"name": "dee", "years": 4, "city": "rome"}
    assert people(graph) == expected
    assert graph.base().rows["Tagged"] == 1
    assert len(graph.query("query q() { match { $p: Person $p tagged $t } return { $t.word } }")) == 1
    with graph.transaction() as work:
        work.merge("Person", [{"name": "eve", "years": 5}])
        work.append("Tag", [{"word": "more"}])
    assert people(graph)["eve"]["city"] == "rome"
    assert "eve" not in people(graph, "side")
    graph.merge("main", "side")
    assert people(graph, "side") == people(graph)


def test_a_schema_changed_in_ours_takes_older_rows(graph: hg.Graph) -> None:
    graph.apply_schema(CHANGED)
    put(graph, "main", ann={"years": 1, "city": "bonn"})
    put(graph, "side", ann={"age": 11}, cy={"age": 3})
    graph.merge("side")
    assert people(graph) == {
        "ann": {"name": "ann", "years": 11, "city": "bonn"},
        "bob": {"name": "bob", "years": 2, "city": "rome"},
        "cy": {"name": "cy", "years": 3, "city": "rome"},
    }


@pytest.mark.parametrize("strict_in", ["main", "side"])
def test_rows_of_one_side_that_break_a_rule_of_the_other(graph: hg.Graph, strict_in: str) -> None:
    other = "side" if strict_in == "main" else "main"
    graph.apply_schema(RANGED, branch=strict_in)
    put(graph, other, cy={"age": 99})
    with pytest.raises(MergeConflict) as told:
        graph.merge("side")
    (found,) = told.value.conflicts
    assert (found.kind, found.type, found.id) == (ConflictKind.VALUE, "Person", "cy")
    put(graph, other, cy={"age": 9})
    graph.merge("side")
    assert people(graph)["cy"]["age"] == 9


@pytest.mark.parametrize("strict_in", ["main", "side"])
def test_rows_of_one_side_that_are_not_unique_on_the_other(graph: hg.Graph, strict_in: str) -> None:
    other = "side" if strict_in == "main" else "main"
    graph.apply_schema(UNIQUE, branch=strict_in)
    put(graph, other, cy={"age": 1})
    with pytest.raises(MergeConflict) as told:
        graph.merge("side")
    assert {found.kind for found in told.value.conflicts} == {ConflictKind.UNIQUE}
    put(graph, other, cy={"age": 3})
    graph.merge("side")
    assert people(graph)["cy"]["age"] == 3


def test_changes_of_both_schemas_that_fit_together(graph: hg.Graph) -> None:
    graph.apply_schema(START.replace("age: I32?", "age: I32?  here: String?"))
    graph.apply_schema(START.replace("age: I32?", "age: I32?  there: String?"), branch="side")
    put(graph, "main", ann={"age": 1, "here": "h"})
    put(graph, "side", ann={"age": 1, "there": "t"}, cy={"there": "x"})
    graph.merge("side")
    assert people(graph)["ann"] == {"name": "ann", "age": 1, "here": "h", "there": "t"}
    assert people(graph)["cy"] == {"name": "cy", "age": None, "here": None, "there": "x"}
    graph.merge("main", "side")
    assert people(graph, "side") == people(graph)


def test_changes_of_both_schemas_that_do_not(graph: hg.Graph) -> None:
    graph.apply_schema(START + "\nnode Tag { word: String @key }")
    graph.apply_schema(START + "\nnode Tag { text: String @key }", branch="side")
    with pytest.raises(MergeConflict) as told:
        graph.merge("side")
    assert {found.kind for found in told.value.conflicts} == {ConflictKind.SCHEMA}


@pytest.mark.parametrize("dropped_in", ["main", "side"])
def test_a_type_dropped_on_one_side(graph: hg.Graph, dropped_in: str) -> None:
    other = "side" if dropped_in == "main" else "main"
    graph.apply_schema("node Person { name: String @key  age: I32? }", branch=dropped_in)
    planned = graph.plan_merge("side")
    assert planned.conflicts == ()
    with graph.transaction(branch=other) as work:
        work.append("Knows", [{"from": "ann", "to": "bob"}])
    with pytest.raises(MergeConflict, match="Knows was dropped"):
        graph.merge("side")
    graph.merge("side", resolve={"Knows": "ours"})
    assert graph.schema().find("Knows") is None
