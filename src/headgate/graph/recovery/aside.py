"""Sidecars as people see them, and those that cannot be read set aside on request.

A sidecar that can be read is settled by whoever opens the graph or writes next. One that cannot stops the writes of its
branch: nobody can tell what it stands for. Setting it aside keeps it for inspection and lets the branch go on. What its
writer left above the pins is residue for the next one; the writer itself, if it lives, is decided by the manifest's
compare-and-swap.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headgate.errors import NotFound, RecoveryRequired, Unsupported
from headgate.graph.recovery.heal import is_settled
from headgate.graph.recovery.sidecar import FOLDER, Sidecar
from headgate.graph.store import GraphStore

ASIDE = "__aside"


@dataclass(frozen=True, kw_only=True)
class SidecarState:
    """One sidecar: whose it is and what becomes of it, or why it cannot be read."""

    name: str
    modified: datetime
    state: str
    """`pending`, `settled` or `unreadable`."""
    writer: str = ""
    actor: str = ""
    operation: str = ""
    reason: str = ""


def look(store: GraphStore) -> list[SidecarState]:
    """Every sidecar of the graph, with nothing changed."""
    manifest = store.manifest.state()
    found = []
    for stored in store.objects.list(FOLDER):
        data = store.objects.get(stored.name)
        if data is None:
            continue
        try:
            sidecar = Sidecar.from_json(stored.name, data)
        except RecoveryRequired as error:
            unreadable = SidecarState(
                name=stored.name, modified=stored.modified, state="unreadable", reason=error.message
            )
            found.append(unreadable)
            continue
        found.append(
            SidecarState(
                name=stored.name,
                modified=stored.modified,
                state="settled" if is_settled(store, manifest, sidecar) else "pending",
                writer=sidecar.writer,
                actor=sidecar.actor,
                operation=sidecar.operation,
            )
        )
    return found


def set_aside(store: GraphStore, name: str) -> str:
    """Move a sidecar that cannot be read out of the way; where it is kept."""
    found = next((sidecar for sidecar in look(store) if sidecar.name == name), None)
    if found is None:
        raise NotFound(
            message=f"there is no sidecar {name}", kind="sidecar", name=name, hint="headgate repair STORE lists them"
        )
    if found.state != "unreadable":
        raise Unsupported(
            message=f"the sidecar {name} can be read, and says how its write is to be finished or undone",
            hint="open the graph for writing, or write to it: that settles it",
        )
    data = store.objects.get(name)
    kept = f"{ASIDE}/{name.removeprefix(FOLDER + '/')}.{store.ids.new()}"
    if data is not None:
        store.objects.put_if_absent(kept, data)
    store.objects.delete(name)
    return kept
