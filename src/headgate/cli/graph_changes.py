"""`headgate graph changes`: rows with what they were and what they are, between two commits or as a feed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console
from headgate.cli.graph_input import StoreArgument, open_graph
from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from headgate.graph import Graph
    from headgate.graph.changes import RowChange

_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


def changes(
    store: StoreArgument,
    old: Annotated[str, typer.Option("--from", help="Between this commit or branch and --to.", metavar="REF")] = "",
    new: Annotated[str, typer.Option("--to", help="What it is compared with.", metavar="REF")] = "main",
    after: Annotated[
        str, typer.Option(help="Commit by commit, after this cursor: the last commit that was seen.", metavar="CURSOR")
    ] = "",
    branch: Annotated[str, typer.Option(help="The branch that is followed.", metavar="NAME")] = "main",
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only rows of this type. May be repeated.", metavar="TYPE")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Stop after so many rows; a feed stops between commits.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show the rows that changed: between two refs, or commit by commit after a cursor.

    A cursor on a commit that was replaced first yields the reverse of it, marked. The last line of a feed is the
    cursor to go on from.
    """
    if old and after:
        raise InvalidInput(message="--from and --after say different things", hint="give one of them")
    with open_graph(store, mode="ro") as graph:
        found = _between(graph, old, new, types, limit) if old else _feed(graph, branch, after, types, limit)
        for line in found:
            sys.stdout.write(f"{dumps(line, default=console.as_json) if json else _told(line)}\n")


def _between(graph: Graph, old: str, new: str, types: list[str] | None, limit: int | None) -> Iterator[dict[str, Any]]:
    from headgate.cli.graph_store import GraphVersions

    refs = GraphVersions(graph)
    for change in islice(graph.changes(refs.resolve(old), refs.resolve(new), types=types), limit):
        yield _line(change)


def _feed(
    graph: Graph, branch: str, after: str, types: list[str] | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    cursor, rows = after, 0
    for entry in graph.feed(branch, after=after or None, types=types):
        for change in entry.changes:
            yield {"commit": entry.commit.id, "reverses": entry.reverses, **_line(change)}
            rows += 1
        cursor = entry.cursor
        if limit is not None and rows >= limit:
            break
    yield {"cursor": cursor or graph.head(branch).id}


def _line(change: RowChange) -> dict[str, Any]:
    return {
        "type": change.type,
        "kind": change.kind,
        "id": change.id,
        "before": change.before,
        "after": change.after,
    }


def _told(line: dict[str, Any]) -> str:
    if "cursor" in line:
        return f"cursor {line['cursor']}"
    commit = f"{line['commit']}{' taken back' if line['reverses'] else ''}  " if "commit" in line else ""
    before, after = line["before"], line["after"]
    if before is None or after is None:
        told = ", ".join(f"{name} {value!r}" for name, value in (after or before).items() if name != "id")
    else:
        told = ", ".join(f"{n} {before[n]!r} -> {v!r}" for n, v in after.items() if before.get(n) != v)
    return f"{commit}{_SIGNS[line['kind']]} {line['type']} {line['id']}  {told}"
