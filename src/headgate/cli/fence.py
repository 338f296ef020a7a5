"""The fence of lakeFS repositories: install it, look at it, take it away; repair a target it has left dirty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.cli.graph_input import is_graph
from headgate.errors import InvalidInput, NotFound, Unsupported
from headgate.settings import StoreAddress

if TYPE_CHECKING:
    from headgate.lake.lakefs import LakeFSLake
    from headgate.lake.lakefs.installing import FenceStatus

app = typer.Typer()
fence = typer.Typer(help="Install, show or remove the fence of a lakeFS repository.", no_args_is_help=True)
app.add_typer(fence, name="fence")

Store = Annotated[str, typer.Argument(metavar="STORE[@BRANCH]", help="A store on lakeFS; its branch main if none.")]
AnyStore = Annotated[str, typer.Argument(metavar="STORE[@BRANCH]", help="A branch on lakeFS, or a graph.")]
_MAIN = "main"


@fence.command()
def install(store: Store, json: console.JsonFlag = False) -> None:
    """Bring the fence to a branch that attempts publish to; people then write to it through a branch and a merge."""
    from headgate.lake.lakefs.installing import Installing

    lake, repository, branch = _opened(store)
    with lake:
        made = Installing(lake.api, repository).install(branch)
        strength = lake.strength(repository)
    told = f"installed, as {made}" if made else "was there already"
    soft = "" if strength == "hard" else "; the server runs no hooks, so that the fence stays soft until it does"
    facts = {"repository": repository, "branch": branch, "commit": made, "strength": strength}
    console.show_either(facts, as_json_text=json, draw=lambda: f"{repository}@{branch}: the fence {told}{soft}")


@fence.command()
def status(store: Store, json: console.JsonFlag = False) -> None:
    """Show what is in force, found out by trying a stale merge on branches of its own."""
    from headgate.lake.lakefs.installing import Installing

    lake, repository, _ = _opened(store)
    with lake:
        found = Installing(lake.api, repository).status()
    console.show_either(found, as_json_text=json, draw=lambda: _drawn(found))


@fence.command()
def remove(store: Store, yes: console.YesFlag = False) -> None:
    """Take the fence off a branch: people's merges into it are no longer held back while a head is moved."""
    from headgate.lake.lakefs.installing import Installing

    lake, repository, branch = _opened(store)
    with lake:
        console.confirm(f"Take the fence off {repository}@{branch}?", yes=yes)
        made = Installing(lake.api, repository).remove(branch)
    console.say(f"{repository}@{branch}: the fence is {f'gone, as of {made}' if made else 'not there'}")


@app.command()
def repair(
    store: AnyStore,
    drop: Annotated[bool, typer.Option("--drop", help="On a lakeFS: drop what is uncommitted on the branch.")] = False,
    set_aside: Annotated[
        str | None,
        typer.Option("--set-aside", metavar="SIDECAR", help="On a graph: move a sidecar that cannot be read away."),
    ] = None,
    restore: Annotated[
        bool, typer.Option("--confirm", help="On a graph: bring tables that have drifted back to what is published.")
    ] = False,
    yes: console.YesFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Show what keeps a branch from being published to, and put it away on request.

    On a lakeFS that is what is uncommitted on it. On a graph it is a sidecar that cannot be read; tables
    that have moved past what is published are shown as well.
    """
    if is_graph(store):
        from headgate.cli.graph_repair import repair_graph

        repair_graph(store, aside=set_aside, restore=restore, yes=yes, json=json)
        return
    lake, repository, branch = _opened(store)
    with lake:
        found = list(lake.api.uncommitted(repository, branch))
        rows = [(change.kind, change.path, change.size) for change in found]
        if not drop or not found:
            clean = f"{repository}@{branch} has nothing uncommitted"
            console.show_either(
                found,
                as_json_text=json,
                draw=lambda: console.table(("change", "path", "bytes"), rows) if rows else clean,
            )
            return
        console.confirm(f"Drop {len(found)} uncommitted changes on {repository}@{branch}?", yes=yes)
        lake.api.drop_uncommitted(repository, branch)
    console.show_either(
        found, as_json_text=json, draw=lambda: f"{repository}@{branch}: {len(found)} uncommitted changes are gone"
    )


def _opened(text: str) -> tuple[LakeFSLake, str, str]:
    """The lake, the repository and the branch of `STORE[@BRANCH]`; a repository may be named instead of a store."""
    from headgate.lake.opening import open_lakefs

    address = StoreAddress.parse(text, default_at=_MAIN)
    settings = invocation.current().settings
    assert address.at is not None
    try:
        store = settings.store(address.store)
    except NotFound:
        if not settings.lakefs.endpoint:
            raise
        return open_lakefs(settings), address.store, address.at
    if store.lake == "embedded":
        raise Unsupported(
            message=f"the store {address.store!r} is an embedded lake, whose fence is always there",
            hint="name a store on lakeFS",
        )
    if store.repository is None:
        raise InvalidInput(message=f"the store {address.store!r} is a graph, not a lake", hint="name a store on lakeFS")
    return open_lakefs(settings), store.repository, address.at


def _drawn(found: FenceStatus) -> Any:
    rows: list[tuple[object, ...]] = [("server", found.server, "hard" if found.proved else "soft: it runs no hooks")]
    for target in found.targets:
        gate = (
            f"gate {'shut' if target.gate.shut else 'open'} at {target.gate.epoch}" if target.gate.known else "no gate"
        )
        more = [f"uncommitted: {', '.join(target.dirty)}"] if target.dirty else []
        more += ["protected: its head cannot be moved back"] if target.protected else []
        rows.append(("target", target.branch, "; ".join([f"hook {target.hook}", gate, *more])))
    unfenced = "merges from it are not fenced: it does not carry the hook"
    rows += [("branch", name, unfenced) for name in found.without_hook]
    return console.table(("what", "name", "state"), rows)
