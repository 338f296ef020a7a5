"""Tables that have moved past what any branch shows: explained and, on request, brought back.

Such versions are the residue of writers that were never published. They harm nothing, since readers go by the pins,
and the next write to the table restores them away. While a sidecar is pending they may be its writer's work: then
nothing is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import RecoveryRequired
from headgate.graph.manifest.publisher import TableAt
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.aside import look
from headgate.graph.recovery.writers import Writer
from headgate.graph.store import GraphStore
from headgate.graph.upkeep.indices import own_tables
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written, write
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A table whose newest version is not the one its branch shows."""

    branch: str
    type: str
    table: str
    pin: int
    newest: int
    rows: int
    """What the branch shows."""
    newest_rows: int
    reason: str


def find_drift(store: GraphStore) -> list[Drift]:
    """Every table that has moved past its pin, of every branch; nothing is changed."""
    state = store.manifest.state()
    return [drift for branch in state.branches for drift in _of_branch(Base.of(store, state, branch))]


def _of_branch(base: Base) -> list[Drift]:
    found = []
    for name in own_tables(base):
        row, pin = base.tables[name]
        newest = base.store.tables.head_version(row.path, pin.fork)
        if newest == pin.version:
            continue
        gap = newest - pin.version
        told = f"{gap} version{'s' if gap > 1 else ''} of a write that was never published"
        if newest < pin.version:
            told = "versions that the branch shows have been removed: headgate verify tells what is lost"
        found.append(
            Drift(
                branch=base.branch,
                type=name,
                table=row.table,
                pin=pin.version,
                newest=newest,
                rows=pin.rows,
                newest_rows=base.store.tables.open(row.path, newest, pin.fork).rows,
                reason=told,
            )
        )
    return found


def refuse_pending(store: GraphStore) -> None:
    """Raise while a write is unfinished: what lies above the pins may be its own."""
    pending = [found for found in look(store) if found.state != "settled"]
    if pending:
        raise RecoveryRequired(
            message=f"a write is unfinished: the sidecar {pending[0].name} is {pending[0].state}",
            hint="open the graph for writing, which settles it, or set an unreadable one aside first",
        )


def repair(store: GraphStore) -> list[Drift]:
    """Bring every table that has drifted back to what its branch shows, as a commit that changes no content."""
    refuse_pending(store)
    found = find_drift(store)
    for branch in dict.fromkeys(drift.branch for drift in found):
        _restore(store, branch, {drift.type for drift in found if drift.branch == branch})
    return found


def _restore(store: GraphStore, branch: str, types: set[str]) -> Written:
    def prepare(state: ManifestState) -> Prepared | None:
        base = Base.of(store, state, branch)
        drifted = [drift.type for drift in _of_branch(base) if drift.type in types and drift.newest > drift.pin]
        if not drifted:
            return None
        changes = tuple(_back(base, name) for name in drifted)
        return Prepared(changes=changes, schema_order=base.schema_order, insert_only=True, content=False)

    told = f"bring {', '.join(sorted(types))} back to what is published"
    request = WriteRequest(branch=branch, writer=Writer.REPAIR, actor="headgate:repair", message=told)
    return write(store, request, prepare)


def _back(base: Base, name: str) -> TableChange:
    at = base.pinned(name)
    return TableChange(base.table_key(name), base.snapshot(name), None, pin=TableAt(at.version, at.fork))
