"""Tasks whose worker can be killed anywhere. Copied into a worker's folder; files in `control` say what happens.

kill-at   a failpoint and `executor` or `worker`: who is killed there, once
hold      while it is there, bodies wait; `held` says that one does
jump      while it is there, the wall clock jumps a day with every look at it
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel

from headgate import failpoints
from headgate.clock import SystemClock
from headgate.failpoints import Failpoint
from headgate.tasks import PublishBudget, RetryPolicy, TaskContext, TaskControls, TimeoutPolicy, task

CONTROL = Path(__file__).parent / "control"


def kill(here: Failpoint) -> None:
    try:
        point, whom = (CONTROL / "kill-at").read_text().split()
    except FileNotFoundError:
        return
    if here != point:
        return
    (CONTROL / "kill-at").unlink()
    if whom == "worker":
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


failpoints.arm(kill)
_days = itertools.cycle([1, -1, 300, -300])
_now = SystemClock.now


def jumping(self: SystemClock) -> datetime:
    if (CONTROL / "jump").exists():
        return datetime.now(UTC) + timedelta(days=next(_days))
    return _now(self)


SystemClock.now = jumping  # type: ignore[method-assign]


class Params(BaseModel):
    text: str = ""


class Result(BaseModel):
    files: int


CONTROLS = TaskControls(
    retry=RetryPolicy(count=10, delay_seconds=0),
    timeout=TimeoutPolicy(policy="RETRY", response_seconds=3),
    publish=PublishBudget(
        heartbeat_interval_seconds=0.5,
        completion_timeout_seconds=4,
        shutdown_grace_seconds=8,
        publish_timeout_seconds=10,
    ),
)
WITHOUT_STORE = TaskControls(retry=RetryPolicy(count=1, delay_seconds=0), timeout=CONTROLS.timeout)


def write(workspace: Path, name: str, params: Params) -> Result:
    while (CONTROL / "hold").exists():
        (CONTROL / "held").touch()
        time.sleep(0.02)
    (workspace / name).write_text(f"{params.text} {time.time_ns()}")
    return Result(files=sum(path.is_file() for path in workspace.rglob("*")))


@task(workspace="/", owner_email="tests@example.com", controls=CONTROLS)
def fault_first(workspace: Path, params: Params) -> Result:
    return write(workspace, "first.txt", params)


@task(workspace="/", owner_email="tests@example.com", controls=CONTROLS)
def fault_second(workspace: Path, params: Params) -> Result:
    return write(workspace, "second.txt", params)


@task(owner_email="tests@example.com", controls=WITHOUT_STORE)
def fault_plain(params: Params, context: TaskContext) -> Result:
    context.logger.info("working on it", text=params.text)
    if params.text == "raise":
        raise ValueError("no such song")
    return Result(files=0)


@task(
    owner_email="tests@example.com", controls=TaskControls(publish=None, timeout=CONTROLS.timeout, retry=CONTROLS.retry)
)
def fault_long(params: Params, context: TaskContext) -> Result:
    (CONTROL / "held").touch()
    while (CONTROL / "hold").exists() and not context.cancelled:
        time.sleep(0.02)
    context.raise_if_cancelled()
    return Result(files=0)
