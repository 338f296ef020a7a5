"""Work: tasks at a Conductor server: registered there, worked on here."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.errors import Conflict

if TYPE_CHECKING:
    from headgate.orchestrators.conductor.taskdefs import Difference
    from headgate.orchestrators.worker import Supervisor

app = typer.Typer()

_MOST_CHANGES = 20


@app.command()
def register(
    modules: Annotated[
        list[str], typer.Argument(metavar="MODULE...", help="A module with tasks, such as examples.songs.tasks.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Register params that refuse what the server's took so far.")
    ] = False,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Tell the Conductor server about the tasks of a module, and show what that changes."""
    from headgate.orchestrators.conductor.taskdefs import difference, server_task_def
    from headgate.orchestrators.conductor.taskdefs import register as tell
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.loading import load_tasks
    from headgate.tasks.taskdef import task_defs

    settings = invocation.current().settings
    told = task_defs(load_tasks(*modules), owner_email=settings.owner_email)
    with Machine(settings) as machine:
        client = machine.conductor.client
        client.version()
        found = [difference(one, server_task_def(client, one["name"])) for one in told]
        if not dry_run:
            if not force:
                _refuse_what_breaks(found)
            for one, change in zip(told, found, strict=True):
                tell(client, one, change.standing)
            machine.conductor.id  # noqa: B018 - the server gets its id by whoever may write to it
    console.show_either(found, as_json_text=json, draw=lambda: "\n".join(_lines(found, dry_run=dry_run)))


def _refuse_what_breaks(found: list[Difference]) -> None:
    broken = [change for change in found if change.breaking]
    if broken:
        told = "; ".join(f"{change.task}: {', '.join(change.breaking[:5])}" for change in broken)
        raise Conflict(
            message=f"workflows that run would give these tasks input that they refuse: {told}",
            hint="give the new params a default, or the task a new name; --force registers it all the same",
        )


def _lines(found: list[Difference], *, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    for change in found:
        match str(change.standing):
            case "same":
                yield f"{change.task}: the server has it as it is"
            case "new":
                yield f"{change.task}: {would}registered"
            case _:
                yield f"{change.task}: {would}changed"
        for one in change.changes[:_MOST_CHANGES]:
            yield f"  {one}"
        if len(change.changes) > _MOST_CHANGES:
            yield f"  and {len(change.changes) - _MOST_CHANGES} more"
        for one_more in change.breaking:
            yield f"  breaks running workflows: {one_more}"


@app.command()
def worker(
    modules: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE[:TASK[,TASK…]]...", help="A module with tasks; all of them unless some are named."
        ),
    ],
    executors: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="How many attempts run at a time, each in a process of its own.")
    ] = 1,
    domain: Annotated[
        str | None, typer.Option(metavar="DOMAIN", help="Take the tasks of this task domain alone.")
    ] = None,
    print_grace: Annotated[
        bool, typer.Option("--print-grace", help="Print the seconds a platform must wait before it kills; do nothing.")
    ] = False,
) -> None:
    """Work on tasks that a Conductor server hands out, until told to stop."""
    from headgate.orchestrators.worker import Supervisor

    here = invocation.current()
    if print_grace:
        _print_grace(modules)
        return
    supervisor = Supervisor(
        here.settings, modules, executors=executors, domain=domain, debug=here.debug, say=console.note
    )
    with signals_stop(supervisor):
        code = supervisor.run()
    raise typer.Exit(code)


def _print_grace(modules: list[str]) -> None:
    from pathlib import Path

    from headgate.orchestrators.executors import Setup
    from headgate.orchestrators.executors.child import declared, facts_of
    from headgate.orchestrators.worker import grace_seconds

    settings = invocation.current().settings
    setup = Setup(settings=settings, modules=tuple(modules), folder=Path.cwd())
    console.say(str(grace_seconds(facts_of(one, owner_email=None) for one in declared(setup).values())))


@contextmanager
def signals_stop(supervisor: Supervisor) -> Iterator[None]:
    """SIGTERM and Ctrl-C drain; a second one ends what runs."""

    def told(number: int, frame: Any) -> None:
        supervisor.stop()

    before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
