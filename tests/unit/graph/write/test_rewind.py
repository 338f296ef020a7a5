"""A branch brought back to an earlier commit: the content of then, as a new commit, with the history kept."""

from __future__ import annotations

import pytest
from tests.unit.graph.conftest import ADD

import headgate.graph as hg
from headgate.errors import InvalidInput, NotFound


def add(graph: hg.Graph, name: str, branch: str = "main") -> str:
    return graph.mutate(ADD, {"name": name}, branch=branch).commit


def names(graph: hg.Graph, branch: str = "main") -> list[str]:
    base = graph.base(branch=branch)
    found = sorted(base.dataset("Person").to_table()["name"].to_pylist())
    assert base.rows["Person"] == len(found)
    return found


@pytest.mark.parametrize("branch", ["main", "side"])
def test_what_was_shown_then_is_shown_again(graph: hg.Graph, branch: str) -> None:
    first = add(graph, "Ada")
    if branch == "side":
        graph.create_branch("side")
    second = add(graph, "Bob", branch)
    add(graph, "Cy", branch)
    graph.mutate('query n() { insert Note { text: "later" } }', branch=branch)
    before = [commit.id for commit in graph.log(branch)]
    back = graph.rewind(second, branch=branch, message="too soon", actor="me")
    assert back.changed
    assert names(graph, branch) == ["Ada", "Bob"]
    assert graph.base(branch=branch).rows["Note"] == 0
    assert [commit.id for commit in graph.log(branch)] == [back.commit, *before]
    assert (graph.head(branch).message, graph.head(branch).writer) == ("too soon", "rewind")
    graph.rewind(first, branch=branch)
    assert names(graph, branch) == ["Ada"]
    add(graph, "Dan", branch)
    assert names(graph, branch) == ["Ada", "Dan"]
    graph.rewind(back.commit, branch=branch)
    assert names(graph, branch) == ["Ada", "Bob"]
    if branch == "side":
        assert names(graph) == ["Ada"]


def test_the_schema_of_then_comes_back_with_its_tables(graph: hg.Graph) -> None:
    start = add(graph, "Ada")
    text = "node Person { name: String @key\n nick: String? }\nnode Tag { word: String @key }"
    graph.apply_schema(text)
    graph.mutate('query t() { insert Tag { word: "new" } insert Person { name: "Bob", nick: "b" } }')
    later = graph.head().id
    graph.rewind(start)
    assert graph.schema().find("Tag") is None
    assert graph.schema().find("Knows") is not None
    assert names(graph) == ["Ada"]
    add(graph, "Cy")
    graph.rewind(later)
    assert names(graph) == ["Ada", "Bob"]
    assert graph.base().rows["Tag"] == 1


def test_what_a_hard_drop_has_let_go_of_does_not_come_back(graph: hg.Graph) -> None:
    start = add(graph, "Ada")
    graph.apply_schema("node Person { name: String @key }", allow_data_loss=True)
    with pytest.raises(NotFound, match="older than what cleanup keeps"):
        graph.rewind(start)
    assert names(graph) == ["Ada"]


def test_what_cannot_be_brought_back(graph: hg.Graph) -> None:
    head = add(graph, "Ada")
    graph.create_branch("side")
    there = add(graph, "Bob", "side")
    with pytest.raises(InvalidInput, match="already"):
        graph.rewind(head)
    with pytest.raises(InvalidInput, match="not in the history"):
        graph.rewind(there)
    with pytest.raises(NotFound, match="no commit nowhere"):
        graph.rewind("nowhere")
    with pytest.raises(NotFound, match="no branch nobody"):
        graph.rewind(head, branch="nobody")
