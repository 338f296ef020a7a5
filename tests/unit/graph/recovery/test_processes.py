"""A writer that is alive but slow, and several recoveries at once, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psutil
import pytest
from tests.unit.graph.conftest import names
from tests.unit.graph.recovery.test_stopped_writers import MIXED, audits, killed_at

import headgate.graph as hg
from headgate.failpoints import Failpoint

pytestmark = pytest.mark.slow
IMPATIENT = hg.Patience(sidecar_age=timedelta(0))
"""Takes every sidecar for left behind: a wrong guess costs a slow writer a Conflict, never data."""

NEXT = 'query n() { insert Person { name: "next" } }'
SLOW = """
import json, os, signal, sys
import headgate.graph as hg
from headgate import failpoints
from headgate.errors import HeadgateError

def stop(point):
    if point == sys.argv[2]:
        failpoints.arm(None)
        os.kill(os.getpid(), signal.SIGSTOP)

graph = hg.open(sys.argv[1])
failpoints.arm(stop)
try:
    told = graph.mutate(sys.argv[3], actor="slow").commit
except HeadgateError as error:
    told = type(error).__name__
print(json.dumps(told))
"""


@contextmanager
def slow_writer(place: str, point: Failpoint) -> Iterator[subprocess.Popen[str]]:
    """A writer that has been stopped at a point and can be let go on."""
    command = [sys.executable, "-c", SLOW, place, point.value, MIXED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            while psutil.Process(writer.pid).status() != psutil.STATUS_STOPPED:
                assert writer.poll() is None
                time.sleep(0.01)
            yield writer
        finally:
            writer.kill()


def told_by(writer: subprocess.Popen[str]) -> str:
    os.kill(writer.pid, signal.SIGCONT)
    assert writer.stdout is not None
    return str(json.loads(writer.stdout.readline()))


@pytest.mark.parametrize(
    ("point", "rolled_back"), [(Failpoint.GRAPH_STAGED, []), (Failpoint.GRAPH_SIDECAR_CREATED, ["roll_back"])]
)
def test_a_slow_writer_without_an_effect_begins_anew(
    place: str, graph: hg.Graph, point: Failpoint, rolled_back: list[str]
) -> None:
    """With a new commit id: the one it had may have been rolled back."""
    with slow_writer(place, point) as writer:
        with hg.open(place, patience=IMPATIENT) as other:
            other.mutate(NEXT)
        told = told_by(writer)
    assert graph.commit(told).actor == "slow"
    assert names(graph) == ["new", "next"]
    assert [audit.recovery_kind for audit in audits(graph)] == rolled_back
    assert told not in [audit.operation_id for audit in audits(graph)]


def test_a_slow_writer_that_was_rolled_back_gets_a_conflict(place: str, graph: hg.Graph) -> None:
    with slow_writer(place, Failpoint.GRAPH_BETWEEN_TABLES) as writer:
        with hg.open(place, patience=IMPATIENT) as other:
            other.mutate(NEXT)
        assert told_by(writer) == "ExpectedVersionMismatch"
    assert names(graph) == ["next"]
    assert [audit.recovery_kind for audit in audits(graph)] == ["roll_back"]
    assert graph.mutate('query l() { insert Person { name: "last" } }').changed
    assert names(graph) == ["last", "next"]


@pytest.mark.parametrize("point", [Failpoint.GRAPH_TABLES_COMMITTED, Failpoint.GRAPH_PUBLISHED])
def test_a_slow_writer_that_was_rolled_forward_reports_its_own_commit(
    place: str, graph: hg.Graph, point: Failpoint
) -> None:
    with slow_writer(place, point) as writer:
        with hg.open(place, patience=IMPATIENT) as other:
            other.mutate(NEXT)
            assert names(other) == ["new", "next"]
        told = told_by(writer)
    made = graph.commit(told)
    by = "slow" if point is Failpoint.GRAPH_PUBLISHED else "headgate:recovery"
    assert (made.actor, made.writer) == (by, "mutate")
    assert [commit.id for commit in graph.log()].count(told) == 1
    assert names(graph) == ["new", "next"]
    assert names(graph, "Note", "text") == ["new"]


OPENED_TOGETHER = """
import sys
import headgate.graph
print("ready", flush=True)
sys.stdin.readline()
graph = headgate.graph.open(sys.argv[1])
graph.mutate("query n($name: String) { insert Person { name: $name } }", {"name": sys.argv[2]})
"""


@pytest.mark.parametrize("point", [Failpoint.GRAPH_BETWEEN_TABLES, Failpoint.GRAPH_TABLES_COMMITTED])
def test_recoveries_at_once_leave_one_audit_row(place: str, graph: hg.Graph, point: Failpoint) -> None:
    killed_at(place, point)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", OPENED_TOGETHER, place, f"by {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        process.communicate()
        assert process.returncode == 0
    landed = ["new"] if point is Failpoint.GRAPH_TABLES_COMMITTED else []
    assert names(graph) == sorted([*landed, "by 0", "by 1", "by 2"])
    (audit,) = audits(graph)
    by_recovery = [commit.id for commit in graph.log() if commit.actor == "headgate:recovery"]
    assert by_recovery == [audit.graph_commit_id]
    assert graph.store.objects.list("__recovery") == []
