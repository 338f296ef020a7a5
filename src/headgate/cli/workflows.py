"""Work: the workflows of this machine."""

from __future__ import annotations

import json as jsons
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import console, invocation, workflow_runs, workflow_tree
from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headgate.orchestrators.local_records import WorkflowRecord
    from headgate.orchestrators.machine import Machine

app = typer.Typer()


@app.command()
def workflows(
    workflow: Annotated[str | None, typer.Argument(metavar="[ID]", help="Show this one in full.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, newest first.", min=1)] = 20,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End it; its attempts publish nothing from then on.")
    ] = False,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """List the workflows of this machine, or show one; end one."""
    from headgate.orchestrators.machine import Machine

    with Machine(invocation.current().settings) as machine:
        if workflow is None:
            if cancel:
                raise InvalidInput(message="no workflow is named to be ended", hint="write its id")
            found = machine.engine.workflows(limit=limit)
            console.show_either(found, as_json_text=json, draw=lambda: _listed(found))
            return
        record = machine.engine.workflow(workflow)
        if cancel:
            _cancel(machine, record, dry_run=dry_run)
            return
        facts = workflow_runs.workflow_facts(machine, record)
        console.show_either(facts, as_json_text=json, draw=lambda: _shown(machine, record))


def _cancel(machine: Machine, record: WorkflowRecord, *, dry_run: bool) -> None:
    if record.over:
        raise InvalidInput(message=f"workflow {record.id} is {record.status} already", hint="there is nothing to end")
    if dry_run:
        console.say(f"would end {record.name}, workflow {record.id}")
        return
    machine.engine.cancel(record.id, reason="ended by hand")
    console.say(f"{record.name}: TERMINATED, workflow {record.id}")


def _listed(found: list[WorkflowRecord]) -> RenderableType | str:
    if not found:
        return "no workflow has been started here yet"
    rows = [
        (one.id, one.name, one.status, f"{one.created_at:%Y-%m-%d %H:%M:%S}", _took(one), one.reason[:60])
        for one in found
    ]
    return console.table(["workflow", "name", "status", "started", "took", "reason"], rows)


def _took(one: WorkflowRecord) -> str:
    return "" if one.ended_at is None else f"{(one.ended_at - one.created_at).total_seconds():.2f} s"


def _shown(machine: Machine, record: WorkflowRecord) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    lines = [f"input   {jsons.dumps(record.input, ensure_ascii=False)}"]
    if record.output is not None:
        lines.append(f"output  {jsons.dumps(record.output, ensure_ascii=False)}")
    if record.reason:
        lines.append(f"reason  {record.reason}")
    rows = [
        (task.seq, task.reference, task.iteration or "", task.retry_count, task.status, task.id, task.reason[:60])
        for task in machine.engine.tasks(workflow=record.id)
    ]
    return Group(
        workflow_tree.tree_of(record, machine.engine.outline(record.id)),
        console.table(["", "task", "round", "retry", "status", "task id", "reason"], rows),
        Text("\n".join(lines)),
    )
