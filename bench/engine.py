"""How many tasks a second the embedded engine completes, and whether it slows down as workflows add up.

Each workflow is five tasks in a row, each reading what the one before it put out; a task is polled, and completed
without doing anything. The bars are for tasks that publish nothing, whose steps survive a kill and need not wait for
the disk; `durable_tasks_per_s` is for tasks that publish. Each round starts with an empty file, and `growth` compares
one with ten times as many workflows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bench import harness
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator

TASKS = 5
GROWN = 10
NAME = "step"


def definition() -> dict[str, object]:
    return {
        "name": "five",
        "tasks": [
            {
                "name": NAME,
                "taskReferenceName": f"step_{number}",
                "inputParameters": {
                    "params": {"n": f"${{step_{number - 1}.output.result.n}}" if number else "${workflow.input.n}"}
                },
            }
            for number in range(TASKS)
        ],
        "outputParameters": {"n": f"${{step_{TASKS - 1}.output.result.n}}"},
    }


def seconds_per_task(folder: Path, workflows: int, *, durable: bool = False) -> float:
    """Start them all, then work off what waits; the time of both, over the tasks."""
    five, rules = definition(), {NAME: TaskRule(durable=durable)}
    with closing(LocalOrchestrator(folder / f"{workflows}-{durable}.db")) as engine:
        began = time.perf_counter()
        started = [engine.start(five, {"n": number}, rules=rules).id for number in range(workflows)]
        completed = 0
        while (polled := engine.poll(NAME)) is not None:
            engine.complete(polled.id, {"result": {"n": polled.input["params"]["n"] + 1}})
            completed += 1
        took = time.perf_counter() - began
        if completed != workflows * TASKS:
            raise AssertionError(f"{completed} tasks were completed, not {workflows * TASKS}")
        for number in (0, workflows - 1):
            record = engine.workflow(started[number])
            if (record.status, record.output) != ("COMPLETED", {"n": number + TASKS}):
                raise AssertionError(f"workflow {number} is {record.status} with {record.output}")
    return took / completed


def measure(args: argparse.Namespace) -> harness.Result:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        few = seconds_per_task(Path(folder), args.workflows)
        durable = seconds_per_task(Path(folder), max(1, args.workflows // 10), durable=True)
        many = seconds_per_task(Path(folder), args.workflows * GROWN)
    return {
        "workflows": args.workflows,
        "tasks_per_s": round(1 / few, 1),
        "tasks_per_s_grown": round(1 / many, 1),
        "durable_tasks_per_s": round(1 / durable, 1),
        "growth": round(many / few, 3),
        "peak_rss_mb": harness.peak_rss_mb(),
    }


if __name__ == "__main__":
    harness.main(
        measure,
        name="engine",
        about="task completions a second of the embedded engine, and their growth",
        arguments=[harness.argument("--workflows", 1000, "workflows of five tasks; ten times as many for the growth")],
    )
