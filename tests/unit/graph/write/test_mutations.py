"""Mutations: statements in order, one commit, all checks; what is refused leaves nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.graph.conftest import ADD, names

import headgate.graph as hg
from headgate.errors import ExpectedHeadMismatch, InvalidInput, NotFound, Unsupported


def rows(graph: hg.Graph, type_name: str) -> list[dict[str, object]]:
    return graph.base().dataset(type_name).to_table().to_pylist()


def test_a_keyed_insert_is_an_upsert(graph: hg.Graph) -> None:
    graph.mutate(ADD, {"name": "ann", "age": 3})
    graph.mutate(ADD, {"name": "ann", "age": 4})
    assert rows(graph, "Person") == [{"id": "ann", "name": "ann", "age": 4, "email": None}]


def test_an_unkeyed_insert_makes_a_row_each_time(graph: hg.Graph) -> None:
    for _ in range(2):
        graph.mutate('query n() { insert Note { text: "same" } }')
    assert names(graph, "Note", "text") == ["same", "same"]


def test_statements_see_earlier_ones_and_mix_in_one_commit(graph: hg.Graph) -> None:
    """Invariant 5: one manifest commit publishes all its tables or none."""
    before = graph.head().order
    done = graph.mutate(
        """query mixed() {
            insert Person { name: "ann", age: 1 }
            insert Person { name: "bob" }
            insert Knows { from: "ann", to: "bob" }
            update Person set { age: 2 } where age = 1
            delete Person where name = "bob"
            insert Person { name: "bob", age: 9 }
        }"""
    )
    assert {row["id"]: row["age"] for row in rows(graph, "Person")} == {"ann": 2, "bob": 9}
    assert rows(graph, "Knows") == []
    assert graph.head().order == before + 1
    assert (done.affected.inserted, done.affected.updated, done.affected.deleted) == (4, 1, 1)


def test_deleting_a_node_deletes_its_stored_edges(graph: hg.Graph) -> None:
    graph.mutate('query p() { insert Person { name: "a" } insert Person { name: "b" } insert Person { name: "c" } }')
    graph.mutate('query e() { insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "c" } }')
    graph.mutate('query d() { delete Person where name = "a" }')
    assert [(row["src"], row["dst"]) for row in rows(graph, "Knows")] == [("b", "c")]


def test_composite_keys_name_nodes_by_a_list(graph: hg.Graph) -> None:
    graph.mutate('query p() { insert Place { country: "fr", city: "Lyon" } insert Person { name: "a" } }')
    with graph.transaction() as change:
        change.append("Lives", [{"from": "a", "to": ["fr", "Lyon"]}])
    assert rows(graph, "Lives")[0]["dst"] == '["fr","Lyon"]'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('query m() { insert Knows { from: "ann", to: "nobody" } }', "Person nobody, which does not exist"),
        ('query m() { insert Person { name: "x", email: "e" } insert Person { name: "y", email: "e" } }', "more than"),
        ('query m() { insert Person { name: "x", email: "taken" } }', "another row has email taken"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_leaves_nothing(graph: hg.Graph, text: str, told: str) -> None:
    """Invariant 9: the error names the input, and nothing of the write is visible."""
    graph.mutate('query m() { insert Person { name: "ann", email: "taken" } }')
    head = graph.head()
    with pytest.raises(InvalidInput) as refused:
        graph.mutate(text)
    assert told in str(refused.value)
    assert graph.head() == head
    assert graph.mutate(ADD, {"name": "next"}).changed


def test_cardinality_counts_stored_and_new_edges(graph: hg.Graph) -> None:
    with graph.transaction() as change:
        change.append("Person", [{"name": "a"}])
        change.append("Note", [{"id": f"n{number}", "text": "t"} for number in range(3)])
        change.append("Wrote", [{"from": "a", "to": "n0"}, {"from": "a", "to": "n1"}])
    with pytest.raises(InvalidInput, match="Person a would have more than 2 Wrote"):
        with graph.transaction() as change:
            change.append("Wrote", [{"from": "a", "to": "n2"}])
    with graph.transaction() as change:
        change.delete("Wrote", where="dst = 'n0'")
        change.append("Wrote", [{"from": "a", "to": "n2"}])
    assert sorted(str(row["dst"]) for row in rows(graph, "Wrote")) == ["n1", "n2"]


def test_a_write_that_changes_nothing_makes_no_commit(graph: hg.Graph) -> None:
    head = graph.head()
    done = graph.mutate('query d() { delete Person where name = "nobody" }')
    assert (done.changed, done.commit) == (False, head.id)
    assert graph.head() == head


def test_a_publish_id_is_used_once(graph: hg.Graph) -> None:
    first = graph.mutate('query n() { insert Note { text: "once" } }', publish_id="p1")
    again = graph.mutate('query n() { insert Note { text: "once" } }', publish_id="p1")
    assert again.repeated
    assert again.commit == first.commit
    assert names(graph, "Note", "text") == ["once"]


def test_a_conditional_write_needs_its_head(graph: hg.Graph) -> None:
    head = graph.head()
    graph.mutate(ADD, {"name": "a"}, if_commit=head.id)
    with pytest.raises(ExpectedHeadMismatch) as lost:
        graph.mutate(ADD, {"name": "b"}, if_commit=head.id)
    assert lost.value.expected == head.id
    assert names(graph) == ["a"]


def test_the_past_is_read_by_commit_and_by_time(graph: hg.Graph) -> None:
    moments = [(graph.mutate(ADD, {"name": name}).commit, graph.head().time) for name in ("a", "b", "c")]
    commit, moment = moments[1]
    for past in (graph.base(commit=commit), graph.base(time=moment)):
        assert past.commit == commit
        assert sorted(past.dataset("Person").to_table()["name"].to_pylist()) == ["a", "b"]
    with pytest.raises(NotFound, match="no commit as old"):
        graph.base(time=datetime(2000, 1, 1, tzinfo=UTC))
    with pytest.raises(NotFound, match="no commit nope"):
        graph.base(commit="nope")


def test_a_commit_says_who_why_and_on_what(graph: hg.Graph) -> None:
    first = graph.head()
    done = graph.mutate(ADD, {"name": "a"}, actor="me", message="because")
    commit = graph.commit(done.commit)
    assert (commit.parent, commit.actor, commit.message, commit.writer) == (first.id, "me", "because", "mutate")
    assert [found.id for found in graph.log()] == [done.commit, first.id]


def test_a_graph_open_for_reading_refuses_to_change(place: str, graph: hg.Graph) -> None:
    with hg.open(place, "ro") as reader, pytest.raises(Unsupported, match="reading only"):
        reader.mutate(ADD, {"name": "a"})


def test_a_folder_that_is_no_graph_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(NotFound, match="there is no graph at"):
        hg.open(tmp_path_factory.mktemp("empty"))
