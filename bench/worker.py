"""What a task costs on a Conductor server: our worker against the official SDK's bare one, on one server, in one run.

Both workers idle side by side while workflows of one task go to one and the other in turn; latency is the server's own
time from the start of a workflow to its end, so that nobody who looks at it disturbs it. Ours fences, leases and
records each attempt; the SDK's does nothing of that. Memory and idle time are of all processes of the worker together.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
from tools.servers import conductor_server

from bench import harness
from bench.worker_bodies import HEADGATE_TASK, SDK_TASK
from headgate.orchestrators.conductor import Client, Endpoint
from headgate.orchestrators.conductor.workflows import start_workflow

WARM_UP = 10
SETTLED = 5.0
"""Seconds after its last task from which a worker is idle."""


def definition(task: str) -> dict[str, Any]:
    step = {"name": task, "taskReferenceName": "only", "type": "SIMPLE", "inputParameters": {"params": {"n": 1}}}
    return {"name": f"{task}_flow", "ownerEmail": "bench@example.com", "tasks": [step]}


@contextmanager
def process(*argv: str, cwd: Path | None = None, **environ: str) -> Iterator[psutil.Process]:
    """A worker, with whatever it starts; ended with everything at the end of the block."""
    child = subprocess.Popen(
        [sys.executable, "-m", *argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    seen = psutil.Process(child.pid)
    try:
        yield seen
    finally:
        family = [*seen.children(recursive=True), seen]
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(15)
        for one in family:
            with contextlib.suppress(psutil.Error):
                one.kill()
        child.wait()


def run(client: Client, task: str) -> dict[str, float]:
    """One workflow to its end: its milliseconds at the server, and those from the poll to the body."""
    workflow = start_workflow(client, definition(task), {})
    while True:
        found = client.call("GET", "workflow", workflow, query={"includeTasks": "true"}, doing="look")
        if found["status"] == "COMPLETED":
            [done] = found["tasks"]
            began = float(done["outputData"]["result"]["began_ms"])
            return {"total": found["endTime"] - found["createTime"], "to_body": began - done["startTime"]}
        if found["status"] != "RUNNING":
            raise AssertionError(f"workflow {workflow} of {task} is {found['status']}")
        time.sleep(0.03)


def tasks_per_second(client: Client, task: str, count: int) -> float:
    began = time.perf_counter()
    waiting = [start_workflow(client, definition(task), {}) for _ in range(count)]
    while waiting:
        found = client.call("GET", "workflow", waiting[-1], query={"includeTasks": "false"}, doing="look")
        if found["status"] == "COMPLETED":
            waiting.pop()
        else:
            time.sleep(0.02)
    return count / (time.perf_counter() - began)


def rss_mb(worker: psutil.Process) -> float:
    return sum(one.memory_info().rss for one in (worker, *worker.children(recursive=True))) / 1e6


def cpu_seconds(worker: psutil.Process) -> float:
    times = [one.cpu_times() for one in (worker, *worker.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def idle_cpu(worker: psutil.Process, seconds: float) -> float:
    before, began = cpu_seconds(worker), time.perf_counter()
    time.sleep(seconds)
    return (cpu_seconds(worker) - before) / (time.perf_counter() - began)


def measure(args: argparse.Namespace) -> harness.Result:
    with ExitStack() as undo:
        server = undo.enter_context(conductor_server())
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="headgate-bench-")))
        api = server.facts["api"]
        client = undo.enter_context(closing(Client(Endpoint(url=api))))
        for name in (HEADGATE_TASK, SDK_TASK):
            told = {"name": name, "ownerEmail": "bench@example.com", "retryCount": 0, "timeoutSeconds": 0}
            client.call("POST", "metadata", "taskdefs", payload=[told], doing="register")
        ours = undo.enter_context(
            process(
                *("headgate.cli.main", "worker", "bench.worker_bodies"),
                cwd=folder,
                HEADGATE_CONDUCTOR_SERVER_URL=api,
                HEADGATE_LOG_LEVEL="warning",
            )
        )
        undo.enter_context(process("bench.worker_sdk", api))
        for _ in range(WARM_UP):
            for task in (HEADGATE_TASK, SDK_TASK):
                run(client, task)
        harness.say("both workers are warm")
        time.sleep(SETTLED)
        cpu, rss = idle_cpu(ours, args.idle_seconds), rss_mb(ours)
        times: dict[str, list[dict[str, float]]] = {HEADGATE_TASK: [], SDK_TASK: []}
        for number in range(args.rounds):
            order = [HEADGATE_TASK, SDK_TASK]
            for task in reversed(order) if number % 2 else order:
                times[task].append(run(client, task))
        rate, sdk_rate = (tasks_per_second(client, task, args.rounds) for task in (HEADGATE_TASK, SDK_TASK))
    median = {task: statistics.median(one["total"] for one in each) for task, each in times.items()}
    return {
        "latency_ratio": round(median[HEADGATE_TASK] / median[SDK_TASK], 3),
        "latency_ms": round(median[HEADGATE_TASK], 1),
        "sdk_latency_ms": round(median[SDK_TASK], 1),
        "poll_to_body_ms": round(statistics.median(one["to_body"] for one in times[HEADGATE_TASK]), 1),
        "sdk_poll_to_body_ms": round(statistics.median(one["to_body"] for one in times[SDK_TASK]), 1),
        "tasks_per_s": round(rate, 1),
        "sdk_tasks_per_s": round(sdk_rate, 1),
        "idle_rss_mb": round(rss, 1),
        "idle_cpu": round(cpu, 4),
    }


if __name__ == "__main__":
    harness.main(
        measure,
        name="worker",
        about="latency, rate and idle cost of a Conductor worker against the official SDK's bare one",
        arguments=[
            harness.argument("--rounds", 60, "workflows for each worker"),
            harness.argument("--idle-seconds", 10, "how long the idle worker is watched"),
        ],
    )
