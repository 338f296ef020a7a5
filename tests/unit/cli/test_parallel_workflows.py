"""Workflows in executor processes: branches of a fork side by side, bodies ended at their limits, executors killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
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


def test_an_interrupted_run_uses_up_no_retry_and_is_resumed(
    run: Callable[..., dict[str, Any]], headgate: Callable[..., Any], project: Path
) -> None:
    (project / "side.json").write_text(
        json.dumps({"name": "side", "tasks": [step("meet", "a", me="here", other="there")]})
    )
    line = [sys.executable, "-m", "headgate.cli.main", "run", "side.json", "--tasks", "side", "-j", "1"]
    path = os.pathsep.join(sys.path)
    child = subprocess.Popen(line, cwd=project, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)
    wait_for((project / "here").exists)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=120)
    assert child.returncode == 130, told
    assert b"--resume" in told
    (project / "there").touch()
    resumed = headgate("run", "--resume", "--json")
    assert resumed.code == 0, resumed.err
    ran = json.loads(resumed.out)
    assert [task["status"] for task in ran["tasks"]] == ["TIMED_OUT", "COMPLETED"]


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def test_a_killed_executor_costs_a_retry_and_no_more(run: Callable[..., dict[str, Any]]) -> None:
    ran = run([step("dies", "once"), step("dies", "twice")], "-j", "1")
    assert ran["status"] == "COMPLETED", ran["reason"]
    assert [(task["reference"], task["status"]) for task in ran["tasks"]] == [
        ("once", "FAILED"),
        ("once", "COMPLETED"),
        ("twice", "COMPLETED"),
    ]
    assert "executor" in ran["tasks"][0]["reason"]
