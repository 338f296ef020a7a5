"""The first write to a table that a branch only inherits: on a fork, made after the sidecar and named in it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.graph.conftest import ADD

import headgate.graph as hg
from headgate import failpoints
from headgate.errors import HeadgateError
from headgate.failpoints import Failpoint
from headgate.graph.manifest.rows import Pin
from headgate.graph.recovery.heal import heal
from headgate.graph.storage import CommitUnknown

pytestmark = pytest.mark.usefixtures("disarmed")
MIXED = 'query m() { insert Person { name: "new" } update Person set { age: 9 } where name = "old" }'


@pytest.fixture
def branch(graph: hg.Graph) -> str:
    """A branch that shows what main shows."""
    graph.mutate(ADD, {"name": "old"})
    graph.mutate(ADD, {"name": "older"})
    graph.create_branch("side")
    return "side"


def names(graph: hg.Graph, branch: str) -> list[str]:
    return sorted(graph.base(branch=branch).dataset("Person").to_table()["name"].to_pylist())


def pin(graph: hg.Graph, branch: str, type_name: str = "Person") -> Pin:
    return graph.base(branch=branch).tables[type_name][1]


def test_a_first_write_forks_and_later_ones_stay_on_the_fork(graph: hg.Graph, branch: str) -> None:
    before = pin(graph, "main")
    graph.mutate(MIXED, branch=branch)
    forked = pin(graph, branch)
    assert forked.fork
    assert pin(graph, "main") == before
    graph.mutate(ADD, {"name": "next"}, branch=branch)
    assert pin(graph, branch).fork == forked.fork
    assert names(graph, branch) == ["new", "next", "old", "older"]
    assert names(graph, "main") == ["old", "older"]
    graph.mutate(ADD, {"name": "on main"})
    assert names(graph, branch) == ["new", "next", "old", "older"]
    assert pin(graph, branch, "Note").fork == ""


@pytest.mark.parametrize("mode", ["overwrite", "delete", "append", "index"])
def test_every_kind_of_change_lands_on_a_fork(graph: hg.Graph, branch: str, mode: str) -> None:
    if mode == "index":
        graph.ensure_indices(branch=branch)
    else:
        with graph.transaction(branch=branch) as change:
            if mode == "overwrite":
                change.overwrite("Person", [{"name": "only"}])
            elif mode == "delete":
                change.delete("Person", where="name = 'old'")
            else:
                change.append("Person", [{"name": "new"}])
    shown = {"overwrite": ["only"], "delete": ["older"], "append": ["new", "old", "older"], "index": ["old", "older"]}
    assert names(graph, branch) == shown[mode]
    found = graph.query('query q() { match { $p: Person { name: "old" } } return { $p.name } }', branch=branch)
    assert len(found) == shown[mode].count("old")
    assert names(graph, "main") == ["old", "older"]
    graph.mutate(ADD, {"name": "last"}, branch=branch)
    assert "last" in names(graph, branch)


def stop_at(point: Failpoint) -> None:
    def stop(reached: Failpoint) -> None:
        if reached == point:
            failpoints.arm(None)
            raise KeyboardInterrupt

    failpoints.arm(stop)


@pytest.mark.parametrize("point", [Failpoint.GRAPH_SIDECAR_CREATED, Failpoint.GRAPH_FORKED, Failpoint.GRAPH_PUBLISHED])
def test_a_cancelled_first_write_leaves_both_branches_usable(graph: hg.Graph, branch: str, point: Failpoint) -> None:
    stop_at(point)
    with pytest.raises(KeyboardInterrupt):
        graph.mutate(MIXED, branch=branch)
    landed = ["new"] if point is Failpoint.GRAPH_PUBLISHED else []
    assert names(graph, branch) == sorted([*landed, "old", "older"])
    graph.mutate(ADD, {"name": "next"}, branch=branch)
    assert names(graph, branch) == sorted([*landed, "next", "old", "older"])
    assert names(graph, "main") == ["old", "older"]


def leave_sidecar(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch, at: Failpoint) -> None:
    """A first write to the branch that stops after a point, as one that was killed."""
    with monkeypatch.context() as dead:
        dead.setattr("headgate.graph.write.commit.give_up", _raise)
        stop_at(at)
        with pytest.raises(KeyboardInterrupt):
            graph.mutate(MIXED, branch="side")
    assert len(graph.store.objects.list("__recovery")) == 1


def _raise(store: Any, sidecar: Any, why: BaseException) -> None:
    raise why


@pytest.mark.parametrize("point", [Failpoint.GRAPH_SIDECAR_CREATED, Failpoint.GRAPH_FORKED])
def test_a_dead_first_write_is_rolled_back_on_its_own_fork(
    graph: hg.Graph, branch: str, point: Failpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of the other branch gets no version: only the pin of this one moves, to the fork."""
    before = graph.store.tables.head_version(_path(graph))
    leave_sidecar(graph, monkeypatch, point)
    assert heal(graph.store, branch) == 0
    assert graph.store.tables.head_version(_path(graph)) == before
    assert names(graph, branch) == ["old", "older"]
    assert pin(graph, branch).fork
    graph.mutate(ADD, {"name": "next"}, branch=branch)
    assert names(graph, branch) == ["next", "old", "older"]


def _path(graph: hg.Graph) -> str:
    return graph.base().tables["Person"][0].path


def test_a_dead_first_write_that_landed_is_rolled_forward(
    graph: hg.Graph, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_sidecar(graph, monkeypatch, Failpoint.GRAPH_TABLES_COMMITTED)
    assert heal(graph.store, branch) == 0
    assert names(graph, branch) == ["new", "old", "older"]


def test_a_fork_that_was_made_half_is_left_alone(graph: hg.Graph, branch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lance makes the fork, then its reference; without that, cleanup would not know that its files are in use."""
    leave_sidecar(graph, monkeypatch, Failpoint.GRAPH_FORKED)
    (found,) = graph.store.sidecars.find(branch)
    (planned,) = found.sidecar.tables
    graph.store.objects.delete(f"{planned.path}/_refs/branches/{planned.new_fork}.json")
    assert heal(graph.store, branch) == 0
    assert pin(graph, branch).fork == f"{planned.new_fork}-2"
    graph.mutate(ADD, {"name": "next"}, branch=branch)
    assert names(graph, branch) == ["next", "old", "older"]


def test_a_fork_whose_answer_is_lost_fails_the_write_and_not_the_branch(
    graph: hg.Graph, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("headgate.graph.storage.tables.make_fork", _lost)
        with pytest.raises(HeadgateError):
            graph.mutate(MIXED, branch=branch)
    graph.mutate(ADD, {"name": "next"}, branch=branch)
    assert names(graph, branch) == ["next", "old", "older"]


def _lost(*_: object) -> None:
    raise CommitUnknown("the connection was reset")
