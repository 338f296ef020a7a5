"""A transaction sees its own changes, in reads, queries and SQL; nobody else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.graph.conftest import ADD, names

import headgate.graph as hg
from headgate.errors import InvalidInput, KeyConflict

PEOPLE = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
FRIENDS = "query q() { match { $a: Person $a knows $b } return { $a.name as a, $b.name as b } }"


@pytest.fixture
def filled(graph: hg.Graph) -> hg.Graph:
    graph.load([{"type": "Person", "data": {"name": name, "age": 1}} for name in ("ann", "bob", "cy")])
    graph.load([{"edge": "Knows", "from": "ann", "to": "bob"}])
    return graph


def rows(result: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in result.to_dicts()]


def test_queries_see_pending_changes(filled: hg.Graph) -> None:
    """Invariant 1: nothing is visible before the publish, and all of it after."""
    change = filled.transaction()
    change.mutate('query m() { update Person set { age: 2 } where name = "bob" delete Person where name = "cy" }')
    change.append("Person", [{"name": "dee", "age": 4}])
    change.append("Knows", [{"from": "bob", "to": "dee"}])
    seen = [("ann", 1), ("bob", 2), ("dee", 4)]
    assert rows(change.query(PEOPLE)) == seen
    assert rows(change.sql('select name, age from "Person" order by name')) == seen
    assert sorted(rows(change.query(FRIENDS))) == [("ann", "bob"), ("bob", "dee")]
    assert rows(filled.query(PEOPLE)) == [("ann", 1), ("bob", 1), ("cy", 1)]
    change.append("Person", [{"name": "eve"}])
    assert rows(change.query(PEOPLE))[-1] == ("eve", None)
    change.commit()
    assert rows(filled.query(PEOPLE)) == [*seen, ("eve", None)]


def test_queries_see_a_pending_overwrite(filled: hg.Graph) -> None:
    change = filled.transaction()
    change.overwrite("Knows", [])
    change.overwrite("Person", [{"name": "zed"}])
    assert rows(change.query(PEOPLE)) == [("zed", None)]
    assert rows(change.query(FRIENDS)) == []
    change.rollback()
    assert names(filled) == ["ann", "bob", "cy"]


def test_read_by_sql_condition_sees_pending_and_stored(filled: hg.Graph) -> None:
    change = filled.transaction()
    change.merge("Person", [{"name": "bob", "age": 9}, {"name": "new", "age": 9}])
    assert sorted(change.read("Person", columns=["name"], where="age = 9")["name"].to_pylist()) == ["bob", "new"]
    assert change.read("Person", where="name = 'ann'")["age"].to_pylist() == [1]
    assert change.delete("Person", where="age = 9") == 2
    assert sorted(change.read("Person")["name"].to_pylist()) == ["ann", "cy"]


def test_a_block_that_fails_publishes_nothing(filled: hg.Graph, tmp_path: Path) -> None:
    head = filled.head()
    with pytest.raises(ZeroDivisionError), filled.transaction() as change:
        change.append("Person", [{"name": "x"}])
        _ = 1 / 0
    assert filled.head() == head


def test_append_refuses_ids_that_are_taken(filled: hg.Graph) -> None:
    with pytest.raises(KeyConflict, match="there is a Person ann already"), filled.transaction() as change:
        change.append("Person", [{"name": "ann"}])
    with pytest.raises(InvalidInput, match="more than once"), filled.transaction() as change:
        change.append("Person", [{"name": "x"}, {"name": "x"}])
    with filled.transaction() as change:
        change.delete("Person", ids=["ann"])
        change.append("Person", [{"name": "ann", "age": 7}])
    assert dict(rows(filled.query(PEOPLE)))["ann"] == 7


def test_an_unknown_property_is_named(filled: hg.Graph) -> None:
    with pytest.raises(InvalidInput, match="Person has no property nam"), filled.transaction() as change:
        change.append("Person", [{"nam": "x"}])


def test_a_snapshot_does_not_move(filled: hg.Graph) -> None:
    snapshot = filled.snapshot()
    filled.mutate(ADD, {"name": "later"})
    assert len(snapshot.query(PEOPLE).to_dicts()) == 3
    assert snapshot.table("Person").count_rows() == 3
