"""Printing: tables, progress and questions for people on a terminal, JSON for programs.

Results go to stdout, everything else to stderr. Rich is imported when something is printed with it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")]
YesFlag = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]

# A table piped into a file or another program is not cut to the width of a terminal nobody looks at.
_WIDTH_WITHOUT_TERMINAL = 1000


def stdout() -> Console:
    return _console(sys.stdout)


def stderr() -> Console:
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    from rich.console import Console

    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def say(text: str) -> None:
    """One plain line on stdout, as it is: no markup is read in it."""
    typer.echo(text)


def note(text: str) -> None:
    """One plain line on stderr: about the work, not its result."""
    typer.echo(text, err=True)


def show(renderable: RenderableType) -> None:
    """Anything Rich can draw, on stdout."""
    stdout().print(renderable)


def show_json(value: Any) -> None:
    """`value` as JSON on stdout: models, dataclasses, paths and times included; secrets stay hidden."""
    typer.echo(json.dumps(value, default=as_json, indent=2, ensure_ascii=False))


def show_either(value: Any, *, as_json_text: bool, draw: Callable[[], RenderableType | str]) -> None:
    """What a reading command ends with: `value` for a program under `--json`, else what `draw` makes for people."""
    if as_json_text:
        show_json(value)
        return
    drawn = draw()
    if isinstance(drawn, str):
        say(drawn)
    else:
        show(drawn)


def as_json(value: Any) -> Any:
    """What `json.dumps` is to write for a value it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> RenderableType:
    """A plain table; cells are shown as they are, without markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in rows:
        drawn.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    return drawn


def _cell(value: object) -> str:
    return "" if value is None else str(value)


@contextmanager
def progress() -> Iterator[Progress]:
    """Bars on stderr while the block runs; they vanish when it ends, and stay silent without a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = stderr()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield bars


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the person agrees; without a terminal to ask on, `--yes` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(message=f"{question} There is no terminal to ask on", hint="add --yes to go on")
    if not typer.confirm(question, err=True):
        raise typer.Abort
