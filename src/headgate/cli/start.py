"""Getting started: a project to build on, and a demonstration to watch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli import console

app = typer.Typer()


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it; made if it is not there.")],
    dry_run: console.DryRunFlag = False,
) -> None:
    """Write a project: settings, tasks, a schema, a workflow and a test."""
    from headgate.cli.project import FILES, write_project

    if dry_run:
        for name in FILES:
            console.say(f"would write {folder / name}")
        return
    for path in write_project(folder):
        console.say(f"wrote {path}")
    console.say(f"next: cd {folder} && pytest && headgate doctor")


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where to play it; a new temporary folder if none is given.")
    ] = None,
) -> None:
    """Show what Headgate does, on the embedded parts in a folder."""
    from headgate.cli.demo import run

    run(folder)
