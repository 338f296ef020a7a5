"""Files staged by a writer that died before its sidecar: on record, and never taken from one that is only slow."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.graph.conftest import ADD, SCHEMA, names

import headgate.graph as hg
from headgate.errors import Transient
from headgate.graph.manifest.rows import StagingFloor
from headgate.graph.recovery import staging
from headgate.graph.recovery.owner import Owner, this_process
from headgate.graph.recovery.staging import FOLDER, revoke_dead, staging_records
from headgate.graph.store import GraphStore
from headgate.testing.store_faults import Effect, StoreFaults

DAY = timedelta(days=1)


def revoke(store: GraphStore) -> object:
    return revoke_dead(store.manifest, store.objects, older_than=DAY)


def test_a_process_leaves_one_record_and_takes_it_away(graph: hg.Graph) -> None:
    for name in ("a", "b", "c"):
        graph.mutate(ADD, {"name": name})
    graph.load([{"type": "Note", "data": {"text": "t"}}])
    (record,) = staging_records(graph.store.objects)
    assert record.owner == this_process()
    graph.close()
    assert staging_records(graph.store.objects) == []


def test_an_old_record_is_renewed(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.mutate(ADD, {"name": "a"})
    (first,) = staging_records(graph.store.objects)
    monkeypatch.setattr(staging, "RENEWED", -1.0)
    graph.mutate(ADD, {"name": "b"})
    (second,) = staging_records(graph.store.objects)
    assert first.id < second.id


def test_records_of_the_dead_are_revoked_and_those_of_others_are_left(
    place: str, graph: hg.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = this_process()
    with monkeypatch.context() as dead:
        dead.setattr(staging, "this_process", lambda: Owner(me.host, me.pid, me.started - 1000))
        hg.open(place).mutate(ADD, {"name": "by the dead"})
    graph.mutate(ADD, {"name": "by the living"})
    gone, mine = staging_records(graph.store.objects)
    until = revoke(graph.store)
    assert staging_records(graph.store.objects) == [mine]
    assert until == mine.began
    assert gone.id < graph.store.manifest.state().staging_floor <= mine.id
    assert graph.mutate(ADD, {"name": "next"}).changed


def test_a_writer_of_another_host_is_given_its_time(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "this_process", lambda: Owner("elsewhere", 1, 0.0))
    graph.mutate(ADD, {"name": "a"})
    revoke(graph.store)
    assert len(staging_records(graph.store.objects)) == 1
    revoke_dead(graph.store.manifest, graph.store.objects, older_than=timedelta(0))
    assert staging_records(graph.store.objects) == []
    assert graph.mutate(ADD, {"name": "b"}).changed, "it begins a new record"


@pytest.mark.parametrize("kind", ["mutate", "load"])
def test_a_slow_writer_that_was_taken_for_dead_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Invariant 7: its files may be gone, so that it must not show them. The next write works."""
    place = str(tmp_path / "graph")
    hg.init(place, SCHEMA).close()
    faults = StoreFaults()
    graph = faults.open(place)
    monkeypatch.setattr(staging, "is_running", lambda owner: False)
    faults.at(Effect.PUT, lambda: revoke(graph.store), nth=2)
    with pytest.raises(Transient, match="taken for dead"):
        if kind == "mutate":
            graph.mutate(ADD, {"name": "slow"})
        else:
            graph.load([{"type": "Person", "data": {"name": "slow"}}])
    assert graph.store.objects.list("__recovery") == []
    assert graph.mutate(ADD, {"name": "next"}).changed
    assert names(graph) == ["next"]


def test_a_clock_that_is_behind_makes_a_record_above_the_floor(graph: hg.Graph) -> None:
    state = graph.store.manifest.state()
    graph.store.manifest.merge(state, [StagingFloor(below="7ZZZZZZZZZZZZZZZZZZZZZZZZZ")])
    assert graph.mutate(ADD, {"name": "a"}).changed
    (record,) = graph.store.objects.list(FOLDER)
    assert record.name > f"{FOLDER}/7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
