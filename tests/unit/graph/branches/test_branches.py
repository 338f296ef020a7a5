"""Branches: made without copying, written to on forks of their own, deleted and made again under the same name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.graph.conftest import ADD

import headgate.graph as hg
from headgate import failpoints
from headgate.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from headgate.failpoints import Failpoint
from headgate.graph.manifest import upkeep
from headgate.graph.manifest.table import MergeContended
from headgate.graph.storage import tables


def names(graph: hg.Graph, branch: str = "main") -> list[str]:
    return sorted(graph.base(branch=branch).dataset("Person").to_table()["name"].to_pylist())


def forks(graph: hg.Graph, branch: str) -> set[str]:
    return {pin.fork for _, pin in graph.base(branch=branch).tables.values()}


def add(graph: hg.Graph, name: str, branch: str = "main") -> str:
    return graph.mutate(ADD, {"name": name, "age": 1}, branch=branch).commit


def test_a_branch_shows_what_it_was_made_from_and_hides_what_came_after(graph: hg.Graph) -> None:
    add(graph, "Ada")
    made = graph.create_branch("side")
    assert made.head == graph.head().id
    add(graph, "Bob")
    assert names(graph, "side") == ["Ada"]
    assert graph.branches() == ("main", "side")
    assert [(b.name, b.parent) for b in graph.list_branches()] == [("main", ""), ("side", "main")]


def test_creating_a_branch_writes_no_file_but_the_manifest(graph: hg.Graph, place: str) -> None:
    add(graph, "Ada")
    before = {str(p) for p in Path(place, "tables").rglob("*")}
    graph.create_branch("side")
    assert {str(p) for p in Path(place, "tables").rglob("*")} == before


def test_the_first_write_forks_the_table_and_the_others_stay_shared(graph: hg.Graph) -> None:
    add(graph, "Ada")
    graph.create_branch("side")
    assert forks(graph, "side") == {""}
    add(graph, "Bob", "side")
    fork = graph.base(branch="side").tables["Person"][1].fork
    assert fork
    assert graph.base(branch="side").tables["Note"][1].fork == ""
    add(graph, "Cy", "side")
    add(graph, "Dan")
    assert graph.base(branch="side").tables["Person"][1].fork == fork
    assert names(graph, "side") == ["Ada", "Bob", "Cy"]
    assert names(graph) == ["Ada", "Dan"]
    assert [commit.message or commit.writer for commit in graph.log("side")][-1] == "create the graph"


@pytest.mark.parametrize("write", ["append", "merge", "overwrite", "delete", "indices"])
def test_every_kind_of_first_write_lands_on_a_fork(graph: hg.Graph, write: str) -> None:
    graph.load(pa.table({"name": [f"p{n}" for n in range(40)], "age": list(range(40))}), type_name="Person")
    graph.create_branch("side")
    match write:
        case "indices":
            graph.ensure_indices(branch="side")
        case "delete":
            with graph.transaction(branch="side") as change:
                change.delete("Person", ids=["p7"])
        case _:
            rows = {"append": ["new"], "merge": ["p7", "new"], "overwrite": ["p7"]}[write]
            with graph.transaction(branch="side") as change:
                getattr(change, write)("Person", [{"name": name, "age": 99} for name in rows])
    counts = {"append": 41, "merge": 41, "overwrite": 1, "delete": 39, "indices": 40}
    assert len(names(graph, "side")) == counts[write]
    assert len(names(graph)) == 40
    with hg.open(graph.uri) as again:
        assert len(names(again, "side")) == counts[write]
        found = again.query('query q() { match { $p: Person { name: "p7" } } return { $p.age } }', branch="side")
        assert len(found) == (0 if write == "delete" else 1)


def test_a_branch_of_a_branch_of_a_fork(graph: hg.Graph) -> None:
    add(graph, "Ada")
    for number, name in enumerate(["one", "two", "three"]):
        graph.create_branch(name, at=["main", "one", "two"][number])
        add(graph, f"in {name}", name)
        graph.mutate('query u() { update Person set { age: 5 } where name = "Ada" }', branch=name)
    assert names(graph, "three") == ["Ada", "in one", "in three", "in two"]
    assert names(graph, "one") == ["Ada", "in one"]
    assert names(graph) == ["Ada"]


def test_a_branch_from_an_earlier_commit(graph: hg.Graph) -> None:
    first = add(graph, "Ada")
    add(graph, "Bob")
    graph.create_branch("side", at=first)
    assert names(graph, "side") == ["Ada"]
    add(graph, "Cy", "side")
    assert names(graph, "side") == ["Ada", "Cy"]


def test_small_fragments_are_folded_on_a_fork(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_SMALL_FRAGMENTS", 2)
    for number in range(4):
        add(graph, f"m{number}")
    graph.create_branch("side")
    for number in range(5):
        add(graph, f"s{number}", "side")
    assert len(names(graph, "side")) == 9
    assert len(names(graph)) == 4


def test_a_deleted_branch_is_gone_and_its_name_is_free(graph: hg.Graph) -> None:
    add(graph, "Ada")
    graph.create_branch("side")
    old = add(graph, "old", "side")
    graph.delete_branch("side")
    assert graph.branches() == ("main",)
    with pytest.raises(NotFound, match="no branch side"):
        names(graph, "side")
    with pytest.raises(NotFound):
        add(graph, "x", "side")
    add(graph, "Bob")
    graph.create_branch("side")
    assert names(graph, "side") == ["Ada", "Bob"]
    add(graph, "new", "side")
    assert names(graph, "side") == ["Ada", "Bob", "new"]
    assert sorted(graph.base(commit=old).dataset("Person").to_table()["name"].to_pylist()) == ["Ada", "old"]


def test_a_late_writer_of_a_deleted_branch_is_told_conflict(graph: hg.Graph) -> None:
    """Invariant 7: what was begun on a deleted branch never lands on a later one of its name."""
    add(graph, "Ada")
    graph.create_branch("side")
    late = graph.transaction(branch="side")
    late.merge("Person", [{"name": "late"}])
    graph.delete_branch("side")
    graph.create_branch("side")
    with pytest.raises(Conflict, match="deleted"):
        late.commit()
    assert names(graph, "side") == ["Ada"]


@pytest.mark.usefixtures("disarmed")
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    "point", [Failpoint.GRAPH_STAGED, Failpoint.GRAPH_SIDECAR_CREATED, Failpoint.GRAPH_TABLES_COMMITTED]
)
def test_a_branch_deleted_under_a_writer(graph: hg.Graph, point: Failpoint, again: bool) -> None:
    """Invariant 2: whatever phase the writer is in, the closed mark or the new branch refuses it."""
    add(graph, "Ada")
    graph.create_branch("side")
    other = hg.open(graph.uri, mode="ro")

    def delete(at: Failpoint) -> None:
        if at is not point:
            return
        failpoints.arm(None)
        state = other.store.manifest.state()
        head = state.head("side")
        other.store.manifest.merge(state, [replace(head, closed=True, order=head.order + 1)])
        if again:
            graph.create_branch("side")

    failpoints.arm(delete)
    with pytest.raises((Conflict, NotFound), match="side"):
        add(graph, "late", "side")
    assert graph.store.sidecars.find("side") == []
    if again:
        assert names(graph, "side") == ["Ada"]
        add(graph, "new", "side")
        assert names(graph, "side") == ["Ada", "new"]


def test_a_reader_of_a_deleted_branch_reads_on(graph: hg.Graph) -> None:
    graph.create_branch("side")
    add(graph, "old", "side")
    reader = graph.snapshot(branch="side")
    graph.delete_branch("side")
    graph.create_branch("side")
    add(graph, "new", "side")
    assert reader.table("Person").to_table()["name"].to_pylist() == ["old"]


def test_what_may_not_be_deleted(graph: hg.Graph) -> None:
    graph.create_branch("side")
    graph.create_branch("child", at="side")
    with pytest.raises(Conflict, match="child"):
        graph.delete_branch("side")
    with pytest.raises(InvalidInput, match="main cannot be deleted"):
        graph.delete_branch("main")
    with pytest.raises(NotFound, match="no branch nobody"):
        graph.delete_branch("nobody")
    graph.delete_branch("child")
    graph.delete_branch("side")
    assert graph.branches() == ("main",)


def test_names_that_are_taken_or_wrong(graph: hg.Graph) -> None:
    graph.create_branch("side")
    with pytest.raises(AlreadyExists):
        graph.create_branch("side")
    with pytest.raises(InvalidInput, match="cannot be the name"):
        graph.create_branch("no/slash")
    with pytest.raises(NotFound, match="no commit nowhere"):
        graph.create_branch("other", at="nowhere")
    graph.delete_branch("side")
    with pytest.raises(InvalidInput, match="has been deleted"):
        graph.create_branch("side")
        kept = add(graph, "x", "side")
        graph.delete_branch("side")
        graph.create_branch("other", at=kept)


def test_a_branch_is_deleted_only_when_its_writer_has_finished(graph: hg.Graph) -> None:
    graph.create_branch("side")
    refused: list[str] = []

    def look(at: Failpoint) -> None:
        if at is Failpoint.GRAPH_TABLES_COMMITTED:
            with pytest.raises(Conflict, match="at work") as told:
                graph.delete_branch("side")
            refused.append(str(told.value))

    failpoints.arm(look)
    try:
        add(graph, "Ada", "side")
    finally:
        failpoints.arm(None)
    assert refused
    assert names(graph, "side") == ["Ada"]


def test_two_that_make_a_branch_of_one_name_at_once_make_one(graph: hg.Graph) -> None:
    """The store decides: the second is told, whatever branch it starts from."""
    graph.create_branch("other")
    late = hg.open(graph.uri)
    stale = late.store.manifest.state()
    graph.create_branch("side")
    head = stale.head("other")
    mine = replace(head, branch="side", incarnation="late", order=head.order + 5, inherited=head.order + 4)
    with pytest.raises(MergeContended):
        late.store.manifest.merge(stale, [mine, head, stale.rows["format"]])
    with pytest.raises(AlreadyExists):
        late.create_branch("side", at="other")
    assert late.branches() == ("main", "other", "side")


def test_branches_outlive_the_rows_that_move_to_the_history(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a branch inherits stays among the live rows, however far the branch it was made from goes on."""
    for name, value in (("FRAGMENTS", 2), ("MOVED_AT_ONCE", 4), ("COMMITS_KEPT", 2)):
        monkeypatch.setattr(upkeep, name, value)
    add(graph, "Ada")
    graph.create_branch("side")
    old = add(graph, "old", "side")
    graph.create_branch("still", at="main")
    for number in range(12):
        add(graph, f"m{number}")
        add(graph, f"s{number}", "side")
    assert names(graph, "still") == ["Ada"]
    add(graph, "first", "still")
    assert names(graph, "still") == ["Ada", "first"]
    middle = list(graph.log("side"))[6].id
    assert len(graph.base(commit=middle).dataset("Person").to_table()) == 8
    graph.delete_branch("side")
    graph.create_branch("side", at="still")
    for number in range(12):
        add(graph, f"n{number}", "side")
    assert names(graph, "side") == sorted(["Ada", "first", *(f"n{number}" for number in range(12))])
    with hg.open(graph.uri) as again:
        assert sorted(again.base(commit=old).dataset("Person").to_table()["name"].to_pylist()) == ["Ada", "old"]
        assert len(again.base(commit=middle).dataset("Person").to_table()) == 8
        assert again.merge("side").outcome == "merged"
        assert len(names(again)) == 13 + 13
        with pytest.raises(NotFound, match="as old as"):
            again.snapshot(branch="side", time=datetime(2000, 1, 1, tzinfo=UTC))
