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


def test_a_task_on_a_graph_is_refused() -> None:
    @task(graph=["Song"])
    def on_graph(graph: GraphTransaction, params: Params) -> Done:
        return Done()

    with pytest.raises(Unsupported, match="cannot be forked"):
        assert_retry_safe(on_graph, files=FILES)
