"""Running workflows on the Conductor server: started there, followed here until they are over, worked on if asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli import console, invocation
from headgate.cli.inputs import Asked, store_blocks
from headgate.cli.serving import signals_stop
from headgate.cli.workflow_tree import published, task_facts
from headgate.errors import InvalidInput, NotFound, Problem, Transient
from headgate.ids import ULIDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.orchestrators.conductor import Client
    from headgate.orchestrators.conductor.workflows import ServerTask, ServerWorkflow
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.declaration import TaskDeclaration

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.5


def run_file(machine: Machine, file: str, modules: Sequence[str], given: dict[str, Any], asked: Asked) -> None:
    """Start the workflow of a file at the server, whatever kinds of tasks it has, and follow it to its end."""
    from headgate.orchestrators.engine.files import read_file
    from headgate.tasks.loading import load_tasks

    raw, where = read_file(Path(file))
    if not isinstance(raw, dict) or not isinstance(raw.get("tasks"), list) or not raw.get("name"):
        raise InvalidInput(message=f"{where(())} holds no workflow", hint="it needs a name and tasks")
    if asked.jobs and not modules:
        raise InvalidInput(message=f"no module with the tasks of {file} is named", hint="add --tasks MODULE")
    given = {**given, **store_blocks(machine, asked.on, builds_on=["workspace", "graph"])}
    run(machine, raw, given, load_tasks(*modules) if modules else [], modules, asked)


def run(
    machine: Machine,
    raw: Mapping[str, Any],
    given: Mapping[str, Any],
    declarations: Sequence[TaskDeclaration],
    modules: Sequence[str],
    asked: Asked,
) -> None:
    """Start a workflow at the server and tell what its tasks do; ends with the workflow's own success or failure.

    With jobs, its tasks are worked on here, in so many executors, in a task domain of this run's own; those that the
    server does not know yet are registered.
    """
    from headgate.orchestrators.conductor.workflows import start_workflow

    client = machine.conductor.client
    client.version()
    definition = {"ownerEmail": machine.settings.owner_email, **raw}
    domain = machine.domain or (f"run-{ULIDS.new().lower()}" if asked.jobs else None)
    if asked.jobs and not asked.dry_run:
        _register_what_is_new(machine, declarations)
    _check_definition(client, definition, given)
    if asked.dry_run:
        console.show_json({"workflow": definition, "input": given, "server": client.name, "domain": domain})
        return
    workflow = start_workflow(client, definition, given, domain=domain)
    console.note(f"{raw['name']}: started as workflow {workflow} at {client.name}")
    try:
        over = _work_on(machine, workflow, modules, domain, asked.jobs) if asked.jobs else _follow(client, workflow)
    except KeyboardInterrupt:
        console.note(f"hint: workflow {workflow} goes on at the server")
        raise
    if asked.json:
        console.show_json(_facts(over))
    else:
        for task in over.tasks:
            console.say(f"  {_told(task)}")
        console.say(f"{over.name}: {over.status}, workflow {over.id}")
        if over.reason:
            console.note(f"error: {over.reason}")
    if over.status != "COMPLETED":
        raise typer.Exit(1)


def _register_what_is_new(machine: Machine, declarations: Sequence[TaskDeclaration]) -> None:
    """What the server knows already stays as it is."""
    from headgate.orchestrators.conductor.taskdefs import Standing, register, server_task_def
    from headgate.tasks.taskdef import task_defs

    client = machine.conductor.client
    for told in task_defs(declarations, owner_email=machine.settings.owner_email):
        if server_task_def(client, str(told["name"])) is None:
            register(client, told, Standing.NEW)
            console.note(f"registered {told['name']}")


def _work_on(
    machine: Machine, workflow_id: str, modules: Sequence[str], domain: str | None, jobs: int
) -> ServerWorkflow:
    """Follow a workflow with a worker of this run's own, which is drained when it is over or when told to stop."""
    from headgate.orchestrators.worker import Supervisor

    debug = invocation.current().debug
    supervisor = Supervisor(machine.settings, modules, executors=jobs, domain=domain, debug=debug, say=log.info)
    over: list[ServerWorkflow] = []
    enough = threading.Event()

    def follow() -> None:
        try:
            over.append(_follow(machine.conductor.client, workflow_id, enough))
        finally:
            supervisor.stop()

    following = threading.Thread(target=follow, name="headgate-follow", daemon=True)
    following.start()
    try:
        with signals_stop(supervisor):
            supervisor.run()
    finally:
        enough.set()
        following.join()
    if not over or not over[0].over:
        raise KeyboardInterrupt
    return over[0]


def _follow(client: Client, workflow_id: str, enough: threading.Event | None = None) -> ServerWorkflow:
    """Tell each change of a task as it is seen; a server that is away for a while is waited for.

    Until the workflow is over, or `enough` is set.
    """
    from headgate.orchestrators.conductor.workflows import workflow

    told: dict[str, str] = {}
    enough, silent = enough or threading.Event(), False
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
            if now.over or enough.is_set():
                return now
        enough.wait(_LOOK_EVERY)


def _told(task: ServerTask) -> str:
    ref = published(task)
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
        "tasks": [task_facts(task) for task in over.tasks],
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
