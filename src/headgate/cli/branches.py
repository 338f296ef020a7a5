"""Branches of any store: list, create, delete, merge."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli import console
from headgate.cli.stores import named, open_store
from headgate.errors import InvalidInput, NotFound
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
    dry_run: console.DryRunFlag = False,
) -> None:
    """Merge one branch into another, if nobody moves it meanwhile."""
    name, branch_name = _branch_of(source)
    with open_store(name, change=not dry_run) as opened:
        theirs, ours = opened.resolve(branch_name), opened.resolve(into)
        if dry_run:
            console.note(f"would merge {branch_name} at {theirs} into {into} at {ours}")
            return
        ref = opened.merge(branch_name, into, message=message or f"Merge {branch_name} into {into}", squash=squash)
    console.say(ref)
