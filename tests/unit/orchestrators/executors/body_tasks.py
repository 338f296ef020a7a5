"""Tasks that behave in every way a body can. Imported by executors, never by the tests."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pydantic import BaseModel

from headgate import failpoints
from headgate.tasks import PublishBudget, RetryPolicy, TaskContext, TaskControls, TimeoutPolicy, task

IMPORTED_AT = time.monotonic()
if point := os.environ.get("KILL_AT"):

    def kill(here: failpoints.Failpoint) -> None:
        if here == point and not Path(os.environ["KILLED"]).exists():
            Path(os.environ["KILLED"]).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.arm(kill)


class Params(BaseModel):
    seconds: float = 0.0
    path: str = ""


class Result(BaseModel):
    pid: int = 0
    imported_at: float = 0.0


QUICK = PublishBudget(heartbeat_interval_seconds=0.1, shutdown_grace_seconds=0.5)


@task()
def tells(params: Params) -> Result:
    return Result(pid=os.getpid(), imported_at=IMPORTED_AT)


@task()
def writes_a_line(params: Params, context: TaskContext) -> Result:
    with Path(params.path).open("a") as lines:
        lines.write(f"{context.attempt.task_id}\n")
    return Result()


@task()
def holds_the_interpreter(params: Params) -> Result:
    ctypes.PyDLL(None).sleep(int(params.seconds))
    return Result()


@task()
def dies(params: Params) -> Result:
    os.kill(os.getpid(), signal.SIGKILL)
    return Result()


@task()
def leaves(params: Params) -> Result:
    os._exit(3)


@task(controls=TaskControls(timeout=TimeoutPolicy(policy="RETRY", seconds=1, response_seconds=1)))
def hangs(params: Params) -> Result:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(params.path).write_text(str(child.pid))
    child.wait()
    return Result()


@task(controls=TaskControls(timeout=TimeoutPolicy(seconds=1, response_seconds=1)))
def hangs_for_the_workflow(params: Params) -> Result:
    time.sleep(600)
    return Result()


@task(workspace="/", controls=TaskControls(publish=QUICK, retry=RetryPolicy(count=2, delay_seconds=0)))
def waits_until_cancelled(workspace: Path, params: Params, context: TaskContext) -> Result:
    Path(params.path).touch()
    while not context.cancelled:
        time.sleep(0.01)
    Path(params.path).write_text("cancelled")
    context.raise_if_cancelled()
    return Result()


@task(workspace="/", controls=TaskControls(publish=QUICK))
def goes_on_when_cancelled(workspace: Path, params: Params) -> Result:
    Path(params.path).touch()
    time.sleep(600)
    return Result()


@task(workspace="/", controls=TaskControls(retry=RetryPolicy(count=2, delay_seconds=0)))
def publishes(workspace: Path, params: Params) -> Result:
    (workspace / "out.txt").write_text(str(os.getpid()))
    return Result(pid=os.getpid())
