"""A writer that stops at any point: cancelled in this process, or killed in another. All or nothing, and on it goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.graph.conftest import ADD, names

import headgate.graph as hg
from headgate import failpoints
from headgate.failpoints import Failpoint
from headgate.graph.manifest.rows import Audit

POINTS = [point for point in Failpoint if point.value.startswith("graph.") and point is not Failpoint.GRAPH_FORKED]
MIXED = 'query m() { insert Person { name: "new" } insert Note { text: "new" } }'
VISIBLE_AFTER_KILL = {
    Failpoint.GRAPH_STAGED: False,
    Failpoint.GRAPH_SIDECAR_CREATED: False,
    Failpoint.GRAPH_BETWEEN_TABLES: False,
    Failpoint.GRAPH_TABLES_COMMITTED: True,
    Failpoint.GRAPH_PUBLISHED: True,
}
KILLED = """
import os, signal, sys
import headgate.graph as hg
from headgate import failpoints

def stop(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

graph = hg.open(sys.argv[1])
failpoints.arm(stop)
graph.mutate(sys.argv[3], actor="victim")
"""


def killed_at(place: str, point: Failpoint) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, place, point.value, MIXED], capture_output=True, timeout=60)
    assert done.returncode == -9, done.stderr.decode()


def sidecars(place: str) -> list[Path]:
    return list((Path(place) / "__recovery").rglob("*.json"))


def audits(graph: hg.Graph) -> list[Audit]:
    rows = graph._store.manifest.state().rows.values()
    return [row for row in rows if isinstance(row, Audit)]


def assert_whole(graph: hg.Graph, *, visible: bool) -> None:
    rows = graph.base().rows
    assert rows["Person"] == 1 + visible
    assert rows["Note"] == int(visible)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.usefixtures("disarmed")
def test_a_cancelled_write_is_all_there_or_not_at_all(place: str, graph: hg.Graph, point: Failpoint) -> None:
    """Invariant 6: what was done before the publish is covered by a sidecar, and undone or finished."""
    graph.mutate(ADD, {"name": "old"})

    def cancel(reached: Failpoint) -> None:
        if reached == point:
            failpoints.arm(None)
            raise KeyboardInterrupt

    failpoints.arm(cancel)
    with pytest.raises(KeyboardInterrupt):
        graph.mutate(MIXED)
    published = point is Failpoint.GRAPH_PUBLISHED
    assert_whole(graph, visible=published)
    assert graph.mutate(ADD, {"name": "next"}).changed
    assert names(graph) == sorted(["old", "next", *(["new"] if published else [])])
    assert sidecars(place) == []


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.usefixtures("disarmed")
def test_a_cancelled_load_keeps_the_files_that_a_commit_may_show(graph: hg.Graph, point: Failpoint) -> None:
    graph.mutate(ADD, {"name": "old"})

    def cancel(reached: Failpoint) -> None:
        if reached == point:
            failpoints.arm(None)
            raise KeyboardInterrupt

    failpoints.arm(cancel)
    with pytest.raises(KeyboardInterrupt):
        graph.load([{"type": "Person", "data": {"name": "new"}}, {"type": "Note", "data": {"text": "new"}}])
    published = point is Failpoint.GRAPH_PUBLISHED
    assert names(graph) == sorted(["old", *(["new"] if published else [])])
    assert names(graph, "Note", "text") == (["new"] if published else [])


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_writer_is_rolled_forward_or_back_at_open(place: str, graph: hg.Graph, point: Failpoint) -> None:
    graph.mutate(ADD, {"name": "old"})
    killed_at(place, point)
    with hg.open(place) as reopened:
        assert_whole(reopened, visible=VISIBLE_AFTER_KILL[point])
        assert sidecars(place) == []
        assert reopened.mutate(ADD, {"name": "next"}).changed
        recovered = point not in (Failpoint.GRAPH_STAGED, Failpoint.GRAPH_PUBLISHED)
        found = audits(reopened)
        assert len(found) == int(recovered)
        if recovered:
            assert found[0].recovery_for_actor == "victim"
            assert reopened.commit(found[0].graph_commit_id)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_writer_does_not_stop_a_running_process(place: str, graph: hg.Graph, point: Failpoint) -> None:
    graph.mutate(ADD, {"name": "old"})
    killed_at(place, point)
    assert graph.mutate(ADD, {"name": "next"}).changed
    visible = ["new"] if VISIBLE_AFTER_KILL[point] else []
    assert names(graph) == sorted(["old", "next", *visible])
    assert graph.base().rows["Note"] == len(visible)


def test_a_graph_open_for_reading_leaves_sidecars_alone(place: str, graph: hg.Graph) -> None:
    killed_at(place, Failpoint.GRAPH_TABLES_COMMITTED)
    with hg.open(place, "ro") as reader:
        assert reader.base().rows["Person"] == 0
    assert len(sidecars(place)) == 1


def test_a_sidecar_that_cannot_be_read_is_kept_and_stops_writes_but_not_reads(place: str, graph: hg.Graph) -> None:
    killed_at(place, Failpoint.GRAPH_SIDECAR_CREATED)
    (found,) = sidecars(place)
    found.write_text("{")
    with pytest.raises(Exception, match="cannot be read"):
        graph.mutate(ADD, {"name": "next"})
    assert graph.base().rows["Person"] == 0
    assert sidecars(place) == [found]


KILLED_TASK = """
import os, signal, sys
import headgate.graph as hg
from headgate import failpoints
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.graph.write.transaction import Transaction

def stop(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

graph = hg.open(sys.argv[1])
change = Transaction(graph.store, graph.base(), WriteRequest(writer=Writer.TASK, actor="victim"))
change.append("Person", [{"name": "new"}])
change.append("Note", [{"text": "new"}])
failpoints.arm(stop)
change.commit()
"""


def test_a_task_attempt_is_never_rolled_forward(place: str, graph: hg.Graph) -> None:
    """The retry decides what becomes of it."""
    graph.mutate(ADD, {"name": "old"})
    point = Failpoint.GRAPH_TABLES_COMMITTED
    done = subprocess.run([sys.executable, "-c", KILLED_TASK, place, point.value], capture_output=True, timeout=60)
    assert done.returncode == -9, done.stderr.decode()
    with hg.open(place) as reopened:
        assert_whole(reopened, visible=False)
        (found,) = audits(reopened)
        assert found.recovery_kind == "roll_back"
        assert reopened.mutate(ADD, {"name": "next"}).changed
