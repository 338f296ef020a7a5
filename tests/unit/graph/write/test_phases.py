"""The phases after the lock: residue above a pin, lost answers of table commits, a rival that publishes meanwhile."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.graph.conftest import ADD, names

import headgate.graph as hg
from headgate import failpoints
from headgate.errors import ExpectedVersionMismatch, OutcomeUnknown, Transient
from headgate.failpoints import Failpoint
from headgate.graph.manifest.publisher import Publication, TableAt, publish
from headgate.graph.storage import CommitUnknown

pytestmark = pytest.mark.usefixtures("disarmed")


def leave_residue(graph: hg.Graph, name: str) -> None:
    """A row above the pin of Person, as a writer leaves it that died between its phases."""
    at = graph.base().snapshot("Person")
    row = pa.Table.from_pylist([{"id": name, "name": name, "age": None, "email": None}], schema=at.dataset.schema)
    graph.store.tables.commit(at, graph.store.tables.stage(at, add=row))


@pytest.mark.parametrize("text", [ADD, 'query d() { delete Person where name = "old" }'])
def test_residue_above_the_pin_is_never_published(graph: hg.Graph, text: str) -> None:
    graph.mutate(ADD, {"name": "old"})
    leave_residue(graph, "ghost")
    graph.mutate(text, {"name": "new"} if text == ADD else None)
    assert names(graph) == (["new", "old"] if text == ADD else [])
    leave_residue(graph, "ghost")
    leave_residue(graph, "ghost again")
    graph.mutate(ADD, {"name": "last"})
    assert "ghost" not in " ".join(names(graph))


@pytest.mark.parametrize("lands", [True, False])
def test_a_table_commit_whose_answer_is_lost_is_read_back(
    graph: hg.Graph, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    """Invariant 4: never repeated blindly, since a transaction committed twice holds its rows twice."""
    real = graph.store.tables.commit
    lost = {"times": 0}

    def commit(at: Any, staged: Any) -> int:
        if lost["times"] == 0:
            lost["times"] += 1
            if lands:
                real(at, staged)
            raise CommitUnknown("the connection was reset")
        return real(at, staged)

    monkeypatch.setattr(graph.store.tables, "commit", commit)
    assert graph.mutate('query n() { insert Note { text: "once" } }').changed
    assert lost["times"] == 1
    assert names(graph, "Note", "text") == ["once"]
    assert graph.base().rows["Note"] == 1


def test_a_restore_whose_answer_is_lost_is_repeated(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_residue(graph, "ghost")
    real = graph.store.tables.restore
    lost = {"times": 0}

    def restore(at: Any) -> int:
        landed = real(at)
        lost["times"] += 1
        if lost["times"] < 3:
            raise CommitUnknown("the connection was reset")
        return landed

    monkeypatch.setattr(graph.store.tables, "restore", restore)
    graph.mutate(ADD, {"name": "a"})
    assert lost["times"] == 3
    assert names(graph) == ["a"]


def rival(graph: hg.Graph, type_name: str) -> None:
    """Somebody publishes a pin of a table without regard for the lock."""
    base = graph.base()
    table, at = base.table_key(type_name), base.pinned(type_name)
    restored = graph.store.tables.restore(base.snapshot(type_name))
    state = graph.store.manifest.state()
    made = Publication(
        branch="main",
        commit=graph.store.ids.new(),
        base=state.head("main").mark,
        writer="rival",
        pins={table: TableAt(restored, at.fork, at.rows)},
    )
    publish(graph.store.manifest, made)


@pytest.mark.parametrize("rivals", ["Person", "Note"])
def test_a_write_whose_expectation_moved_is_undone(graph: hg.Graph, rivals: str) -> None:
    """The rival moves a table that is written, or one that was only read to check the edge."""
    graph.mutate('query p() { insert Person { name: "a" } insert Note { text: "t" } }')
    note = graph.base().dataset("Note").to_table()["id"][0].as_py()

    def meanwhile(point: Failpoint) -> None:
        if point is Failpoint.GRAPH_TABLES_COMMITTED:
            failpoints.arm(None)
            rival(graph, rivals)

    change = graph.transaction()
    change.append("Wrote", [{"from": "a", "to": note}])
    change.merge("Person", [{"name": "a", "age": 5}])
    failpoints.arm(meanwhile)
    with pytest.raises(ExpectedVersionMismatch) as lost:
        change.commit()
    assert lost.value.table == rivals
    assert graph.base().rows["Wrote"] == 0
    assert graph.store.objects.list("__recovery") == []
    assert graph.mutate(ADD, {"name": "next"}).changed
    with graph.transaction() as again:
        again.append("Wrote", [{"from": "a", "to": note}])
    assert graph.base().rows["Wrote"] == 1


def test_a_write_that_can_neither_publish_nor_roll_back_is_unknown(
    place: str, graph: hg.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sidecar stays, and the next writer settles the matter."""
    manifest = graph.store.manifest

    def down(*_: object) -> None:
        raise Transient(message="the store is down")

    def cut(point: Failpoint) -> None:
        if point is Failpoint.GRAPH_TABLES_COMMITTED:
            failpoints.arm(None)
            monkeypatch.setattr(manifest, "merge", down)

    failpoints.arm(cut)
    with pytest.raises(OutcomeUnknown) as unknown:
        graph.mutate(ADD, {"name": "a"})
    assert len(graph.store.objects.list("__recovery")) == 1
    with hg.open(place) as other:
        assert other.mutate(ADD, {"name": "b"}).changed
        assert "b" in names(other)
        published = [commit.id for commit in other.log()]
        assert (unknown.value.publish_id in published) == ("a" in names(other))
        assert other.store.objects.list("__recovery") == []


def test_upkeep_that_fails_does_not_fail_the_write_it_follows(
    graph: hg.Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The write is published: an error would make its caller write it again."""

    def down(*_: object) -> None:
        raise Transient(message="the store is down")

    monkeypatch.setattr("headgate.graph.manifest.upkeep.keep_compact", down)
    assert graph.mutate(ADD, {"name": "a"}).changed
    assert names(graph) == ["a"]
    assert "the store is down" in caplog.text
    assert graph.store.objects.list("__recovery") == []
