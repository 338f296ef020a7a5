"""How far a transfer is, shown to people: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.cli import console
from headgate.lake.interface import Progress
from headgate.lake.progress import Meter


@contextmanager
def watched(what: str, *, summary: bool = False) -> Iterator[Progress]:
    """A bar on a terminal; elsewhere a line every few seconds, and with `summary` one at the end."""
    with console.progress() as bars:
        if bars.disable:
            meter = Meter(say=lambda done: console.note(f"{what}: {done}"))
            yield meter
            if summary:
                console.note(f"{what}: {meter.transferred}")
            return
        meter, task = Meter(), bars.add_task(what, total=None)

        def advance(files: int, size: int) -> None:
            meter(files, size)
            bars.update(task, advance=files, description=f"{what}: {meter.transferred}")

        yield advance
