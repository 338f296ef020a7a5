"""Workflows in executor processes: branches of a fork side by side, bodies ended at their limits, executors killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TASKS = """
import os, signal, time
from pathlib import Path
from pydantic import BaseModel
from headgate import RetryPolicy, TaskControls, TimeoutPolicy, task

HERE = Path(__file__).parent

class Params(BaseModel):
    me: str = ""
    other: str = ""

class Met(BaseModel):
    pid: int

@task(owner_email="a@b.example")
def meet(params: Params) -> Met:
    (HERE / params.me).touch()
    until = time.monotonic() + 60
    while not (HERE / params.other).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{params.other} never came")
        time.sleep(0.01)
    return Met(pid=os.getpid())

LIMIT = TaskControls(retry=RetryPolicy(count=0), timeout=TimeoutPolicy(policy="RETRY", seconds=1, response_seconds=1))

@task(owner_email="a@b.example", controls=LIMIT)
def hang(params: Params) -> Met:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    while True:
        time.sleep(3600)

@task(owner_email="a@b.example", controls=TaskControls(retry=RetryPolicy(count=1, delay_seconds=0)))
def dies(params: Params) -> Met:
    if not (HERE / "died").exists():
        (HERE / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Met(pid=os.getpid())
"""


def step(name: str, reference: str, **params: str) -> dict[str, Any]:
    return {"name": name, "taskReferenceName": reference, "inputParameters": {"params": params}}


@pytest.fixture
def run(headgate: Callable[..., Any], project: Path) -> Callable[..., dict[str, Any]]:
    (project / "side.py").write_text(TASKS)

    def run(tasks: list[dict[str, Any]], *options: str) -> dict[str, Any]:
        (project / "side.json").write_text(json.dumps({"name": "side", "tasks": tasks}))
        shown = headgate("run", "side.json", "--tasks", "side", "--json", *options)
        assert shown.out, shown.err
        return dict(json.loads(shown.out))

    return run


def test_branches_of_a_fork_run_at_the_same_time(run: Callable[..., dict[str, Any]]) -> None:
    """Each waits for the other: one after the other, neither would end."""
    fork = {
        "name": "fork",
        "taskReferenceName": "fork",
        "type": "FORK_JOIN",
        "forkTasks": [[step("meet", "a", me="a", other="b")], [step("meet", "b", me="b", other="a")]],
    }
    join = {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": ["a", "b"]}
    ran = run([fork, join], "-j", "2")
    assert ran["status"] == "COMPLETED", ran["reason"]
    assert len({one["result"]["pid"] for one in ran["output"].values()}) == 2


def test_a_body_that_hangs_is_ended_at_its_limit(run: Callable[..., dict[str, Any]]) -> None:
    ran = run([step("hang", "stuck")])
    assert ran["status"] in ("FAILED", "TIMED_OUT")
    assert "stuck" in ran["reason"]


def test_a_killed_executor_costs_a_retry_and_no_more(run: Callable[..., dict[str, Any]]) -> None:
    ran = run([step("dies", "once"), step("dies", "twice")], "-j", "1")
    assert ran["status"] == "COMPLETED", ran["reason"]
    assert [(task["reference"], task["status"]) for task in ran["tasks"]] == [
        ("once", "FAILED"),
        ("once", "COMPLETED"),
        ("twice", "COMPLETED"),
    ]
    assert "executor" in ran["tasks"][0]["reason"]
