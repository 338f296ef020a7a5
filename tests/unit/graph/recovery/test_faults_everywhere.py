"""Each request to the store fails once, is refused once, or its answer is lost: of a write, then of a recovery.

A caller that is told of success finds its write. One that is told of a failure does not, now or later. One that is told
that nobody knows finds all of it or nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.unit.graph.conftest import SCHEMA, names

import headgate.graph as hg
from headgate import failpoints
from headgate.errors import HeadgateError, OutcomeUnknown
from headgate.failpoints import Failpoint
from headgate.graph.manifest.rows import Audit
from headgate.testing.store_faults import Effect, StoreFaults

pytestmark = pytest.mark.usefixtures("disarmed")
MIXED = 'query m() { insert Person { name: "new" } insert Note { text: "new" } }'
FAULTS = ["fail", "deny", "lose_answer"]


def fresh(root: Path) -> str:
    place = str(root / uuid4().hex)
    with hg.init(place, SCHEMA) as graph:
        graph.mutate('query o() { insert Person { name: "old" } insert Note { text: "old" } }')
    return place


def shown(graph: hg.Graph) -> bool:
    """Whether the write is there, all of it; half of it fails the test."""
    found = (names(graph), names(graph, "Note", "text"))
    assert found in ((["old"], ["old"]), (["new", "old"], ["new", "old"]))
    return "new" in found[0]


def audits(graph: hg.Graph) -> list[Audit]:
    return [row for row in graph.store.manifest.state().rows.values() if isinstance(row, Audit)]


def undisturbed(place: str) -> list[Effect]:
    faults = StoreFaults()
    graph = faults.open(place)
    start = len(faults.seen)
    graph.mutate(MIXED)
    return faults.seen[start:]


def points(effects: list[Effect]) -> list[tuple[Effect, int]]:
    """Each request, as the so-manieth of its kind."""
    return [(effect, effects[: number + 1].count(effect)) for number, effect in enumerate(effects)]


@pytest.mark.parametrize("kind", FAULTS)
def test_one_fault_of_a_write(tmp_path: Path, kind: str) -> None:
    """Invariant 4: what cannot be known is told as that, and nothing is reported that is not so."""
    effects = undisturbed(fresh(tmp_path))
    assert {Effect.LIST, Effect.PUT, Effect.STAGE, Effect.COMMIT, Effect.MERGE, Effect.DELETE} <= set(effects)
    for effect, nth in points(effects):
        place = fresh(tmp_path)
        faults = StoreFaults()
        graph = faults.open(place)
        getattr(faults, kind)(effect, nth)
        told: bool | None = True
        try:
            graph.mutate(MIXED)
        except OutcomeUnknown:
            told = None
        except HeadgateError:
            told = False
        with hg.open(place) as other:
            there = shown(other)
            assert told in (there, None), f"{kind} of {effect} {nth}: the caller was told {told}, and it is {there}"
            other.mutate('query n() { insert Place { country: "x", city: "y" } }')
            assert shown(other) == there
            assert other.store.objects.list("__recovery") == []


def left_by_a_dead_writer(place: str, point: Failpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(reached: Failpoint) -> None:
        if reached == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as dead, hg.open(place) as graph:
        dead.setattr("headgate.graph.write.commit.give_up", _raise)
        failpoints.arm(stop)
        with pytest.raises(KeyboardInterrupt):
            graph.mutate(MIXED, actor="victim")
        failpoints.arm(None)
        assert len(graph.store.objects.list("__recovery")) == 1


def _raise(store: Any, sidecar: Any, why: BaseException) -> None:
    raise why


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("point", [Failpoint.GRAPH_BETWEEN_TABLES, Failpoint.GRAPH_TABLES_COMMITTED])
def test_one_fault_of_a_recovery(tmp_path: Path, kind: str, point: Failpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one finishes it, and there is one audit row: it rides in the same merge as what it tells of."""
    place = fresh(tmp_path)
    left_by_a_dead_writer(place, point, monkeypatch)
    effects = StoreFaults()
    effects.open(place)
    for effect, nth in points(effects.seen):
        place = fresh(tmp_path)
        left_by_a_dead_writer(place, point, monkeypatch)
        faults = StoreFaults()
        getattr(faults, kind)(effect, nth)
        with suppress(HeadgateError):
            faults.open(place)
        with hg.open(place) as graph:
            assert shown(graph) == (point is Failpoint.GRAPH_TABLES_COMMITTED)
            (audit,) = audits(graph)
            assert (audit.recovery_for_actor, len(audit.tables)) == ("victim", 2)
            recovered = [commit for commit in graph.log() if commit.actor == "headgate:recovery"]
            assert [commit.id for commit in recovered] == [audit.graph_commit_id]
            assert graph.store.objects.list("__recovery") == []


def test_a_delete_that_fails_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    faults = StoreFaults()
    graph = faults.open(fresh(tmp_path))
    faults.fail(Effect.DELETE)
    assert graph.mutate(MIXED).changed
    assert "was not deleted" in caplog.text


@pytest.mark.parametrize("effect", [Effect.LIST, Effect.GET])
def test_what_may_not_be_read_is_never_taken_for_absent(
    tmp_path: Path, effect: Effect, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fresh(tmp_path)
    left_by_a_dead_writer(place, Failpoint.GRAPH_TABLES_COMMITTED, monkeypatch)
    with pytest.raises(HeadgateError, match="does not allow"):
        StoreFaults().deny(effect).open(place)
    assert len(list((Path(place) / "__recovery").rglob("*.json"))) == 1
