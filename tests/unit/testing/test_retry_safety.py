"""`assert_retry_safe` passes a task that can be retried, and finds one that cannot."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pydantic import BaseModel

from headgate import GraphTransaction, ReadOnly, TaskContext, task
from headgate.errors import Unsupported
from headgate.failpoints import Failpoint
from headgate.testing import assert_retry_safe


class Params(BaseModel):
    pass


class Done(BaseModel):
    pass


FILES = {"in.txt": "in"}


def test_a_task_that_depends_on_its_workspace_alone_is_safe() -> None:
    @task(workspace="/")
    def safe(workspace: Path, params: Params) -> Done:
        (workspace / "out.txt").write_text((workspace / "in.txt").read_text().upper())
        return Done()

    report = assert_retry_safe(safe, files=FILES)
    assert report.runs == len(report.points)
    assert {here.point for here in report.points} >= {Failpoint.ATTEMPT_IN_BODY, Failpoint.ATTEMPT_PUBLISHED}


def test_a_task_that_only_reads_is_safe() -> None:
    @task(workspace=ReadOnly("/"))
    def look(workspace: Path, params: Params) -> Done:
        return Done()

    assert assert_retry_safe(look, files=FILES).findings == []


def test_a_task_that_remembers_outside_its_workspace_is_found(tmp_path: Path) -> None:
    @task(workspace="/")
    def once(workspace: Path, params: Params, context: TaskContext) -> Done:
        seen = tmp_path / context.attempt.workflow
        if not seen.exists():
            (workspace / "out.txt").write_text("out")
        seen.touch()
        return Done()

    with pytest.raises(AssertionError, match=r"task once cannot be retried safely:\n") as found:
        assert_retry_safe(once, files=FILES)
    assert f"lost: killed at {Failpoint.ATTEMPT_AFTER_BODY} (visit 1)" in str(found.value)
    assert "out.txt is missing" in str(found.value)


def test_a_task_two_runs_of_which_differ_says_so(tmp_path: Path) -> None:
    @task(workspace="/")
    def chance(workspace: Path, params: Params) -> Done:
        (workspace / "out.txt").write_text(str(random.SystemRandom().random()))
        return Done()

    with pytest.raises(AssertionError, match=r"out\.txt is different"):
        assert_retry_safe(chance, files=FILES)
    assert assert_retry_safe(chance, files=FILES, same_files=False).findings == []


def test_a_task_that_fails_anyway_is_told_before_anything_is_killed() -> None:
    @task(workspace="/")
    def broken(workspace: Path, params: Params) -> Done:
        raise RuntimeError("no")

    with pytest.raises(AssertionError, match="fails even undisturbed: FAILED: .*no"):
        assert_retry_safe(broken, files=FILES)


SONGS = "node Song { title: String @key  plays: I64 }"
ROWS = [{"type": "Song", "data": {"title": "old", "plays": 1}}]


class Counted(BaseModel):
    memory: str = ""


@task(graph=["Song"])
def play(graph: GraphTransaction, params: Counted) -> Done:
    """Every song is played once more, and a new one comes in."""
    songs = graph.read("Song").to_pylist()
    graph.merge("Song", [{"title": song["title"], "plays": song["plays"] + 1} for song in songs])
    graph.append("Song", [{"title": "new", "plays": 0}])
    return Done()


@task(graph=["Song"])
def remember(graph: GraphTransaction, params: Counted) -> Done:
    """Counts its runs outside of the graph."""
    with Path(params.memory).open("a") as file:
        file.write("x")
    graph.append("Song", [{"title": "new", "plays": Path(params.memory).stat().st_size}])
    return Done()


@pytest.mark.slow
def test_a_task_on_a_graph_that_can_be_retried_passes() -> None:
    """Invariant 6: also killed between the sidecar, the tables' commits and the publish."""
    report = assert_retry_safe(play, schema=SONGS, rows=ROWS)
    reached = {here.point for here in report.points}
    assert {Failpoint.GRAPH_SIDECAR_CREATED, Failpoint.GRAPH_TABLES_COMMITTED, Failpoint.GRAPH_PUBLISHED} <= reached
    assert report.runs == len(report.points) > 10


@pytest.mark.slow
def test_a_task_on_a_graph_that_remembers_elsewhere_is_found(tmp_path: Path) -> None:
    params = Counted(memory=str(tmp_path / "memory"))
    with pytest.raises(AssertionError, match="the rows are not those of an undisturbed run: Song is different"):
        assert_retry_safe(remember, schema=SONGS, params=params)


def test_a_task_on_a_graph_cannot_be_written_inside_a_test() -> None:
    @task(graph=["Song"])
    def inside(graph: GraphTransaction, params: Params) -> Done:
        return Done()

    with pytest.raises(Unsupported, match="written inside a function"):
        assert_retry_safe(inside, schema=SONGS)
