"""The body that both workers of `bench.worker` run: nothing, but for the time it began at."""

from __future__ import annotations

import time

from pydantic import BaseModel

from headgate.tasks import task

HEADGATE_TASK, SDK_TASK = "bench_headgate", "bench_sdk"


class Params(BaseModel):
    n: int = 0


class Began(BaseModel):
    began_ms: float


@task(name=HEADGATE_TASK, owner_email="bench@example.com")
def bench_headgate(params: Params) -> Began:
    return Began(began_ms=time.time() * 1000)
