"""Running workflows on the Conductor server: started there, followed here until they are over."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli import console
from headgate.errors import InvalidInput, NotFound, Problem, Transient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.orchestrators.conductor import Client
    from headgate.orchestrators.conductor.workflows import ServerTask, ServerWorkflow
    from headgate.orchestrators.machine import Machine

_LOOK_EVERY = 0.5


def run_file_on_server(
    machine: Machine, file: str, given: dict[str, Any], *, on: Sequence[str], dry_run: bool, json: bool
) -> None:
    """Start the workflow of a file at the server, whatever kinds of tasks it has, and follow it to its end."""
    from headgate.cli.inputs import store_blocks
    from headgate.orchestrators.engine.files import read_file

    raw, where = read_file(Path(file))
    if not isinstance(raw, dict) or not isinstance(raw.get("tasks"), list) or not raw.get("name"):
        raise InvalidInput(message=f"{where(())} holds no workflow", hint="it needs a name and tasks")
    given = {**given, **store_blocks(machine, on, builds_on=["workspace", "graph"])}
    run_on_server(machine, raw, given, dry_run=dry_run, json=json)


def run_on_server(
    machine: Machine, raw: Mapping[str, Any], given: Mapping[str, Any], *, dry_run: bool, json: bool
) -> None:
    """Start a workflow at the server and tell what its tasks do; ends with the workflow's own success or failure."""
    from headgate.orchestrators.conductor.workflows import start_workflow

    client = machine.conductor.client
    client.version()
    definition = {"ownerEmail": machine.settings.owner_email, **raw}
    _check_definition(client, definition, given)
    if dry_run:
        console.show_json({"workflow": definition, "input": given, "server": client.name, "domain": machine.domain})
        return
    workflow = start_workflow(client, definition, given, domain=machine.domain)
    console.note(f"{raw['name']}: started as workflow {workflow} at {client.name}")
    try:
        over = _follow(client, workflow)
    except KeyboardInterrupt:
        console.note(f"hint: workflow {workflow} goes on at the server")
        raise
    if json:
        console.show_json(_facts(over))
    else:
        for task in over.tasks:
            console.say(f"  {_told(task)}")
        console.say(f"{over.name}: {over.status}, workflow {over.id}")
        if over.reason:
            console.note(f"error: {over.reason}")
    if over.status != "COMPLETED":
        raise typer.Exit(1)


def _follow(client: Client, workflow_id: str) -> ServerWorkflow:
    """Tell each change of a task as it is seen; a server that is away for a while is waited for."""
    from headgate.orchestrators.conductor.workflows import workflow

    told: dict[str, str] = {}
    pause, silent = threading.Event(), False
    while True:
        try:
            now = workflow(client, workflow_id)
        except Transient as error:
            if not silent:
                console.note(f"waiting for Conductor: {error.summary}")
            silent = True
        else:
            silent = False
            for task in now.tasks:
                if told.get(task.id) != task.status:
                    told[task.id] = task.status
                    console.note(_told(task))
            if now.over:
                return now
        pause.wait(_LOOK_EVERY)


def _told(task: ServerTask) -> str:
    ref = next((block["ref"] for block in task.output.values() if isinstance(block, dict) and "ref" in block), None)
    retry = f", retry {task.retry_count}" if task.retry_count else ""
    return f"{task.reference}: {task.status}{retry}{f' -> {ref}' if ref else ''}" + (
        f": {task.reason}" if task.reason else ""
    )


def _facts(over: ServerWorkflow) -> dict[str, Any]:
    return {
        "workflow": over.id,
        "name": over.name,
        "status": over.status,
        "reason": over.reason,
        "input": over.input,
        "output": over.output,
        "created_at": over.created_at,
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
            }
            for task in over.tasks
        ],
    }


def _check_definition(client: Client, definition: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Find what would only be found when it runs: tasks the server does not know, input that is not there."""
    from headgate.orchestrators.conductor.taskdefs import server_task_def
    from headgate.orchestrators.engine.definitions import read_definition
    from headgate.orchestrators.engine.references import complete_input

    problems = []
    for name in sorted({str(task.get("name")) for task in _simple_tasks(definition.get("tasks"))}):
        if server_task_def(client, name) is None:
            told = f"the server has no task {name!r}"
            problems.append(Problem(str(definition.get("name")), told, "headgate register tells it"))
    if problems:
        raise NotFound(
            message=f"workflow {definition.get('name')}: {problems[0].message}",
            hint="headgate register MODULE tells the server about tasks",
            kind="task",
            problems=tuple(problems[1:]),
        )
    try:
        read = read_definition(definition)
    except InvalidInput:
        return  # the server runs more kinds of tasks than we can look into
    complete_input(read, given)


def _simple_tasks(found: Any) -> Iterator[Mapping[str, Any]]:
    """Every task that workers work on, however deep in forks, switches and loops."""
    if isinstance(found, Mapping):
        if found.get("taskReferenceName") and found.get("type", "SIMPLE") == "SIMPLE":
            yield found
        for value in found.values():
            yield from _simple_tasks(value)
    elif isinstance(found, list):
        for value in found:
            yield from _simple_tasks(value)
