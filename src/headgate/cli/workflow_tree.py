"""Workflows as people see them: a tree of tasks, with what each published and what those in progress do."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from headgate.cli import console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headgate.attempts.report import AttemptReport
    from headgate.orchestrators.conductor.workflows import ServerTask
    from headgate.orchestrators.engine.scheduler import Entry, TaskView
    from headgate.orchestrators.local_records import TaskRecord, WorkflowRecord
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.protocols import PolledAttempt


def published(task: TaskRecord | TaskView | ServerTask) -> str | None:
    """The ref a task published, of whichever store it writes; None if the head stayed as it was."""
    for key, block in (task.output or {}).items():
        if isinstance(block, dict) and "ref" in block and block != task.input.get(key):
            return str(block["ref"])
    return None


def task_facts(task: TaskRecord | ServerTask) -> dict[str, Any]:
    """An attempt at a task of a workflow, for a program."""
    return {
        "task_id": task.id,
        "reference": task.reference,
        "name": task.name,
        "iteration": task.iteration,
        "retry_count": task.retry_count,
        "status": task.status,
        "reason": task.reason,
        "input": task.input,
        "output": task.output,
        "published": published(task),
    }


def tree_of(workflow: WorkflowRecord, entries: list[Entry], now: dict[str, str] | None = None) -> RenderableType:
    """A workflow as far as it has come; `now` says what the attempts in progress do, by task id."""
    from rich.text import Text
    from rich.tree import Tree

    top = Tree(Text(f"{workflow.name} {workflow.id} {workflow.status}"), guide_style="dim")
    levels = [top]
    for entry in entries:
        told = f"{entry.reference}{f' [{entry.iteration}]' if entry.iteration else ''} {entry.status}"
        if entry.task is not None:
            told += f", retry {entry.task.retry_count}" if entry.task.retry_count else ""
            ref = published(entry.task)
            told += f" -> {ref}" if ref else ""
            doing = (now or {}).get(entry.task.id)
            told += f": {doing}" if doing else f": {entry.task.reason}" if entry.task.reason else ""
        levels = levels[: entry.depth + 1]
        levels.append(levels[-1].add(Text(told, style=_STYLES.get(entry.status, ""))))
    return top


_STYLES = {"COMPLETED": "green", "FAILED": "red", "FAILED_WITH_TERMINAL_ERROR": "red", "IN_PROGRESS": "bold"}


class LiveTree:
    """The tree of a running workflow: drawn over itself on a terminal, told line by line elsewhere."""

    def __init__(self, machine: Machine, workflow: WorkflowRecord, *, quiet: bool) -> None:
        self._machine, self._workflow, self._quiet = machine, workflow, quiet
        self._now: dict[str, str] = {}
        self._live: Any = None
        self.error: BaseException | None = None

    def live(self) -> Any:
        from rich.live import Live

        screen = console.stderr()
        if self._quiet or not screen.is_terminal:
            return nullcontext()
        self._live = Live(self.drawn(), console=screen, transient=True, refresh_per_second=8)
        return self._live

    def drawn(self) -> RenderableType:
        orchestrator = self._machine.engine
        return tree_of(orchestrator.workflow(self._workflow.id), orchestrator.outline(self._workflow.id), self._now)

    def attempt(self, polled: PolledAttempt) -> None:
        self._tell(f"{polled.reference_task}: started, retry {polled.id.retry_count}")

    def doing(self, task_id: str, what: str) -> None:
        self._now[task_id] = what
        if self._live is not None:
            self._live.update(self.drawn())

    def report(self, report: AttemptReport) -> None:
        self.error = report.error
        self.over(report.attempt.task_id, f"{report.task}: {report.status or 'not reported'} ({report.seconds:.2f} s)")

    def over(self, task_id: str, line: str) -> None:
        self._now.pop(task_id, None)
        self._tell(line)

    def _tell(self, line: str) -> None:
        if self._live is not None:
            self._live.update(self.drawn())
        elif not self._quiet:
            console.note(line)
