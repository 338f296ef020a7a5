"""Running workflow files, and going on with those whose run was killed: a live tree for people, the end as JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli import console, invocation
from headgate.cli.inputs import Asked, prints_are_notes, store_blocks
from headgate.cli.workflow_tree import LiveTree, task_facts
from headgate.errors import HeadgateError, InvalidInput, response_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.attempts.report import AttemptReport
    from headgate.orchestrators.executors import Listener, Running
    from headgate.orchestrators.executors.running import Why
    from headgate.orchestrators.local_records import WorkflowRecord
    from headgate.orchestrators.machine import Machine
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
    _run(machine, [workflow], declarations, modules, asked)


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
    _run(machine, [machine.engine.resume(one.id) for one in found], declarations, list(modules), asked)


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
    _run(machine, [machine.engine.workflow(workflow)], declarations, named, asked)


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
    machine: Machine,
    workflows: list[WorkflowRecord],
    declarations: dict[str, TaskDeclaration],
    modules: Sequence[str],
    asked: Asked,
) -> None:
    ended: list[WorkflowRecord] = []
    error: BaseException | None = None
    for workflow in workflows:
        tree = LiveTree(machine, workflow, quiet=asked.json)
        try:
            with tree.live(), prints_are_notes():
                over = _run_one(machine, workflow, declarations, modules, asked, tree)
        except KeyboardInterrupt:
            console.note(f"hint: headgate run --resume {workflow.id} goes on with it")
            raise
        ended.append(over)
        error = tree.error if over.status != "COMPLETED" else error
        if not asked.json:
            console.show(tree.drawn())
            console.say(f"{over.name}: {over.status}, workflow {over.id}")
            if over.reason:
                console.note(f"error: {over.reason}")
    if asked.json:
        facts = [workflow_facts(machine, one) for one in ended]
        console.show_json(facts[0] if len(facts) == 1 else facts)
    if any(one.status != "COMPLETED" for one in ended):
        raise typer.Exit(response_to(error).exit_code if isinstance(error, HeadgateError) else 1)


def _run_one(
    machine: Machine,
    workflow: WorkflowRecord,
    declarations: dict[str, TaskDeclaration],
    modules: Sequence[str],
    asked: Asked,
    tree: LiveTree,
) -> WorkflowRecord:
    """In this process, unless it gains from others: branches side by side, bodies that can be ended."""
    from headgate.orchestrators.engine.definitions import read_definition
    from headgate.orchestrators.engine.parallel import executors_wanted, run_in_executors
    from headgate.orchestrators.engine.runner import check_runnable, run_workflow

    check_runnable(machine.engine, declarations, workflow)
    executors = asked.jobs or executors_wanted(read_definition(workflow.definition), declarations)
    if executors:
        debug = invocation.current().debug
        listener = _listener(tree)
        return run_in_executors(machine, workflow, modules=modules, executors=executors, listener=listener, debug=debug)
    task = [""]

    def begun(polled: PolledAttempt) -> None:
        task[0] = polled.id.task_id
        tree.attempt(polled)

    runtime = replace(
        machine.runtime(orchestrator=machine.engine),
        on_phase=lambda step, seconds: tree.doing(task[0], _took(step, seconds)),
        on_progress=lambda progress: tree.doing(task[0], progress.told),
    )
    return run_workflow(machine.engine, runtime, declarations, workflow, on_attempt=begun, on_report=tree.report)


def _took(step: str, seconds: float) -> str:
    return f"{step} took {seconds * 1000:.1f} ms"


def _listener(tree: LiveTree) -> Listener:
    """Tells the tree what executors do."""
    from headgate.orchestrators.executors import Listener

    class ToTree(Listener):
        def began(self, running: Running) -> None:
            tree.attempt(running.attempt)

        def took(self, running: Running, step: str, seconds: float) -> None:
            tree.doing(running.attempt.id.task_id, _took(step, seconds))

        def progressed(self, running: Running) -> None:
            tree.doing(running.attempt.id.task_id, running.progress.told if running.progress else "")

        def ended(self, running: Running, report: AttemptReport) -> None:
            tree.report(report)

        def died(self, running: Running, why: Why, status: str | None) -> None:
            tree.over(running.attempt.id.task_id, f"{running.attempt.task_name}: {status or 'not reported'}: {why}")

    return ToTree()


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
        "tasks": [task_facts(task) for task in machine.engine.tasks(workflow=workflow.id)],
    }
