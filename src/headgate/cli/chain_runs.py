"""Running a chain of tasks of one module: what each step took, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli import console, workflow_runs
from headgate.cli.inputs import Asked, check_stores, prints_are_notes, store_blocks
from headgate.errors import Conflict, HeadgateError, InvalidInput, response_to

if TYPE_CHECKING:
    from headgate.attempts.report import AttemptReport
    from headgate.orchestrators.local_records import WorkflowRecord
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.declaration import TaskDeclaration
    from headgate.tasks.protocols import PolledAttempt


def run(machine: Machine, what: str, params: dict[str, Any], asked: Asked, *, retry: str | None, show: bool) -> None:
    """A chain of tasks of one module, of which one is the shortest."""
    from headgate.cli import server_runs
    from headgate.orchestrators.engine.chains import chain_definition, references
    from headgate.orchestrators.engine.rules import rule_of
    from headgate.tasks.loading import load_named

    module, _, names = what.partition(":")
    wanted = [name for name in names.split(",") if name]
    if not wanted:
        raise InvalidInput(message=f"{what!r} names no task", hint="write MODULE:TASK, such as tasks:ingest")
    declarations = load_named(module, wanted)
    if show:
        console.show_json(chain_definition(declarations))
        return
    if retry is not None:
        _run_again(machine, retry, declarations, asked)
        return
    written = [declaration.writes for declaration in declarations if declaration.writes]
    stores = store_blocks(machine, asked.on, builds_on=written)
    check_stores(declarations, stores)
    inputs = {
        reference: _input(declaration, stores, params.get(reference, {}) if len(wanted) > 1 else params)
        for declaration, reference in zip(declarations, references(declarations), strict=True)
    }
    given = {**stores, "params": {reference: task_input["params"] for reference, task_input in inputs.items()}}
    if machine.settings.orchestrator == "conductor":
        named = f"{module}:{','.join(dict.fromkeys(wanted))}"
        server_runs.run(machine, chain_definition(declarations), given, declarations, [named], asked)
        return
    if asked.dry_run:
        for declaration, task_input in zip(declarations, inputs.values(), strict=True):
            console.show_json({"task": declaration.name, "input": task_input})
        return
    rules = {declaration.name: rule_of(declaration, retries=0) for declaration in declarations}
    workflow = machine.engine.start(chain_definition(declarations), given, rules=rules, modules=[module])
    _run_here(machine, workflow, declarations, asked)


def _run_again(machine: Machine, retry: str, declarations: Sequence[TaskDeclaration], asked: Asked) -> None:
    if asked.dry_run:
        return
    machine.engine.retry(workflow_runs.task_to_retry(machine, retry), reason="retried by hand")
    _run_here(machine, machine.engine.workflow(retry), declarations, asked)


def _run_here(
    machine: Machine, workflow: WorkflowRecord, declarations: Sequence[TaskDeclaration], asked: Asked
) -> None:
    from headgate.cli.transfers import watched
    from headgate.orchestrators.engine.runner import run_workflow

    by_name = {declaration.name: declaration for declaration in declarations}
    reports: list[AttemptReport] = []
    json, steps = asked.json, _Steps(quiet=asked.json)
    runtime = machine.runtime(orchestrator=machine.engine, watch=watched)
    try:
        with prints_are_notes():
            over = run_workflow(
                machine.engine,
                runtime if json else replace(runtime, on_phase=steps.step),
                by_name,
                workflow,
                on_attempt=steps.attempt,
                on_report=reports.append,
            )
    except KeyboardInterrupt:
        machine.engine.cancel(workflow.id, reason="interrupted by hand")
        raise
    _finish(reports, json=json)
    if over.status != "COMPLETED" and (not reports or reports[-1].ok):
        raise Conflict(message=f"workflow {over.id} is {over.status}: {over.reason}", hint="see `headgate workflows`")


class _Steps:
    """Tells the steps of each attempt as they end."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def attempt(self, polled: PolledAttempt) -> None:
        if not self._quiet:
            console.note(f"{polled.task_name}: workflow {polled.id.workflow}, retry {polled.id.retry_count}")

    def step(self, step: str, seconds: float) -> None:
        console.note(f"  {step:<22}{seconds * 1000:10.1f} ms")


def _input(declaration: TaskDeclaration, blocks: dict[str, dict[str, str]], params: dict[str, Any]) -> dict[str, Any]:
    from headgate.tasks.io import read_input

    task_input = {**{key: blocks[key] for key in declaration.stores}, "params": params}
    read_input(declaration, task_input)
    return task_input


def _finish(reports: list[AttemptReport], *, json: bool) -> None:
    if json:
        console.show_json([_summary(report) for report in reports])
    for report in reports:
        if not json:
            console.say(_told(report))
    if reports and not reports[-1].ok:
        failed = reports[-1]
        if not json:
            console.note(f"error: {failed.reason or 'the attempt was not reported'}")
            if failed.kept_at:
                console.note(f"hint: headgate attempts {failed.execution} shows it; headgate replay runs it again")
        error = failed.error
        raise typer.Exit(response_to(error).exit_code if isinstance(error, HeadgateError) else 1)


def _told(report: AttemptReport) -> str:
    if not report.ok:
        return f"{report.task}: {report.status or 'not reported'}"
    changed = f"{len(report.changes)} changed" if report.changes else "nothing changed"
    move = f", {report.decision.move}" if report.decision else ""
    ref = f" -> {report.published}" if report.published else ""
    return f"{report.task}: COMPLETED{ref} ({changed}{move}, {report.seconds:.2f} s)"


def _summary(report: AttemptReport) -> dict[str, Any]:
    return {
        "task": report.task,
        "execution": report.execution,
        "workflow": report.attempt.workflow,
        "task_id": report.attempt.task_id,
        "status": report.status,
        "output": report.output,
        "published": report.published,
        "move": str(report.decision.move) if report.decision else None,
        "changes": list(report.changes),
        "phases": [{"step": step, "seconds": seconds} for step, seconds in report.phases],
        "reason": report.reason,
        "kept_at": report.kept_at,
    }
