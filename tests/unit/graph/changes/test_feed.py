"""A feed of changes: commit by commit, resumed from a cursor, with the reverse of what was replaced."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.graph.conftest import ADD

import headgate.graph as hg
from headgate.errors import NotFound
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.graph.write.task import judged_head, publish_instead
from headgate.graph.write.transaction import Transaction

State = dict[tuple[str, str], dict[str, Any] | None]


def add(graph: hg.Graph, name: str, branch: str = "main") -> str:
    return graph.mutate(ADD, {"name": name}, branch=branch).commit


def replay(
    graph: hg.Graph, state: State, branch: str = "main", after: str | None = None
) -> tuple[str | None, list[bool]]:
    """Apply a feed to a copy, as somebody who follows a branch does."""
    cursor, reverses = after, []
    for entry in graph.feed(branch, after=after):
        for change in entry.changes:
            assert state.get((change.type, change.id)) == change.before
            if change.after is None:
                state.pop((change.type, change.id))
            else:
                state[change.type, change.id] = change.after
        cursor = entry.cursor
        reverses.append(entry.reverses)
    return cursor, reverses


def shown(graph: hg.Graph, branch: str = "main") -> State:
    base = graph.base(branch=branch)
    return {(name, row["id"]): row for name in base.tables for row in base.dataset(name).to_table().to_pylist()}


def test_a_copy_follows_a_branch(graph: hg.Graph) -> None:
    copy: State = {}
    add(graph, "Ada")
    graph.ensure_indices()
    add(graph, "Bob")
    cursor, _ = replay(graph, copy)
    assert copy == shown(graph)
    graph.mutate('query u() { update Person set { age: 4 } where name = "Ada" delete Person where name = "Bob" }')
    graph.create_branch("side")
    add(graph, "Cy", "side")
    add(graph, "Dan")
    graph.merge("side")
    cursor, reverses = replay(graph, copy, after=cursor)
    assert copy == shown(graph)
    assert reverses == [False] * 3
    assert list(graph.feed(after=cursor)) == []


def test_a_type_is_followed_alone(graph: hg.Graph) -> None:
    add(graph, "Ada")
    graph.mutate('query n() { insert Note { text: "hello" } }')
    found = [change.type for entry in graph.feed(types=["Note"]) for change in entry.changes]
    assert found == ["Note"]


def replace_head(graph: hg.Graph, *, changes: bool) -> None:
    """The head was an attempt's that nobody accepted: a retry takes its place, or moves the head back."""
    head = graph.head()
    request = WriteRequest(writer=Writer.TASK, replaces=head.id, onto=head.parent)
    work = Transaction(graph.store, graph.base(commit=head.parent), request)
    work.merge("Person", [{"name": "instead"}])
    judged = judged_head(graph.store, "main", head.parent, ["Person"])
    publish_instead(graph.store, request, work.prepare_on if changes else None, judged)
    work.rollback()


@pytest.mark.parametrize("changes", [True, False])
def test_a_cursor_on_a_replaced_commit_takes_it_back_first(graph: hg.Graph, changes: bool) -> None:
    """Invariant 3: the visible history has no abandoned commit, and a copy that saw one is told."""
    copy: State = {}
    add(graph, "Ada")
    abandoned = add(graph, "abandoned")
    cursor, _ = replay(graph, copy)
    assert cursor == abandoned
    replace_head(graph, changes=changes)
    add(graph, "later")
    cursor, reverses = replay(graph, copy, after=cursor)
    assert copy == shown(graph)
    assert reverses == ([True, False, False] if changes else [True, False])
    entries = list(graph.feed(after=abandoned))
    assert entries[0].commit.id == abandoned
    assert [(change.kind, change.id) for change in entries[0].changes] == [("removed", "abandoned")]


def test_a_cursor_of_a_branch_that_was_made_again(graph: hg.Graph) -> None:
    copy: State = {}
    add(graph, "Ada")
    graph.create_branch("side")
    add(graph, "old", "side")
    add(graph, "older", "side")
    cursor, _ = replay(graph, copy, "side")
    graph.delete_branch("side")
    add(graph, "Bob")
    graph.create_branch("side")
    add(graph, "new", "side")
    _, reverses = replay(graph, copy, "side", after=cursor)
    assert copy == shown(graph, "side")
    assert reverses == [True, True, False, False]


def test_unknown_cursors_and_types(graph: hg.Graph) -> None:
    with pytest.raises(NotFound, match="no commit nowhere"):
        list(graph.feed(after="nowhere"))
    with pytest.raises(NotFound, match="no type Nobody"):
        graph.feed(types=["Nobody"])
    with pytest.raises(NotFound, match="no branch nobody"):
        list(graph.feed("nobody"))
