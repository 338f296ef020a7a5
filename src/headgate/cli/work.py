"""Work: what a module declares, and what a server is told about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from headgate.tasks import TaskDeclaration

app = typer.Typer()

Modules = Annotated[
    list[str], typer.Argument(metavar="MODULE...", help="A module with tasks, such as examples.songs.tasks.")
]


@app.command()
def check(modules: Modules, json: console.JsonFlag = False) -> None:
    """Show the tasks of a module, or everything that is wrong with it."""
    from headgate.tasks.loading import load_tasks

    declared = load_tasks(*modules)
    for declaration in declared:
        for warning in declaration.warnings:
            console.note(f"warning: {warning}")
    console.show_either(
        [_facts(declaration) for declaration in declared], as_json_text=json, draw=lambda: _table(declared)
    )


@app.command()
def extract(
    modules: Modules,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to the terminal.")
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if FILE is not what the module declares.")
    ] = False,
) -> None:
    """Write the TaskDefs of a module as a Conductor server takes them."""
    from headgate.tasks.loading import load_tasks
    from headgate.tasks.taskdef import render, task_defs

    if check_only and output is None:
        raise InvalidInput(message="--check compares a file, and none is named", hint="add -o FILE")
    declared = load_tasks(*modules)
    text = render(task_defs(declared, owner_email=invocation.current().settings.owner_email))
    if output is None:
        console.say(text.rstrip("\n"))
    elif check_only:
        if not output.is_file() or output.read_text() != text:
            command = f"headgate extract {' '.join(modules)} -o {output}"
            raise InvalidInput(message=f"{output} is not what {', '.join(modules)} declares", hint=f"run {command}")
    else:
        _write(output, text)
        console.note(f"wrote {len(declared)} TaskDefs to {output}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        hint = "name a file in a folder that exists and can be written"
        raise InvalidInput(message=f"{path} cannot be written: {error.strerror}", hint=hint) from error


def _stores(declaration: TaskDeclaration, *, read_only: bool) -> list[str]:
    told = []
    for name, spec in declaration.stores.items():
        if spec.read_only is read_only:
            told.append(f"{name} {getattr(spec, 'prefix', None) or ', '.join(getattr(spec, 'types', ())) or '/'}")
    return told


def _facts(declaration: TaskDeclaration) -> dict[str, Any]:
    return {
        "name": declaration.name,
        "module": declaration.module,
        "source": str(declaration.source),
        "description": declaration.description,
        "owner_email": declaration.owner_email,
        "arguments": declaration.arguments,
        "params": declaration.params.__name__,
        "result": declaration.result.__name__,
        "writes": _stores(declaration, read_only=False),
        "reads": _stores(declaration, read_only=True),
        "controls": declaration.controls,
        "warnings": [str(warning) for warning in declaration.warnings],
    }


def _table(declared: list[TaskDeclaration]) -> Any:
    columns = ("task", "writes", "reads", "params", "result", "runs on", "retries", "lease", "declared at")
    rows = [
        (
            one.name,
            "; ".join(_stores(one, read_only=False)) or "-",
            "; ".join(_stores(one, read_only=True)) or "-",
            one.params.__name__,
            one.result.__name__,
            "Spark" if one.takes_spark else "Python",
            one.controls.retry.count,
            f"{one.controls.timeout.response_seconds} s",
            f"{_near(one.source.file)}:{one.source.line}",
        )
        for one in declared
    ]
    return console.table(columns, rows)


def _near(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
