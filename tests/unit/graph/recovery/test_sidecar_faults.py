"""Sidecars: their names, their owners, and when somebody else's is settled."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.graph.conftest import ADD

import headgate.graph as hg
from headgate.errors import Contention
from headgate.graph.manifest.rows import HeadMark
from headgate.graph.recovery.owner import Owner, is_gone, this_process
from headgate.graph.recovery.sidecar import PlannedTable, Sidecar


def test_a_name_that_is_taken_by_nothing_does_not_stop_the_branch(
    graph: hg.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = graph.store.objects.put_if_absent
    burnt = Sidecar(operation="", branch="main", base=graph._store.manifest.state().head("main").mark, writer="").name

    def taken(name: str, data: bytes) -> bool:
        return False if name == burnt else real(name, data)

    monkeypatch.setattr(graph.store.objects, "put_if_absent", taken)
    assert graph.mutate(ADD, {"name": "a"}).changed
    assert graph.mutate(ADD, {"name": "b"}).changed
    assert graph._store.objects.list("__recovery") == []


def test_a_sidecar_survives_being_stored() -> None:
    sidecar = Sidecar(
        operation="op",
        branch="a/b",
        base=HeadMark("c", 7),
        writer="load",
        actor="me",
        owner=this_process(),
        metadata={"k": "v"},
        if_head=True,
        expected_schema=3,
        tables=(PlannedTable("t", "tables/t", 4, "uuid", 9),),
    )
    assert Sidecar.from_json(sidecar.name, sidecar.to_json()) == sidecar
    assert sidecar.name == "__recovery/a%2Fb/000000000007-c.json"


def test_who_is_gone_is_only_said_of_this_host() -> None:
    me = this_process()
    assert is_gone(me, "nobody works on this")
    assert is_gone(Owner(me.host, me.pid, me.started - 1000), "an earlier process of this number")
    assert not is_gone(Owner("elsewhere", 1, 0.0), "op")


def foreign(graph: hg.Graph) -> Sidecar:
    """What a writer on another host left before its first effect."""
    state = graph._store.manifest.state()
    table, pin = next(iter(state.pins("main").items()))
    planned = PlannedTable(table, state.table(table).path, pin.version, "uuid", 1)
    made = Sidecar(
        operation="OTHER",
        branch="main",
        base=state.head("main").mark,
        writer="mutate",
        actor="other",
        owner=Owner("elsewhere", 1, 0.0),
        tables=(planned,),
    )
    assert graph._store.sidecars.create(made)
    return made


def test_a_writer_that_cannot_be_asked_is_waited_for(place: str, graph: hg.Graph) -> None:
    foreign(graph)
    with hg.open(place, patience=hg.Patience(write_timeout=0.3)) as waiting:
        with pytest.raises(Contention, match="another writer holds branch main"):
            waiting.mutate(ADD, {"name": "a"})
        assert len(waiting._store.objects.list("__recovery")) == 1


def test_a_writer_that_cannot_be_asked_is_rolled_back_once_its_sidecar_is_old(place: str, graph: hg.Graph) -> None:
    """A wrong guess costs a slow writer a Conflict, never data."""
    left = foreign(graph)
    with hg.open(place, patience=hg.Patience(sidecar_age=timedelta(0))) as other:
        assert other.mutate(ADD, {"name": "a"}).changed
        assert other._store.manifest.state().find_audit(left.operation) is not None
        assert [commit.actor for commit in other.log()][1] == "headgate:recovery"
