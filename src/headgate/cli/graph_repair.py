"""`headgate repair` for a graph: which writes did not end, and sidecars that cannot be read set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.cli import console
from headgate.cli.graph_input import open_graph

if TYPE_CHECKING:
    from headgate.graph.recovery.aside import SidecarState


def repair_graph(store: str, *, aside: str | None, yes: bool, json: bool) -> None:
    from headgate.graph.recovery.aside import look, set_aside

    with open_graph(store, mode="ro") as opened:
        if aside is None:
            found = look(opened.store)
            console.show_either(found, as_json_text=json, draw=lambda: _drawn(store, found))
            return
        console.confirm(
            f"Set {aside} aside? What its write had done is undone by the next write to the branch.", yes=yes
        )
        kept = set_aside(opened.store, aside)
    console.show_either({"sidecar": aside, "kept": kept}, as_json_text=json, draw=lambda: f"{aside} is kept as {kept}")


def _drawn(store: str, found: list[SidecarState]) -> Any:
    if not found:
        return f"{store}: no write is unfinished"
    rows = [(one.name, one.state, f"{one.modified:%Y-%m-%d %H:%M:%S}", _meaning(store, one)) for one in found]
    return console.table(("sidecar", "state", "written", "what to do"), rows)


def _meaning(store: str, one: SidecarState) -> str:
    if one.state == "unreadable":
        return f"{one.reason}; its branch takes no writes: headgate repair {store} --set-aside {one.name}"
    if one.state == "settled":
        return "nothing: the next write deletes it"
    return f"nothing: the next write finishes or undoes this {one.writer} by {one.actor or 'nobody named'}"
