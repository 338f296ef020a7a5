"""How many tasks a second the embedded engine completes, and whether it slows down as workflows add up.

Each workflow is five tasks in a row, each reading what the one before it put out; a task is polled, and completed
without doing anything. The bars are for tasks that publish nothing, whose steps survive a kill and need not wait for
the disk; `durable_tasks_per_s` is for tasks that publish. `growth` compares ten files with so many workflows each to
one file that holds all of theirs, worked on in turns, so that a slow spell of the machine meets both; `growth_cpu` does
the same with the time of the processor.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from bench import harness
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator

TASKS = 5
GROWN = 10
TURNS = 4
"""So many turns for each of the smaller files."""
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


@dataclass
class Taken:
    """Time that passed, and time the processor worked for us."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu


class Subject:
    """An engine with its own file: starts workflows, works off what waits, and knows how long that took."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self._engine = LocalOrchestrator(path)
        self._definition, self._rules = definition(), {NAME: TaskRule(durable=durable)}
        self._started: list[str] = []
        self.completed = 0
        self.taken = Taken()

    def start(self, workflows: int) -> None:
        with self.taken.timed():
            for _ in range(workflows):
                number = len(self._started)
                self._started.append(self._engine.start(self._definition, {"n": number}, rules=self._rules).id)

    def work(self, tasks: int) -> None:
        with self.taken.timed():
            for _ in range(tasks):
                polled = self._engine.poll(NAME)
                if polled is None:
                    raise AssertionError(f"nothing waits after {self.completed} tasks")
                self._engine.complete(polled.id, {"result": {"n": polled.input["params"]["n"] + 1}})
                self.completed += 1

    def finish(self) -> Taken:
        """The time per task, once everything is checked to be over."""
        workflows = len(self._started)
        if self.completed != workflows * TASKS or self._engine.poll(NAME) is not None:
            raise AssertionError(f"{self.completed} tasks were completed, not {workflows * TASKS}")
        for number in (0, workflows - 1):
            record = self._engine.workflow(self._started[number])
            if (record.status, record.output) != ("COMPLETED", {"n": number + TASKS}):
                raise AssertionError(f"workflow {number} is {record.status} with {record.output}")
        self._engine.close()
        return Taken(self.taken.wall / self.completed, self.taken.cpu / self.completed)


def side_by_side(folder: Path, workflows: int) -> tuple[list[Taken], Taken]:
    """Several files of so many workflows, and one of all together, in turns of a few hundred tasks."""
    few, many = [Subject(folder / f"{number}.db") for number in range(GROWN)], Subject(folder / "many.db")
    share, rest = divmod(workflows, TURNS)
    parts = [share + (turn < rest) for turn in range(TURNS)]

    def take_turns(act: Callable[[Subject, int], None]) -> None:
        for number, one in enumerate(few):
            for turn, part in enumerate(parts):
                pair = (one, many) if (number + turn) % 2 else (many, one)
                for subject in pair:
                    act(subject, part)

    take_turns(lambda subject, part: subject.start(part))
    take_turns(lambda subject, part: subject.work(part * TASKS))
    return [one.finish() for one in few], many.finish()


def measure(args: argparse.Namespace) -> harness.Result:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        durable = Subject(Path(folder) / "durable.db", durable=True)
        durable.start(max(1, args.workflows // 10))
        durable.work(max(1, args.workflows // 10) * TASKS)
        few, many = side_by_side(Path(folder), args.workflows)
        wall, cpu = median(one.wall for one in few), median(one.cpu for one in few)
        return {
            "workflows": args.workflows,
            "tasks_per_s": round(1 / wall, 1),
            "tasks_per_s_grown": round(1 / many.wall, 1),
            "durable_tasks_per_s": round(1 / durable.finish().wall, 1),
            "cpu_ms": round(cpu * 1000, 3),
            "growth": round(many.wall / fmean(one.wall for one in few), 3),
            "growth_cpu": round(many.cpu / fmean(one.cpu for one in few), 3),
            "peak_rss_mb": harness.peak_rss_mb(),
        }


if __name__ == "__main__":
    harness.main(
        measure,
        name="engine",
        about="task completions a second of the embedded engine, and their growth",
        arguments=[harness.argument("--workflows", 1000, "workflows of five tasks; ten times as many for the growth")],
    )
