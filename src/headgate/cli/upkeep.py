"""Upkeep: reclaim what dead workers left, and move a head back."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli import console, invocation

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
    """Move a branch's head back to an earlier ref."""
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
