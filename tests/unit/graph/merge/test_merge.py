"""Merging branches of a graph: outcomes, conflicts of every kind, and what choosing a side means."""

from __future__ import annotations

from typing import Any

import pytest

import headgate.graph as hg
from headgate.errors import Conflict, InvalidInput, MergeConflict, NotFound
from headgate.failpoints import Failpoint, arm
from headgate.graph.merge import ConflictKind, RowConflict
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.graph.write.task import judged_head, publish_instead

Rows = dict[str, dict[str, Any]]
START = [{"name": "Ada", "age": 30}, {"name": "Bob", "age": 40}, {"name": "Cy", "age": 50, "email": "cy@x"}]


def rows(graph: hg.Graph, branch: str = "main", type_name: str = "Person") -> Rows:
    found = graph.base(branch=branch).dataset(type_name).to_table().to_pylist()
    assert len({row["id"] for row in found}) == len(found) == graph.base(branch=branch).rows[type_name]
    return {row["id"]: row for row in found}


def change(graph: hg.Graph, branch: str, *people: dict[str, Any], gone: tuple[str, ...] = ()) -> str:
    with graph.transaction(branch=branch) as work:
        if people:
            work.merge("Person", list(people))
        if gone:
            work.delete("Person", ids=list(gone))
    assert work.written is not None
    return work.written.commit


@pytest.fixture
def side(graph: hg.Graph) -> str:
    change(graph, "main", *START)
    graph.create_branch("side")
    return "side"


def conflicts(graph: hg.Graph, source: str = "side", into: str = "main") -> list[RowConflict]:
    with pytest.raises(MergeConflict) as told:
        graph.merge(source, into)
    assert graph.plan_merge(source, into).conflicts == told.value.conflicts
    return list(told.value.conflicts)


def test_nothing_to_merge(graph: hg.Graph, side: str) -> None:
    assert graph.merge(side).outcome == "up_to_date"
    head = graph.head().id
    change(graph, "main", {"name": "Dan"})
    assert (graph.merge(side).outcome, graph.merge(side).commit) == ("up_to_date", graph.head().id)
    assert graph.head().parent == head


def test_a_fast_forward_makes_one_commit_with_two_parents(graph: hg.Graph, side: str) -> None:
    head = graph.head().id
    theirs = change(graph, side, {"name": "Ada", "age": 31}, {"name": "Dan"}, gone=("Bob",))
    done = graph.merge(side, message="bring it in", actor="me")
    assert (done.outcome, done.source, done.bases) == ("fast_forward", theirs, (head,))
    assert (done.tables["Person"].added, done.tables["Person"].changed, done.tables["Person"].removed) == (1, 1, 1)
    commit = graph.head()
    assert (commit.parent, commit.merged_parent, commit.message, commit.writer) == (
        head,
        theirs,
        "bring it in",
        "merge",
    )
    assert rows(graph) == rows(graph, side)
    assert graph.merge(side).outcome == "up_to_date"
    assert graph.merge("main", side).outcome == "fast_forward"


def test_rows_and_columns_of_both_sides_are_put_together(graph: hg.Graph, side: str) -> None:
    change(graph, side, {"name": "Ada", "age": 31}, {"name": "there"}, {"name": "Bob", "age": 40, "email": "bob@x"})
    change(graph, "main", {"name": "Ada", "age": 30, "email": "ada@x"}, {"name": "here"}, gone=("Cy",))
    done = graph.merge(side)
    assert done.outcome == "merged"
    assert rows(graph) == {
        "Ada": {"id": "Ada", "name": "Ada", "age": 31, "email": "ada@x"},
        "Bob": {"id": "Bob", "name": "Bob", "age": 40, "email": "bob@x"},
        "here": {"id": "here", "name": "here", "age": None, "email": None},
        "there": {"id": "there", "name": "there", "age": None, "email": None},
    }


def test_equal_changes_are_no_conflict(graph: hg.Graph, side: str) -> None:
    for branch in ("main", side):
        change(graph, branch, {"name": "Ada", "age": 31}, {"name": "Dan", "age": 1}, gone=("Bob",))
    done = graph.merge(side)
    assert (done.outcome, done.tables) == ("merged", {})
    assert graph.head().merged_parent == graph.head(side).id
    assert not graph.head().content
    assert set(rows(graph)) == {"Ada", "Cy", "Dan"}


@pytest.mark.parametrize("choice", ["ours", "theirs"])
def test_divergent_updates(graph: hg.Graph, side: str, choice: str) -> None:
    change(graph, side, {"name": "Ada", "age": 31, "email": "a@side"})
    change(graph, "main", {"name": "Ada", "age": 32})
    (found,) = conflicts(graph)
    assert (found.kind, found.type, found.id, found.columns) == (
        ConflictKind.DIVERGENT_UPDATE,
        "Person",
        "Ada",
        ("age",),
    )
    assert found.base is not None
    assert found.ours is not None
    assert found.theirs is not None
    assert (found.base["age"], found.ours["age"], found.theirs["age"]) == (30, 32, 31)
    assert rows(graph)["Ada"]["age"] == 32
    graph.merge(side, resolve=choice)
    assert (rows(graph)["Ada"]["age"], rows(graph)["Ada"]["email"]) == (32 if choice == "ours" else 31, "a@side")


