"""Look at history: commits, one commit, the difference between two."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import console
from headgate.cli.stores import ShownChange, ShownCommit, named, open_store
from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer()

Address = Annotated[str, typer.Argument(metavar="STORE[@REF]", help="A store, and a branch or ref in it.")]
_SHORT = 12
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


@app.command()
def log(
    store: Address,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most so many commits.")] = 50,
    first_parent: Annotated[
        bool, typer.Option("--first-parent", help="Follow only the first parent of each commit.")
    ] = False,
    graph: Annotated[bool, typer.Option("--graph/--no-graph", help="Draw how the commits hang together.")] = True,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Only commits by this one, such as headgate:recovery.")
    ] = None,
    json: console.JsonFlag = False,
) -> None:
    """Show the commits of a branch, newest first."""
    name, at = named(store)
    with open_store(name) as opened:
        found = opened.log(opened.resolve(at), first_parent=first_parent)
        commits = list(islice((commit for commit in found if actor in (None, commit.committer)), limit))
        heads: dict[str, list[str]] = {}
        for branch in opened.branches():
            heads.setdefault(branch.ref, []).append(branch.name)
    console.show_either(
        commits, as_json_text=json, draw=lambda: "\n".join(_log_lines(commits, heads, graph=graph and actor is None))
    )


def _log_lines(commits: list[ShownCommit], heads: dict[str, list[str]], *, graph: bool) -> list[str]:
    from headgate.cli.graph_lines import draw

    if not graph:
        return [_line(commit, heads) for commit in commits]
    return [f"{left}{_line(commit, heads)}" if commit else left for left, commit in draw(commits)]


def _line(commit: ShownCommit, heads: dict[str, list[str]]) -> str:
    names = f" ({', '.join(heads[commit.ref])})" if commit.ref in heads else ""
    when = f"{commit.created_at:%Y-%m-%d %H:%M:%S}"
    first = commit.message.splitlines()[0] if commit.message else ""
    return f"{commit.ref[:_SHORT]} {when}{names} {first}"


@app.command()
def show(store: Address, json: console.JsonFlag = False) -> None:
    """Show one commit: who made it, from what, and what it changed."""
    name, at = named(store)
    with open_store(name) as opened:
        ref = opened.resolve(at)
        commit = next(opened.log(ref, first_parent=True))
        parent = opened.resolve(commit.parents[0]) if commit.parents else None
        changes = list(opened.diff(parent, ref)) if parent is not None else []
    console.show_either({"commit": commit, "changes": changes}, as_json_text=json, draw=lambda: _shown(commit, changes))


def _shown(commit: ShownCommit, changes: list[ShownChange]) -> str:
    facts = [
        f"commit   {commit.ref}",
        *(f"parent   {parent}" for parent in commit.parents),
        f"by       {commit.committer}",
        f"at       {commit.created_at:%Y-%m-%d %H:%M:%S %Z}",
        *(f"{key}   {value}" for key, value in sorted(commit.metadata.items())),
    ]
    return "\n".join([*facts, "", *(f"    {line}" for line in commit.message.splitlines()), "", *map(_sign, changes)])


def _sign(change: ShownChange) -> str:
    return f"{_SIGNS[change.kind]} {change.what}{'  ' + change.detail if change.detail else ''}"


@app.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="STORE@A", help="What it was.")],
    new: Annotated[str, typer.Argument(metavar="STORE@B", help="What it is.")],
    prefix: Annotated[str, typer.Option("--prefix", help="Only what lies under this.")] = "",
    json: console.JsonFlag = False,
) -> None:
    """Show what turns one ref into another."""
    (name, at_old), (other, at_new) = named(old), named(new)
    if name != other:
        raise InvalidInput(message=f"{name!r} and {other!r} are different stores", hint="compare two refs of one store")
    with open_store(name) as opened:
        changes = list(opened.diff(opened.resolve(at_old), opened.resolve(at_new), prefix=prefix))
    console.show_either(changes, as_json_text=json, draw=lambda: _differences(changes))


def _differences(changes: list[ShownChange]) -> RenderableType | str:
    return "\n".join(map(_sign, changes)) if changes else "no differences"
