"""A write that changes no table: its rows ride in one publish, and nothing but the head tells what became of it."""

from __future__ import annotations

import pytest

import headgate.graph as hg
from headgate.errors import Conflict
from headgate.graph.recovery.heal import recover
from headgate.graph.recovery.roll import publish_roll_back, publish_roll_forward
from headgate.graph.recovery.sidecar import Sidecar


@pytest.fixture
def sidecar(graph: hg.Graph) -> Sidecar:
    state = graph.store.manifest.state()
    made = Sidecar(
        operation=graph.store.ids.new(),
        branch="main",
        base=state.head("main").mark,
        writer="schema",
        expected_schema=state.schema("main").order,
    )
    assert graph.store.sidecars.create(made)
    return made


def test_it_is_all_there_from_the_start(graph: hg.Graph, sidecar: Sidecar) -> None:
    recover(graph.store, sidecar)
    assert graph.head().id == sidecar.operation


def test_once_its_writer_gave_up_nobody_finishes_it(graph: hg.Graph, sidecar: Sidecar) -> None:
    """A recoverer may have decided to, before: no pin has moved to stop it, so the head has to."""
    publish_roll_back(graph.store, sidecar, {}, kind="given_up", movements={}, by_recovery=False)
    with pytest.raises(Conflict):
        publish_roll_forward(graph.store, sidecar, {})
    recover(graph.store, sidecar)
    assert sidecar.operation not in [commit.id for commit in graph.log()]