@pytest.mark.parametrize("choice", ["ours", "theirs"])
def test_divergent_inserts(graph: hg.Graph, side: str, choice: str) -> None:
    change(graph, side, {"name": "Dan", "age": 1, "email": "d@x"})
    change(graph, "main", {"name": "Dan", "age": 2, "email": "d@x"})
    (found,) = conflicts(graph)
    assert (found.kind, found.id, found.columns, found.base) == (ConflictKind.DIVERGENT_INSERT, "Dan", ("age",), None)
    graph.merge(side, resolve={"Person": choice})
    assert rows(graph)["Dan"]["age"] == (2 if choice == "ours" else 1)


@pytest.mark.parametrize("choice", ["ours", "theirs"])
@pytest.mark.parametrize("deleted_in", ["main", "side"])
def test_a_row_deleted_on_one_side_and_changed_on_the_other(
    graph: hg.Graph, side: str, deleted_in: str, choice: str
) -> None:
    changed_in = side if deleted_in == "main" else "main"
    change(graph, deleted_in, gone=("Bob",))
    change(graph, changed_in, {"name": "Bob", "age": 41})
    (found,) = conflicts(graph)
    assert (found.kind, found.id) == (ConflictKind.DELETE_VERSUS_UPDATE, "Bob")
    assert (found.ours is None) == (deleted_in == "main")
    graph.merge(side, resolve=choice)
    deleted_wins = (deleted_in == "main") == (choice == "ours")
    assert ("Bob" in rows(graph)) == (not deleted_wins)


def knows(graph: hg.Graph, branch: str, src: str, dst: str) -> None:
    with graph.transaction(branch=branch) as work:
        work.append("Knows", [{"id": f"{src}-{dst}", "from": src, "to": dst}])


@pytest.mark.parametrize("choice", ["ours", "theirs"])
@pytest.mark.parametrize("deleted_in", ["main", "side"])
def test_an_edge_to_a_node_that_the_other_side_deleted(
    graph: hg.Graph, side: str, deleted_in: str, choice: str
) -> None:
    other = side if deleted_in == "main" else "main"
    change(graph, deleted_in, gone=("Bob",))
    knows(graph, other, "Ada", "Bob")
    (found,) = conflicts(graph)
    assert (found.kind, found.type, found.id) == (ConflictKind.ORPHAN_EDGE, "Knows", "Ada-Bob")
    graph.merge(side, resolve=choice)
    edge_wins = (other == "main") == (choice == "ours")
    assert ("Bob" in rows(graph)) == edge_wins
    assert ("Ada-Bob" in rows(graph, type_name="Knows")) == edge_wins


@pytest.mark.parametrize("choice", ["ours", "theirs"])
def test_two_rows_with_one_unique_value(graph: hg.Graph, side: str, choice: str) -> None:
    change(graph, side, {"name": "Ada", "age": 30, "email": "same@x"})
    change(graph, "main", {"name": "Bob", "age": 40, "email": "same@x"})
    (found,) = conflicts(graph)
    assert (found.kind, found.type, found.id) == (ConflictKind.UNIQUE, "Person", "Ada")
    graph.merge(side, resolve=choice)
    holder = {name for name, row in rows(graph).items() if row["email"] == "same@x"}
    assert holder == ({"Bob"} if choice == "ours" else {"Ada"})


@pytest.mark.parametrize("choice", ["ours", "theirs"])
def test_too_many_edges_together(graph: hg.Graph, side: str, choice: str) -> None:
    for branch, notes in (("main", ["m"]), (side, ["s1", "s2"])):
        with graph.transaction(branch=branch) as work:
            work.append("Note", [{"id": note, "text": note} for note in notes])
            work.append("Wrote", [{"id": note, "from": "Ada", "to": note} for note in notes])
    found = conflicts(graph)
    assert {conflict.kind for conflict in found} == {ConflictKind.CARDINALITY}
    assert {conflict.type for conflict in found} == {"Wrote"}
    graph.merge(side, resolve={"Wrote": choice})
    assert set(rows(graph, type_name="Wrote")) == ({"m"} if choice == "ours" else {"s1", "s2"})
    assert set(rows(graph, type_name="Note")) == {"m", "s1", "s2"}


def test_a_choice_for_one_type_leaves_the_others_in_conflict(graph: hg.Graph, side: str) -> None:
    change(graph, side, {"name": "Ada", "age": 31})
    change(graph, "main", {"name": "Ada", "age": 32})
    with pytest.raises(MergeConflict):
        graph.merge(side, resolve={"Knows": "ours"})
    with pytest.raises(NotFound, match="no type Nobody"):
        graph.merge(side, resolve={"Nobody": "ours"})
    with pytest.raises(InvalidInput, match="mine"):
        graph.merge(side, resolve="mine")


