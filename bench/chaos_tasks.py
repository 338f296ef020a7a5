"""The task that `bench.chaos` runs in many workflows at once: each step leaves a file, and looks at those before it."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel

from headgate.tasks import PublishBudget, RetryPolicy, TaskControls, TaskTerminalError, TimeoutPolicy, task

STEP = "chaos_step"


class Params(BaseModel):
    token: str
    step: int
    seconds: float = 0.0


class Done(BaseModel):
    step: int


def text_of(token: str, step: int) -> str:
    return f"step {step} of {token}\n"


@task(
    name=STEP,
    owner_email="bench@example.com",
    workspace="/",
    controls=TaskControls(
        # Short times, so that what is killed comes back while somebody looks.
        retry=RetryPolicy(count=10, delay_seconds=1),
        timeout=TimeoutPolicy(response_seconds=15),
        publish=PublishBudget(
            safety_margin_seconds=0,
            publish_timeout_seconds=6,
            completion_timeout_seconds=5,
            shutdown_grace_seconds=2,
            heartbeat_interval_seconds=2,
        ),
    ),
)
def chaos_step(workspace: Path, params: Params) -> Done:
    """Leave the file of this step, if those of all earlier ones are there."""
    for earlier in range(params.step):
        if (workspace / f"{earlier}.txt").read_text() != text_of(params.token, earlier):
            raise TaskTerminalError(f"the file of step {earlier} is not what step {earlier} wrote")
    time.sleep(params.seconds)
    (workspace / f"{params.step}.txt").write_text(text_of(params.token, params.step))
    return Done(step=params.step)
