"""Upkeep: reclaim what dead workers left, and move a head back."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli import console, invocation
from headgate.cli.stores import is_graph

app = typer.Typer()


@app.command()
def gc(dry_run: console.DryRunFlag = False, json: console.JsonFlag = False) -> None:
    """Reclaim workspaces and staging branches whose attempts are over."""
    from headgate.orchestrators.machine import Machine

    with Machine(invocation.current().settings) as machine:
        found = machine.collect_garbage(dry_run=dry_run)

    def told() -> str:
        verb = "would remove" if dry_run else "removed"
        lines = [f"{verb} {item.kind} {item.name}: {item.reason}" for item in found.removed]
        lines += [f"left {item.kind} {item.name}: {item.reason}" for item in found.left]
        lines += [f"could not deal with {item.kind} {item.name}: {item.reason}" for item in found.failed]
        return "\n".join(lines) or "nothing to reclaim"

    console.show_either(found, as_json_text=json, draw=told)
    if found.failed:
        raise typer.Exit(1)


@app.command()
def rewind(
    address: Annotated[str, typer.Argument(metavar="STORE@BRANCH", help="The branch whose head is moved back.")],
    to: Annotated[str, typer.Option(metavar="REF", help="The ref to go back to, from the branch's own history.")],
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the record.")],
    dry_run: console.DryRunFlag = False,
    yes: console.YesFlag = False,
) -> None:
    """Move a branch's head back to an earlier ref.

    On a graph what was shown then is shown again by a new commit, and nothing of the history is lost.
    """
    from headgate.attempts.rewind import plan_rewind
    from headgate.attempts.rewind import rewind as move_back
    from headgate.clock import SYSTEM_CLOCK
    from headgate.errors import InvalidInput
    from headgate.ids import ULIDS
    from headgate.orchestrators.machine import Machine
    from headgate.settings import StoreAddress

    parsed = StoreAddress.parse(address)
    if parsed.at is None:
        raise InvalidInput(message=f"{address!r} names no branch", hint="write STORE@BRANCH, such as songs@main")
    if is_graph(parsed.store):
        _rewind_graph(parsed.store, parsed.at, to, why, dry_run=dry_run, yes=yes)
        return
    with Machine(invocation.current().settings) as machine:
        store = machine.lakes.store(parsed.store)
        head, target = plan_rewind(
            store.lake,
            repository=store.repository,
            branch=parsed.at,
            to=to,
            running=machine.running_tasks(),
        )
        if dry_run:
            console.say(f"would move {address} from {head} to {target}")
            return
        console.confirm(f"Move {address} from {head[:12]} back to {target[:12]}?", yes=yes)
        record = move_back(
            store.lake,
            machine.records,
            repository=store.repository,
            branch=parsed.at,
            head=head,
            to=target,
            why=why,
            clock=SYSTEM_CLOCK,
            ids=ULIDS,
        )
        console.say(f"moved {address} from {record.from_ref} to {record.to_ref}, by {record.who}: {record.why}")


def _rewind_graph(store: str, branch: str, to: str, why: str, *, dry_run: bool, yes: bool) -> None:
    import getpass

    from headgate.cli.graph_input import open_graph
    from headgate.cli.graph_store import GraphVersions
    from headgate.cli.stores import refuse_running

    with open_graph(store, mode="ro" if dry_run else "rw") as graph:
        head = graph.head(branch).id
        target = GraphVersions(graph).resolve(to)
        graph.plan_rewind(target, branch=branch)
        if dry_run:
            console.say(f"would bring {store}@{branch} from {head} back to {target}")
            return
        refuse_running(store, branch)
        console.confirm(f"Bring {store}@{branch} from {head} back to {target}?", yes=yes)
        who = getpass.getuser()
        done = graph.rewind(target, branch=branch, actor=who, message=f"Rewind to {target}: {why}", if_commit=head)
        console.say(f"brought {store}@{branch} from {head} back to {target} with {done.commit}, by {who}: {why}")
