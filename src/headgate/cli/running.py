"""Work: run a task by hand, look at past attempts, run one again."""

from __future__ import annotations

import json as jsons
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, inputs, invocation
from headgate.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headgate.attempts.records import AttemptRecord
    from headgate.orchestrators.machine import Machine

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
    domain: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN", help="Run it on the Conductor server, for the workers of this task domain."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="How many attempts run here at a time, each in its own process.")
    ] = 0,
    show: Annotated[bool, typer.Option("--print", help="Show the definition of the chain; run nothing.")] = False,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Run a task, a chain of tasks or a workflow: on this machine, or on the server where the settings name one."""
    from headgate.cli import chain_runs, server_runs, workflow_runs
    from headgate.orchestrators.machine import Machine

    settings = invocation.current().settings
    if domain is not None and settings.orchestrator != "conductor":
        settings = settings.model_copy(update={"orchestrator": "conductor"})
    on_server = settings.orchestrator == "conductor"
    if on_server and (resume or retry is not None):
        raise Unsupported(
            message="--resume and --retry are for workflows of this machine",
            hint="a Conductor server goes on by itself, and retries from its own pages",
        )
    asked = inputs.Asked(on=tuple(on or ()), jobs=jobs, dry_run=dry_run, json=json)
    with Machine(settings, domain=domain) as machine:
        if resume:
            workflow_runs.resume(machine, what, asked)
        elif retry is not None and (what is None or workflow_runs.is_file(what)):
            workflow_runs.retry(machine, retry, modules or [], asked)
        elif what is None:
            raise InvalidInput(message="nothing is named to run", hint="write MODULE:TASK, or a workflow file")
        elif workflow_runs.is_file(what):
            whole = inputs.json_object(given, "--input")
            run_file = server_runs.run_file if on_server else workflow_runs.run_file
            run_file(machine, what, modules or [], whole, asked)
        else:
            own = inputs.json_object(params, "--params")
            chain_runs.run(machine, what, own, asked, retry=retry, show=show)


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
        with nullcontext() if pdb else inputs.prints_are_notes():
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
