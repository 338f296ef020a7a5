"""Branches of any store: list, create, delete, merge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from headgate.cli import console
from headgate.cli.stores import ShownMerge, named, open_store, refuse_running
from headgate.errors import InvalidInput, MergeConflict, NotFound, response_to
from headgate.settings import StoreAddress

app = typer.Typer()
branch = typer.Typer(no_args_is_help=True, help="List, create, delete and merge branches.")
app.add_typer(branch, name="branch")

Store = Annotated[str, typer.Argument(metavar="STORE", help="A store of the settings.")]
OneBranch = Annotated[str, typer.Argument(metavar="STORE@BRANCH", help="A store, and the branch.")]


def _branch_of(text: str) -> tuple[str, str]:
    parsed = StoreAddress.parse(text)
    if parsed.at is None:
        raise InvalidInput(message=f"{text!r} names no branch", hint=f"write {text}@BRANCH")
    return parsed.store, parsed.at


@branch.command("list")
def list_branches(
    store: Store,
    everything: Annotated[bool, typer.Option("--all", help="Also the staging branches of attempts.")] = False,
    json: console.JsonFlag = False,
) -> None:
    """Show the branches of a store and their heads."""
    from headgate.lake.interface import STAGING_PREFIX

    with open_store(named(store)[0]) as opened:
        found = [b for b in opened.branches() if everything or not b.name.startswith(STAGING_PREFIX)]
    console.show_either(
        found, as_json_text=json, draw=lambda: console.table(["branch", "head"], [(b.name, b.ref) for b in found])
    )


@branch.command("create")
def create_branch(
    store: OneBranch,
    at: Annotated[str, typer.Option("--at", metavar="REF", help="Where it starts: a branch or a ref.")] = "main",
    dry_run: console.DryRunFlag = False,
) -> None:
    """Make a branch."""
    name, new = _branch_of(store)
    with open_store(name, change=not dry_run) as opened:
        ref = opened.resolve(at)
        if dry_run:
            console.note(f"would create {new} at {ref}")
            return
        opened.create_branch(new, at=ref)
    console.say(f"{new} {ref}")


@branch.command("delete")
def delete_branch(store: OneBranch, yes: console.YesFlag = False, dry_run: console.DryRunFlag = False) -> None:
    """Delete a branch; its commits stay until gc if nothing else reaches them."""
    name, old = _branch_of(store)
    with open_store(name, change=not dry_run) as opened:
        found = [b for b in opened.branches() if b.name == old]
        if not found:
            raise NotFound(
                message=f"there is no branch {old!r}",
                hint=f"`headgate branch list {name}` lists them",
                kind="branch",
                name=old,
            )
        if dry_run:
            console.note(f"would delete {old}, which is at {found[0].ref}")
            return
        refuse_running(name, old)
        console.confirm(f"Delete the branch {old} of {name}, at {found[0].ref}?", yes=yes)
        opened.delete_branch(old)
    console.note(f"deleted {old}, which was at {found[0].ref}")


@branch.command("merge")
def merge_branch(
    source: Annotated[str, typer.Argument(metavar="STORE@SOURCE", help="The branch to merge.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The branch that gets it.")] = "main",
    message: Annotated[str, typer.Option("--message", "-m", help="What the commit says.")] = "",
    squash: Annotated[
        bool, typer.Option("--squash", help="One commit with one parent, which forgets where it came from.")
    ] = False,
    resolve: Annotated[
        list[str] | None,
        typer.Option(
            "--resolve",
            metavar="[TYPE=]SIDE",
            help="On a graph: ours or theirs where both cannot be, for all types or for one. May be repeated.",
        ),
    ] = None,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Merge one branch into another, if nobody moves it meanwhile."""
    name, branch_name = _branch_of(source)
    choices = _choices(resolve or [])
    with open_store(name, change=not dry_run) as opened:
        if dry_run:
            planned = opened.plan_merge(branch_name, into, resolve=choices)
            lines = list(_plan_lines(planned, branch_name, into))
            console.show_either(planned, as_json_text=json, draw=lambda: "\n".join(lines))
            if planned.conflicts:
                raise typer.Exit(response_to(MergeConflict).exit_code)
            return
        done = opened.merge(
            branch_name, into, message=message or f"Merge {branch_name} into {into}", squash=squash, resolve=choices
        )
    console.show_either(done, as_json_text=json, draw=lambda: done.ref)


def _choices(given: list[str]) -> dict[str, str]:
    """`ours`, or `Person=theirs`."""
    found = {}
    for text in given:
        type_name, _, side = text.rpartition("=")
        if side not in ("ours", "theirs"):
            raise InvalidInput(message=f"--resolve {text} names no side", hint="write ours, theirs or TYPE=ours")
        found[type_name or "*"] = side
    return found


def _plan_lines(planned: ShownMerge, source: str, into: str) -> Iterator[str]:
    yield f"would merge {source} at {planned.source} into {into} at {planned.ref}: {planned.outcome.replace('_', ' ')}"
    yield from (f"  {change.what}  {change.detail}" for change in planned.changes)
    yield from (f"  {conflict}" for conflict in planned.conflicts)
