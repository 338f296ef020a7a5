"""The crash harness of graph writers: a sample of its kills, and that it sees what it is there to see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

import headgate.graph as hg
from headgate.graph.recovery.writers import Writer
from headgate.testing.graph_crash import GraphCrash, Harm, Left, Workers, audits
from headgate.testing.graph_jobs import GRAPH, JOBS, SCHEMA, GraphJob

SAMPLED = ["mutate", "replacement", "first_write_on_a_branch"]
"""Every job is killed at every write by `python -m bench.crash_graph`."""


@pytest.fixture
def new_place(tmp_path: Path) -> Callable[[], str]:
    return lambda: str(tmp_path / uuid4().hex)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_killed_writers_are_all_there_or_not_at_all(tmp_path: Path, new_place: Callable[[], str], name: str) -> None:
    """Invariants 5 and 6, under SIGKILL after every third durable write."""
    report = GraphCrash(JOBS[name], new_place, Workers(tmp_path)).run(recovery=False, only=lambda n: n % 3 == 1)
    assert report.runs >= 3
    assert report.findings == []


@pytest.mark.slow
def test_killed_recoveries_leave_one_audit_row(tmp_path: Path, new_place: Callable[[], str]) -> None:
    crash = GraphCrash(JOBS["mutate"], new_place, Workers(tmp_path))
    report = crash.run(only=lambda n: n == 5)
    assert {point.recovery for point in report.points} >= {0, 1, 2, 3}
    assert report.findings == []


def _in_two_commits(graph: hg.Graph) -> None:
    graph.mutate('query a() { insert Person { name: "half" } }')
    graph.mutate('query b() { insert Note { text: "other half" } }')


def _nothing(graph: hg.Graph) -> None:
    return


@pytest.mark.slow
def test_a_write_that_is_visible_by_halves_is_found(tmp_path: Path, new_place: Callable[[], str]) -> None:
    broken = GraphJob(name="broken", writer=Writer.MUTATE, act=_in_two_commits, before=_nothing)
    report = GraphCrash(broken, new_place, Workers(tmp_path)).run(recovery=False, only=lambda n: n == 6)
    assert [finding.harm for finding in report.findings] == [Harm.HALF_VISIBLE]


def test_a_recovery_without_an_audit_row_is_found(new_place: Callable[[], str]) -> None:
    with hg.init(new_place(), SCHEMA) as graph:
        graph.mutate(GRAPH)
        found = list(audits(graph, Left(unsettled=("NOBODY",), moved=False)))
    assert [finding.harm for finding in found] == [Harm.AUDIT_MISSING]
