"""Find the sidecars that a branch is better off without, and settle them.

A sidecar is settled if its commit is in the lineage or its base is no longer the head: then it is only deleted. Else
it is somebody's at work, unless that process is known to be gone or the store's clock says it has been long enough.
A wrong guess costs a slow writer a Conflict, never data.
"""

from __future__ import annotations

from headgate.errors import Conflict, Contention, OutcomeUnknown, StoreDamaged
from headgate.graph.manifest.publisher import check_expectations, in_lineage
from headgate.graph.manifest.rows import Pin
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery import classify
from headgate.graph.recovery.classify import Movement, Observed, Resolution, movement_of, resolve
from headgate.graph.recovery.owner import is_gone
from headgate.graph.recovery.roll import publish_roll_back, publish_roll_forward, restore_tables
from headgate.graph.recovery.sidecar import FoundSidecar, PlannedTable, Sidecar
from headgate.graph.store import GraphStore

_ROUNDS = 20


def heal(store: GraphStore, branch: str | None = None) -> int:
    """Settle what can be settled, of one branch or of all; how many sidecars are left to writers at work."""
    left = 0
    for found in store.sidecars.find(branch):
        if not settle(store, found):
            left += 1
    return left


def settle(store: GraphStore, found: FoundSidecar) -> bool:
    """Settle one sidecar; False if its writer may be at work."""
    sidecar = found.sidecar
    if not is_settled(store, store.manifest.state(), sidecar):
        if not _may_act(store, found):
            return False
        recover(store, sidecar)
    store.sidecars.delete(sidecar)
    return True


def is_settled(store: GraphStore, state: ManifestState, sidecar: Sidecar) -> bool:
    """Whether there is nothing left to decide about an operation."""
    head = state.find_head(sidecar.branch)
    base_is_head = head is not None and head.mark == sidecar.base
    made = base_is_head and in_lineage(
        store.manifest, state, sidecar.operation, branch=sidecar.branch, since=sidecar.base
    )
    return classify.is_settled(published=bool(made), base_is_head=base_is_head)


def recover(store: GraphStore, sidecar: Sidecar) -> None:
    """Roll an operation forward or back, whatever its writer does meanwhile."""
    for _ in range(_ROUNDS):
        state = store.manifest.state()
        if is_settled(store, state, sidecar):
            return
        movements = _movements(store, state, sidecar)
        chosen = resolve(
            list(movements.values()), conditions_hold=_conditions_hold(state, sidecar), only_back=sidecar.only_back
        )
        if chosen is Resolution.ABORT:
            raise _violation(sidecar, movements)
        try:
            if chosen is Resolution.ROLL_FORWARD:
                publish_roll_forward(store, sidecar, movements)
            else:
                restored = restore_tables(store, sidecar, state)
                publish_roll_back(store, sidecar, restored, kind="roll_back", movements=movements, by_recovery=True)
        except (Conflict, OutcomeUnknown):
            # Somebody else was first, or it cannot be told: the next round looks what is there.
            continue
        return
    raise Contention(
        message=f"the unfinished write {sidecar.operation} on branch {sidecar.branch} could not be settled",
        tries=_ROUNDS,
        hint="try again later",
    )


def _movements(store: GraphStore, state: ManifestState, sidecar: Sidecar) -> dict[str, Movement]:
    pins = state.pins(sidecar.branch)
    out = {}
    for planned in sidecar.tables:
        out[planned.table] = movement_of(_observed(store, planned, pins.get(planned.table)))
    return out


def _observed(store: GraphStore, planned: PlannedTable, pin: Pin | None) -> Observed:
    if planned.new_fork:
        before = planned.planned - 1
        newest = store.tables.find_head_version(planned.path, planned.new_fork) or before
        expected = pinned = before
    else:
        expected, pinned = planned.expected, pin.version if pin else planned.expected
        newest = store.tables.head_version(planned.path, planned.fork)
    ours = newest == pinned + 1 and store.tables.is_made_by(planned.path, newest, planned.lands_on, planned.uuid)
    return Observed(expected=expected, pin=pinned, newest=newest, ours=ours)


def _conditions_hold(state: ManifestState, sidecar: Sidecar) -> bool:
    try:
        check_expectations(state, sidecar.publication({at.table: at.planned for at in sidecar.tables}))
    except Conflict:
        return False
    return True


def _may_act(store: GraphStore, found: FoundSidecar) -> bool:
    if is_gone(found.sidecar.owner, found.sidecar.operation):
        return True
    if store.clock.now() - found.modified < store.patience.sidecar_age / 2:
        return False  # fresh by any clock: not worth asking the store for its own
    return store.sidecars.now() - found.modified > store.patience.sidecar_age


def _violation(sidecar: Sidecar, movements: dict[str, Movement]) -> StoreDamaged:
    damaged = tuple(name for name, seen in movements.items() if seen is Movement.INVARIANT_VIOLATION)
    return StoreDamaged(
        message=f"tables are older than branch {sidecar.branch} shows; the sidecar {sidecar.name} is kept",
        damaged=damaged,
        hint="bring back the removed versions, then open the graph again",
    )
