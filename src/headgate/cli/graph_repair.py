"""`headgate repair` for a graph: which writes did not end, and sidecars that cannot be read set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.cli import console
from headgate.cli.graph_input import open_graph

if TYPE_CHECKING:
    from headgate.graph.recovery.aside import SidecarState
    from headgate.graph.upkeep.repair import Drift


def repair_graph(store: str, *, aside: str | None, restore: bool, yes: bool, json: bool) -> None:
    from headgate.graph.recovery.aside import look, set_aside

    if restore:
        _restore(store, yes=yes, json=json)
        return
    with open_graph(store, mode="ro") as opened:
        if aside is None:
            found = look(opened.store)
            drift = opened.drift()
            console.show_either(
                {"sidecars": found, "drift": drift}, as_json_text=json, draw=lambda: _drawn(store, found, drift)
            )
            return
        console.confirm(
            f"Set {aside} aside? What its write had done is undone by the next write to the branch.", yes=yes
        )
        kept = set_aside(opened.store, aside)
    console.show_either({"sidecar": aside, "kept": kept}, as_json_text=json, draw=lambda: f"{aside} is kept as {kept}")


def _restore(store: str, *, yes: bool, json: bool) -> None:
    from headgate.graph.upkeep.repair import refuse_pending

    # Looked at before it is opened for writing, which would settle what can be settled.
    with open_graph(store, mode="ro") as opened:
        refuse_pending(opened.store)
        drift = opened.drift()
    if drift:
        console.confirm(f"Bring {', '.join(f'{d.branch}:{d.type}' for d in drift)} back to what is published?", yes=yes)
        with open_graph(store, mode="rw") as opened:
            drift = opened.repair()
    told = "\n".join(f"{d.branch}:{d.type} is back at what version {d.pin} shows" for d in drift)
    console.show_either({"repaired": drift}, as_json_text=json, draw=lambda: told or f"{store}: nothing has drifted")


def _drawn(store: str, found: list[SidecarState], drift: list[Drift]) -> Any:
    if not found:
        lines = [f"{store}: no write is unfinished"]
        lines += [
            f"{one.branch}:{one.type} shows version {one.pin} with {one.rows:,} rows, and the table is at version "
            f"{one.newest} with {one.newest_rows:,}: {one.reason}"
            for one in drift
        ]
        if drift:
            lines.append(f"harmless, and undone by the next write: headgate repair {store} --confirm does it now")
        return "\n".join(lines)
    rows = [(one.name, one.state, f"{one.modified:%Y-%m-%d %H:%M:%S}", _meaning(store, one)) for one in found]
    return console.table(("sidecar", "state", "written", "what to do"), rows)


def _meaning(store: str, one: SidecarState) -> str:
    if one.state == "unreadable":
        return f"{one.reason}; its branch takes no writes: headgate repair {store} --set-aside {one.name}"
    if one.state == "settled":
        return "nothing: the next write deletes it"
    return f"nothing: the next write finishes or undoes this {one.writer} by {one.actor or 'nobody named'}"
