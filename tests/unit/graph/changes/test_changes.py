"""The changes between two commits: every row that differs, and only the fragments that do are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.graph.conftest import ADD

import headgate.graph as hg
from headgate.errors import NotFound
from headgate.graph.changes.rows import column_differs
from headgate.graph.storage import differences


def told(graph: hg.Graph, old: str, new: str, **kwargs: Any) -> list[tuple[str, str, str]]:
    return sorted((change.type, change.kind, change.id) for change in graph.changes(old, new, **kwargs))


@pytest.fixture
def people(graph: hg.Graph) -> str:
    rows = pa.table({"name": [f"p{n:03d}" for n in range(200)], "age": list(range(100)) * 2})
    return graph.load(rows, type_name="Person").commit


def test_rows_come_with_what_they_were_and_what_they_are(graph: hg.Graph, people: str) -> None:
    with graph.transaction() as change:
        change.merge("Person", [{"name": "p001", "age": 77}, {"name": "new"}])
        change.delete("Person", ids=["p002"])
        change.append("Note", [{"id": "n", "text": "hello"}])
    found = {(item.type, item.id): item for item in graph.changes(people, graph.head().id)}
    assert set(found) == {("Person", "p001"), ("Person", "new"), ("Person", "p002"), ("Note", "n")}
    changed = found["Person", "p001"]
    assert (changed.kind, changed.before["age"], changed.after["age"]) == ("changed", 1, 77)  # type: ignore[index]
    assert (found["Person", "p002"].kind, found["Person", "p002"].after) == ("removed", None)
    assert found["Note", "n"].after == {"id": "n", "text": "hello"}
    backwards = told(graph, graph.head().id, people)
    assert backwards == sorted((c.type, c.reversed().kind, c.id) for c in found.values())
    assert told(graph, people, graph.head().id, types=["Note"]) == [("Note", "added", "n")]


def test_a_row_written_again_as_it_was_is_no_change(graph: hg.Graph, people: str) -> None:
    graph.load(pa.table({"name": ["p001", "p002"], "age": [1, 3]}), type_name="Person", mode="merge")
    assert told(graph, people, graph.head().id) == [("Person", "changed", "p002")]
    graph.load(pa.table({"name": ["p002"], "age": [2]}), type_name="Person", mode="merge")
    assert told(graph, people, graph.head().id) == []
    assert graph.changes(people, graph.head().id).counts() == {}


def test_only_fragments_that_differ_are_read(graph: hg.Graph, people: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 8: work grows with what changed."""
    graph.mutate('query u() { update Person set { age: 5 } where name = "p007" }')
    read: list[int] = []
    rows_at = differences.rows_at

    def counting(objects: Any, at: Any, addresses: Any, columns: Any) -> pa.Table:
        read.append(len(addresses))
        return rows_at(objects, at, addresses, columns)

    monkeypatch.setattr("headgate.graph.changes.rows.rows_at", counting)
    monkeypatch.setattr(differences, "rows_at", counting)
    assert told(graph, people, graph.head().id) == [("Person", "changed", "p007")]
    assert sum(read) == 3  # its id where it was, and the row on both sides


@pytest.mark.parametrize("share", [5, 190])
def test_many_deletions_in_one_fragment(graph: hg.Graph, people: str, share: int) -> None:
    """Lance keeps few offsets as a list and many as a bitmap."""
    first = [f"p{n:03d}" for n in range(share)]
    with graph.transaction() as change:
        change.delete("Person", ids=first)
    middle = graph.head().id
    assert [found[2] for found in told(graph, people, middle)] == first
    with graph.transaction() as change:
        change.delete("Person", ids=["p195"])
    assert told(graph, middle, graph.head().id) == [("Person", "removed", "p195")]


def test_changes_between_branches(graph: hg.Graph, people: str) -> None:
    graph.create_branch("side")
    graph.mutate(ADD, {"name": "here"})
    graph.mutate(ADD, {"name": "there"}, branch="side")
    graph.mutate('query u() { update Person set { age: 50 } where name = "p001" }', branch="side")
    assert told(graph, graph.head().id, graph.head("side").id) == [
        ("Person", "added", "there"),
        ("Person", "changed", "p001"),
        ("Person", "removed", "here"),
    ]


def test_an_overwrite_is_compared_row_by_row(graph: hg.Graph, people: str) -> None:
    rows = pa.table({"name": [f"p{n:03d}" for n in range(199)], "age": [*range(100), *range(98), 0]})
    graph.load(rows, type_name="Person", mode="overwrite")
    assert told(graph, people, graph.head().id) == [("Person", "changed", "p198"), ("Person", "removed", "p199")]


def test_unknown_names(graph: hg.Graph, people: str) -> None:
    with pytest.raises(NotFound, match="no commit nowhere"):
        graph.changes("nowhere", people)
    with pytest.raises(NotFound, match="no type Nobody"):
        graph.changes(people, people, types=["Nobody"])


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([1, None, 3, None], [1, None, 4, 5], pa.int64()),
        ([1.0, float("nan"), float("nan"), None], [1.0, float("nan"), 0.0, float("nan")], pa.float64()),
        ([[1], None, [1, 2], []], [[1], None, [2, 1], None], pa.list_(pa.int32())),
        (["a", None, "b", None], ["a", None, "c", ""], pa.string()),
    ],
)
def test_values_that_are_equal(before: list[Any], after: list[Any], kind: pa.DataType) -> None:
    found = column_differs(pa.array(before, kind), pa.array(after, kind))
    assert np.asarray(found).tolist() == [False, False, True, True]
