"""Upkeep of a graph: optimize and cleanup. What `verify` and `repair` tell of a graph is here, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import console
from headgate.cli.graph_input import StoreArgument, open_graph
from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from headgate.graph.upkeep.cleanup import Cleaned
    from headgate.graph.upkeep.optimize import Optimized
    from headgate.graph.upkeep.verify import Verified

app = typer.Typer()
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@app.command()
def optimize(
    store: StoreArgument,
    branch: Annotated[str | None, typer.Option(help="Only this branch.", metavar="NAME")] = None,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Compact tables, indices and manifest of a graph.

    Small fragments become large ones, and new rows join the indices. Content does not change.
    """
    with open_graph(store, mode="ro" if dry_run else "rw") as opened:
        done = opened.optimize(branch=branch, dry_run=dry_run)
    told = "\n".join(_optimized(done, dry_run=dry_run))
    console.show_either(done, as_json_text=json, draw=lambda: told or "nothing to gain")


def _optimized(done: Optimized, *, dry_run: bool) -> Iterator[str]:
    verbs = ("would compact", "would index") if dry_run else ("compacted", "indexed")
    for verb, names in ((verbs[0], done.compacted), (verbs[1], done.indexed), ("left, since busy:", done.busy)):
        if names:
            yield f"{verb} {', '.join(names)}"


@app.command()
def cleanup(
    store: StoreArgument,
    keep: Annotated[int, typer.Option(help="Keep the last so many commits of each branch.", metavar="N")] = 10,
    older_than: Annotated[
        str, typer.Option(help="Keep what was a head within this time: 30m, 12h, 7d; 0 for none.", metavar="D")
    ] = "7d",
    grace: Annotated[
        str, typer.Option(help="How long to wait for readers between telling and removing.", metavar="D")
    ] = "60s",
    dry_run: console.DryRunFlag = False,
    yes: console.YesFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Remove what only older commits of a graph show: they can no longer be read."""
    kept, waited = duration("--older-than", older_than), duration("--grace", grace)
    with open_graph(store, mode="ro" if dry_run else "rw") as opened:
        if not dry_run:
            console.confirm(f"Let go of all but the last {keep} commits, and those of {older_than}?", yes=yes)
        done = opened.cleanup(keep=keep, older_than=kept, grace=waited, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    console.show_either(done, as_json_text=json, draw=lambda: "\n".join(_cleaned(done, verb)))


def _cleaned(done: Cleaned, verb: str) -> Iterator[str]:
    for name, count in done.versions.items():
        yield f"{verb} {count} versions of {name}"
    yield from (f"{verb} table {name}" for name in done.tables)
    yield from (f"{verb} fork {name}" for name in done.forks)
    if done.rows:
        yield f"{verb} {done.rows} rows of history"
    if done.files:
        yield f"{verb} {done.files} files that were staged and never published"
    yield from (f"left {what}" for what in done.left)
    if done.nothing:
        yield "nothing to remove"
    elif done.bytes:
        yield f"{done.bytes:,} bytes"


def duration(option: str, text: str) -> timedelta:
    """A length of time as people write it: 90s, 30m, 12h, 7d, 2w, or 0."""
    found = re.fullmatch(r"(\d{1,9})([smhdw]?)", text.strip())
    if found is None or (not found.group(2) and int(found.group(1))):
        raise InvalidInput(message=f"{option} is {text!r}, which is no length of time", hint="write 30m, 12h or 7d")
    return timedelta(seconds=int(found.group(1)) * _UNITS.get(found.group(2), 0))


def verify_graph(store: str, *, json: bool) -> None:
    with open_graph(store, mode="ro") as opened:
        found = opened.verify()
    console.show_either(found, as_json_text=json, draw=lambda: "\n".join(_verified(found)))
    if not found.whole:
        raise typer.Exit(8)


def _verified(found: Verified) -> Iterator[str]:
    yield from map(str, found.damage)
    state = "all whole" if found.whole else f"{len(found.damage)} things are wrong"
    yield f"{found.branches} branches, {found.commits} commits, {found.versions} versions, {found.rows} rows: {state}"
