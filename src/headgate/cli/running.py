"""Work: run a task by hand, look at past attempts, run one again."""

from __future__ import annotations

import json as jsons
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.cli.inputs import check_stores, store_blocks
from headgate.errors import Conflict, HeadgateError, InvalidInput, Unsupported, response_to

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headgate.attempts.records import AttemptRecord
    from headgate.attempts.report import AttemptReport
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.declaration import TaskDeclaration
    from headgate.tasks.protocols import PolledAttempt

app = typer.Typer()


@app.command()
def run(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:TASK[,TASK…] | WORKFLOW]",
            help="Tasks of a module, a chain if several; or a workflow file, JSON or YAML; with --resume, its id.",
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", metavar="STORE@BRANCH", help="Read its head, publish to it; one lake and one graph."),
    ] = None,
    params: Annotated[
        str, typer.Option(metavar="JSON", help="The params; for a chain, an object with those of each task by name.")
    ] = "{}",
    modules: Annotated[
        list[str] | None, typer.Option("--tasks", metavar="MODULE", help="A module with tasks of the workflow file.")
    ] = None,
    given: Annotated[str, typer.Option("--input", metavar="JSON", help="The input of the workflow file.")] = "{}",
    retry: Annotated[
        str | None,
        typer.Option(metavar="WORKFLOW", help="Retry what failed in this workflow, by its id; its modules are known."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a workflow whose run was killed; all such if none is named.")
    ] = False,
    show: Annotated[bool, typer.Option("--print", help="Show the definition of the chain; run nothing.")] = False,
    domain: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN", help="Run it on the Conductor server, for the workers of this task domain."),
    ] = None,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Run a task, a chain of tasks or a workflow: on this machine, or on the server where the settings name one."""
    from headgate.cli import server_runs, workflow_runs
    from headgate.orchestrators.machine import Machine

    settings = invocation.current().settings
    on_server = domain is not None or settings.orchestrator == "conductor"
    if on_server and (resume or retry is not None):
        raise Unsupported(
            message="--resume and --retry are for workflows of this machine",
            hint="a Conductor server goes on by itself, and retries from its own pages",
        )
    with Machine(settings, domain=domain) as machine:
        if resume:
            workflow_runs.resume(machine, what, dry_run=dry_run, json=json)
        elif retry is not None and (what is None or workflow_runs.is_file(what)):
            workflow_runs.retry(machine, retry, modules or [], dry_run=dry_run, json=json)
        elif what is None:
            raise InvalidInput(message="nothing is named to run", hint="write MODULE:TASK, or a workflow file")
        elif workflow_runs.is_file(what):
            whole = _object(given, "--input")
            if on_server:
                server_runs.run_file_on_server(machine, what, whole, on=on or [], dry_run=dry_run, json=json)
                return
            workflow_runs.run_file(machine, what, modules or [], whole, on=on or [], dry_run=dry_run, json=json)
        else:
            _run_tasks(
                machine,
                what,
                on=on or [],
                params=params,
                retry=retry,
                show=show,
                on_server=on_server,
                dry_run=dry_run,
                json=json,
            )


def _run_tasks(
    machine: Machine,
    what: str,
    *,
    on: list[str],
    params: str,
    retry: str | None,
    show: bool,
    on_server: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """A chain of tasks of one module, of which one is the shortest."""
    from headgate.cli import server_runs, workflow_runs
    from headgate.cli.transfers import watched
    from headgate.orchestrators.engine.chains import chain_definition, references
    from headgate.orchestrators.engine.rules import rule_of
    from headgate.orchestrators.engine.runner import run_workflow
    from headgate.tasks.loading import load_named

    module, _, names = what.partition(":")
    wanted = [name for name in names.split(",") if name]
    if not wanted:
        raise InvalidInput(message=f"{what!r} names no task", hint="write MODULE:TASK, such as tasks:ingest")
    declarations = load_named(module, wanted)
    if show:
        console.show_json(chain_definition(declarations))
        return
    by_name = {declaration.name: declaration for declaration in declarations}
    if retry is not None:
        if dry_run:
            return
        machine.engine.retry(workflow_runs.task_to_retry(machine, retry), reason="retried by hand")
        workflow = machine.engine.workflow(retry)
    else:
        written = [declaration.writes for declaration in declarations if declaration.writes]
        stores, own = store_blocks(machine, on, builds_on=written), _object(params, "--params")
        check_stores(declarations, stores)
        inputs = {
            reference: _input(declaration, stores, own.get(reference, {}) if len(wanted) > 1 else own)
            for declaration, reference in zip(declarations, references(declarations), strict=True)
        }
        given = {**stores, "params": {reference: task_input["params"] for reference, task_input in inputs.items()}}
        if on_server:
            server_runs.run_on_server(machine, chain_definition(declarations), given, dry_run=dry_run, json=json)
            return
        if dry_run:
            for declaration, task_input in zip(declarations, inputs.values(), strict=True):
                console.show_json({"task": declaration.name, "input": task_input})
            return
        workflow = machine.engine.start(
            chain_definition(declarations),
            given,
            rules={declaration.name: rule_of(declaration, retries=0) for declaration in declarations},
            modules=[module],
        )
    reports: list[AttemptReport] = []
    steps = _Steps(quiet=json)
    runtime = machine.runtime(orchestrator=machine.engine, watch=watched)
    try:
        with _prints_are_notes():
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


def _object(text: str, option: str) -> dict[str, Any]:
    hint = """write it like '{"limit": 3}'"""
    try:
        given = jsons.loads(text)
    except ValueError as error:
        raise InvalidInput(message=f"{option} is no JSON: {error}", hint=hint) from error
    if not isinstance(given, dict):
        raise InvalidInput(message=f"{option} is no JSON object", hint=hint)
    return given


def _input(declaration: TaskDeclaration, blocks: dict[str, dict[str, str]], params: dict[str, Any]) -> dict[str, Any]:
    from headgate.tasks.io import read_input

    task_input = {**{key: blocks[key] for key in declaration.stores}, "params": params}
    read_input(declaration, task_input)
    return task_input


def _prints_are_notes() -> AbstractContextManager[object]:
    """What a body prints is about the work, and goes to stderr: stdout holds the result alone."""
    return redirect_stdout(sys.stderr)


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


@app.command()
def attempts(
    attempt: Annotated[str | None, typer.Argument(metavar="[ID]", help="Show this one in full.")] = None,
    task: Annotated[str | None, typer.Option(help="Only those of this task.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, newest first.", min=1)] = 20,
    json: console.JsonFlag = False,
) -> None:
    """List the attempts recorded on this machine, or show one."""
    from headgate.orchestrators.machine import Machine

    with Machine(invocation.current().settings) as machine:
        if attempt is not None:
            record = machine.records.attempt(attempt)
            console.show_either(record, as_json_text=json, draw=lambda: _shown(machine, record))
            return
        found = machine.records.attempts(limit=limit, task=task)
        console.show_either(found, as_json_text=json, draw=lambda: _listed(found))


def _listed(found: list[AttemptRecord]) -> RenderableType | str:
    if not found:
        return "no attempt has been recorded here yet"
    rows = [
        (
            record.execution,
            record.task,
            record.retry_count,
            record.status or "running, or its worker died",
            record.move,
            f"{record.started_at:%Y-%m-%d %H:%M:%S}",
            f"{sum(seconds for _, seconds in record.phases):.2f} s" if record.phases else "",
            record.reason[:60],
        )
        for record in found
    ]
    return console.table(["attempt", "task", "retry", "status", "move", "started", "took", "reason"], rows)


def _shown(machine: Machine, record: AttemptRecord) -> str:
    lines = [
        f"attempt   {record.execution}",
        f"task      {record.module}:{record.task} as {record.reference_task}, retry {record.retry_count}",
        f"workflow  {record.workflow}, task id {record.task_id}, orchestrator {record.orchestrator}",
        f"status    {record.status or 'running, or its worker died'}",
    ]
    for name in ("workspace", "graph"):
        if name in record.input:
            block = record.input[name]
            lines.append(
                f"{name:<10}{block.get('repository') or block.get('graph')}@{block.get('branch')} {block.get('ref')}"
            )
    if record.move:
        lines.append(f"move      {record.move} ({record.strength} fence): {record.why}")
    if record.output:
        lines.append(f"output    {jsons.dumps(record.output, ensure_ascii=False)}")
    if record.reason:
        lines.append(f"failed    in {record.phase}: {record.reason}")
    lines += ["changes", *(f"  {change}" for change in record.changes)] if record.changes else []
    lines += ["steps", *(f"  {step:<22}{seconds * 1000:10.1f} ms" for step, seconds in record.phases)]
    if record.kept_at:
        lines.append(f"kept      {record.kept_at}")
        kept = [one for one in machine.kept.all() if one.execution == record.execution]
        if kept:
            lines += ["output of the body", *(f"  {line}" for line in kept[0].output.splitlines()[-20:])]
            lines += [str(kept[0].report.get("traceback", "")).rstrip()]
    return "\n".join(lines)


@app.command()
def replay(
    attempt: Annotated[str, typer.Argument(metavar="ID", help="The attempt, by its id or the beginning of it.")],
    pdb: Annotated[bool, typer.Option("--pdb", help="Open the debugger where the body fails.")] = False,
    json: console.JsonFlag = False,
) -> None:
    """Run the body of a past attempt again; nothing is published."""
    from headgate.attempts.replay import replay as run_again
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.loading import load_named

    def debug(trace: Any) -> None:
        import pdb as debugger

        debugger.post_mortem(trace)

    with Machine(invocation.current().settings) as machine:
        record = machine.records.attempt(attempt)
        [declaration] = load_named(record.module, [record.task])
        with nullcontext() if pdb else _prints_are_notes():
            replayed = run_again(machine.runtime(), declaration, record.input, on_error=debug if pdb else None)
    facts = {
        "attempt": record.execution,
        "changes": list(replayed.changes),
        "result": replayed.result,
        "error": None if replayed.error is None else f"{type(replayed.error).__name__}: {replayed.error}",
    }
    told = [f"replayed {record.execution}; nothing was staged, published or reported"]
    told += [f"  {change}" for change in replayed.changes] or ([] if replayed.error else ["  nothing changed"])
    if replayed.error is None:
        told.append(f"result {jsons.dumps(replayed.result, ensure_ascii=False)}")
    console.show_either(facts, as_json_text=json, draw=lambda: "\n".join(told))
    if replayed.error is not None:
        raise replayed.error