def test_bad_names(graph: hg.Graph, side: str) -> None:
    with pytest.raises(InvalidInput, match="into itself"):
        graph.merge("main", "main")
    with pytest.raises(NotFound, match="no branch nobody"):
        graph.merge("nobody")
    with pytest.raises(NotFound, match="no branch nobody"):
        graph.merge(side, "nobody")
    with pytest.raises(NotFound, match="no commit"):
        graph.merge("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_plan_writes_nothing(graph: hg.Graph, side: str) -> None:
    change(graph, side, {"name": "Dan"})
    head = graph.head().id
    planned = graph.plan_merge(side)
    assert (planned.outcome, planned.commit, planned.tables["Person"].added) == ("fast_forward", head, 1)
    assert graph.head().id == head


def test_merges_in_both_directions_again_and_again(graph: hg.Graph, side: str) -> None:
    for number in range(3):
        change(graph, side, {"name": f"s{number}"}, {"name": "Ada", "age": number})
        change(graph, "main", {"name": f"m{number}"}, {"name": "Bob", "age": number})
        graph.merge(side)
        graph.merge("main", side)
        assert rows(graph) == rows(graph, side)
    assert len(rows(graph)) == 9


def test_a_criss_cross_knows_what_both_had(graph: hg.Graph, side: str) -> None:
    """Each side has merged the other's earlier state: with one of the two bases alone this would be a conflict."""
    mine = change(graph, "main", {"name": "Bob", "age": 1})
    theirs = change(graph, side, {"name": "Ada", "age": 1})
    graph.merge(theirs, "main")
    graph.merge(mine, side)
    assert rows(graph) == rows(graph, side)
    change(graph, "main", {"name": "Ada", "age": 2})
    change(graph, side, {"name": "Bob", "age": 2})
    done = graph.merge(side)
    assert len(done.bases) == 2
    assert (rows(graph)["Ada"]["age"], rows(graph)["Bob"]["age"]) == (2, 2)


def test_a_criss_cross_keeps_what_was_taken_back_on_purpose(graph: hg.Graph, side: str) -> None:
    mine = change(graph, "main", {"name": "Bob", "age": 1})
    theirs = change(graph, side, {"name": "Ada", "age": 1})
    graph.merge(theirs, "main")
    graph.merge(mine, side)
    change(graph, "main", {"name": "Ada", "age": 30})
    graph.merge(side)
    assert rows(graph)["Ada"]["age"] == 30
    graph.merge("main", side)
    assert rows(graph, side)["Ada"]["age"] == 30


def test_a_branch_merged_by_way_of_another(graph: hg.Graph, side: str) -> None:
    graph.create_branch("third")
    change(graph, side, {"name": "Ada", "age": 31})
    graph.merge(side, "third")
    graph.merge("third")
    assert graph.merge(side).outcome == "up_to_date"
    graph.delete_branch("third")
    change(graph, side, {"name": "Ada", "age": 32})
    assert graph.merge(side).tables["Person"].changed == 1
    assert rows(graph)["Ada"]["age"] == 32


def test_a_merge_goes_on_when_the_branch_moves_under_it(graph: hg.Graph, side: str) -> None:
    change(graph, side, {"name": "Ada", "age": 31})

    def meanwhile(point: Failpoint) -> None:
        if point is Failpoint.GRAPH_STAGED:
            arm(None)
            change(graph, "main", {"name": "Bob", "age": 41})

    arm(meanwhile)
    try:
        graph.merge(side)
    finally:
        arm(None)
    assert (rows(graph)["Ada"]["age"], rows(graph)["Bob"]["age"]) == (31, 41)


def replace_head(graph: hg.Graph) -> None:
    """Move main's head back, as a retry does that changes nothing after an attempt nobody accepted."""
    head = graph.head()
    request = WriteRequest(writer=Writer.TASK, replaces=head.id, onto=head.parent)
    publish_instead(graph.store, request, None, judged_head(graph.store, "main", head.parent, ["Person"]))


def test_what_was_merged_elsewhere_is_not_replaced(graph: hg.Graph, side: str) -> None:
    """Invariant 3: an attempt's commit that another branch has brought in stays in the history."""
    abandoned = change(graph, "main", {"name": "Dan"})
    graph.merge("main", side)
    with pytest.raises(Conflict, match="merged into branch side"):
        replace_head(graph)
    assert graph.head().id == abandoned


def test_a_commit_that_is_replaced_while_it_is_merged(graph: hg.Graph, side: str) -> None:
    change(graph, "main", {"name": "Dan"})

    def meanwhile(point: Failpoint) -> None:
        if point is Failpoint.GRAPH_TABLES_COMMITTED:
            arm(None)
            replace_head(hg.open(graph.uri))

    arm(meanwhile)
    try:
        with pytest.raises(Conflict, match="was replaced while it was merged"):
            graph.merge("main", side)
    finally:
        arm(None)
    assert "Dan" not in rows(graph, side)
    assert graph.merge("main", side).outcome == "up_to_date"


def test_a_second_merge_with_the_same_publish_id_changes_nothing(graph: hg.Graph, side: str) -> None:
    change(graph, side, {"name": "Dan"})
    first = graph.merge(side, publish_id="once")
    again = graph.merge(side, publish_id="once")
    assert (again.commit, again.repeated) == (first.commit, True)
