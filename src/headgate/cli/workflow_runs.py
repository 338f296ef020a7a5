"""Running workflow files, and going on with those whose run was killed: a live tree for people, the end as JSON."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli import console
from headgate.cli.inputs import Asked, prints_are_notes, store_blocks
from headgate.errors import HeadgateError, InvalidInput, response_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from headgate.attempts.report import AttemptReport
    from headgate.orchestrators.conductor.workflows import ServerTask
    from headgate.orchestrators.engine.scheduler import Entry, TaskView
    from headgate.orchestrators.local_records import TaskRecord, WorkflowRecord
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.context import Progress
    from headgate.tasks.declaration import TaskDeclaration
    from headgate.tasks.protocols import PolledAttempt


def is_file(what: str) -> bool:
    """Whether a person means a workflow file: tasks are named MODULE:TASK."""
    from headgate.orchestrators.engine.files import SUFFIXES

    return what.endswith(SUFFIXES)


def run_file(
    machine: Machine,
    file: str,
    modules: Sequence[str],
    given: dict[str, Any],
    asked: Asked,
) -> None:
    """Load a workflow with its tasks, start it and run it to its end."""
    from headgate.orchestrators.engine.definitions import read_workflow
    from headgate.orchestrators.engine.references import complete_input
    from headgate.orchestrators.engine.rules import rule_of
    from headgate.orchestrators.engine.targets import check_targets
    from headgate.tasks.loading import load_tasks

    if not modules:
        raise InvalidInput(message=f"no module with the tasks of {file} is named", hint="add --tasks MODULE")
    declarations = {declaration.name: declaration for declaration in load_tasks(*modules)}
    definition, raw = read_workflow(Path(file), tasks=declarations)
    written = [declarations[step.name].writes or "" for step in definition.simple]
    given = {**given, **store_blocks(machine, asked.on, builds_on=written)}
    rules = {name: rule_of(declarations[name]) for name in {step.name for step in definition.simple}}
    if asked.dry_run:
        whole = complete_input(definition, given)
        console.show_json({"workflow": raw, "input": whole, "writes": check_targets(definition, rules, whole)})
        return
    workflow = machine.engine.start(raw, given, rules=rules, modules=modules)
    _run(machine, [workflow], declarations, asked)


def resume(machine: Machine, workflow: str | None, asked: Asked) -> None:
    """Go on with a workflow that runs, or with all of them."""
    from headgate.tasks.loading import load_tasks

    if workflow is not None:
        found = [machine.engine.workflow(workflow)]
        if found[0].over:
            raise InvalidInput(
                message=f"workflow {workflow} is {found[0].status}, and only a running one is resumed",
                hint=f"headgate run --retry {workflow} runs failed work again",
            )
    else:
        found = list(reversed(machine.engine.workflows(running=True)))
    if asked.dry_run or not found:
        names = [f"{one.id} {one.name}" for one in found]
        console.show_either(found, as_json_text=asked.json, draw=lambda: "\n".join(names) or "no workflow runs here")
        return
    if bare := [one.id for one in found if not one.modules]:
        raise InvalidInput(
            message=f"workflow {bare[0]} was started without saying which module its tasks are in",
            hint=f"headgate run --retry {bare[0]} --tasks MODULE goes on with it",
        )
    modules = dict.fromkeys(module for one in found for module in one.modules)
    declarations = {declaration.name: declaration for declaration in load_tasks(*modules)}
    _run(machine, [machine.engine.resume(one.id) for one in found], declarations, asked)


def retry(machine: Machine, workflow: str, modules: Sequence[str], asked: Asked) -> None:
    """Hand what failed in a workflow out again, and run it to its end, with the modules it knows or those named."""
    from headgate.tasks.loading import load_tasks

    task = task_to_retry(machine, workflow)
    named = modules or machine.engine.workflow(workflow).modules
    if not named:
        raise InvalidInput(
            message=f"workflow {workflow} was started without saying which module its tasks are in",
            hint="add --tasks MODULE",
        )
    declarations = {declaration.name: declaration for declaration in load_tasks(*named)}
    if asked.dry_run:
        told = machine.engine.task(task)
        console.show_either(told, as_json_text=asked.json, draw=lambda: f"would retry {told.reference}: {told.reason}")
        return
    machine.engine.retry(task, reason="retried by hand")
    _run(machine, [machine.engine.workflow(workflow)], declarations, asked)


def task_to_retry(machine: Machine, workflow: str) -> str:
    """The last task of a workflow that failed, or that a dead run was in the middle of."""
    record = machine.engine.workflow(workflow)
    tasks = machine.engine.tasks(workflow=workflow)
    found = [task.id for task in tasks if task.status not in ("COMPLETED", "CANCELED")]
    if not found or record.status in ("COMPLETED", "TERMINATED"):
        raise InvalidInput(
            message=f"workflow {workflow} is {record.status}, and only failed or dead work is retried",
            hint="start it anew",
        )
    return found[-1]


def _run(
    machine: Machine, workflows: list[WorkflowRecord], declarations: dict[str, TaskDeclaration], asked: Asked
) -> None:
    from headgate.orchestrators.engine.runner import run_workflow

    json = asked.json
    ended: list[WorkflowRecord] = []
    error: BaseException | None = None
    for workflow in workflows:
        tree = _Tree(machine, workflow, quiet=json)
        try:
            with tree.live(), prints_are_notes():
                over = run_workflow(
                    machine.engine,
                    replace(
                        machine.runtime(orchestrator=machine.engine), on_phase=tree.phase, on_progress=tree.progress
                    ),
                    declarations,
                    workflow,
                    on_attempt=tree.attempt,
                    on_report=tree.report,
                )
        except KeyboardInterrupt:
            console.note(f"hint: headgate run --resume {workflow.id} goes on with it")
            raise
        ended.append(over)
        error = tree.error if over.status != "COMPLETED" else error
        if not json:
            console.show(tree.drawn())
            console.say(f"{over.name}: {over.status}, workflow {over.id}")
            if over.reason:
                console.note(f"error: {over.reason}")
    if json:
        facts = [workflow_facts(machine, one) for one in ended]
        console.show_json(facts[0] if len(facts) == 1 else facts)
    if any(one.status != "COMPLETED" for one in ended):
        raise typer.Exit(response_to(error).exit_code if isinstance(error, HeadgateError) else 1)


def workflow_facts(machine: Machine, workflow: WorkflowRecord) -> dict[str, Any]:
    """A workflow with its attempts, for a program."""
    return {
        "workflow": workflow.id,
        "name": workflow.name,
        "status": workflow.status,
        "reason": workflow.reason,
        "input": workflow.input,
        "output": workflow.output,
        "epoch": workflow.epoch,
        "created_at": workflow.created_at,
        "ended_at": workflow.ended_at,
        "tasks": [
            {
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
            for task in machine.engine.tasks(workflow=workflow.id)
        ],
    }


def published(task: TaskRecord | TaskView | ServerTask) -> str | None:
    """The ref a task published, of whichever store it writes; None if the head stayed as it was."""
    for key, block in (task.output or {}).items():
        if isinstance(block, dict) and "ref" in block and block != task.input.get(key):
            return str(block["ref"])
    return None


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


class _Tree:
    """The tree of a running workflow: drawn over itself on a terminal, told line by line elsewhere."""

    def __init__(self, machine: Machine, workflow: WorkflowRecord, *, quiet: bool) -> None:
        self._machine, self._workflow, self._quiet = machine, workflow, quiet
        self._now: dict[str, str] = {}
        self._task = ""
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
        self._task = polled.id.task_id
        self._tell(f"{polled.reference_task}: started, retry {polled.id.retry_count}")

    def phase(self, step: str, seconds: float) -> None:
        self._now[self._task] = f"{step} took {seconds * 1000:.1f} ms"
        self._refresh()

    def progress(self, progress: Progress) -> None:
        self._now[self._task] = progress.told
        self._refresh()

    def report(self, report: AttemptReport) -> None:
        self._now.pop(self._task, None)
        self.error = report.error
        self._tell(f"{report.task}: {report.status or 'not reported'} ({report.seconds:.2f} s)")

    def _tell(self, line: str) -> None:
        if self._live is not None:
            self._refresh()
        elif not self._quiet:
            console.note(line)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self.drawn())
