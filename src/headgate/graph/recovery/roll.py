"""Finish an operation or take it back, so that it is all there or not at all.

Both ways end in one publish that the manifest's compare-and-swap decides. A roll back first restores every table the
operation names, moved or not: the restore is a barrier that a writer still alive cannot pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from headgate.errors import Contention
from headgate.graph.manifest.publisher import Publication, Published, TableAt, publish
from headgate.graph.manifest.rows import Audit
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.classify import Movement
from headgate.graph.recovery.sidecar import PlannedTable, Sidecar
from headgate.graph.storage import CommitRefused, CommitUnknown, ForkHalfMade
from headgate.graph.store import GraphStore

ACTOR = "headgate:recovery"
_RESTORES = 20


def restore_tables(store: GraphStore, sidecar: Sidecar, state: ManifestState) -> dict[str, TableAt]:
    """Bring every table the operation names back to its pin; the versions that show the pins' content now."""
    pins = state.pins(sidecar.branch)
    restored = {}
    for planned in sidecar.tables:
        pin = pins.get(planned.table)
        if pin is not None and pin.fork != planned.fork:
            continue  # another branch of this name, made since, shows the table: not ours to touch
        at = TableAt(pin.version, pin.fork, pin.rows) if pin else TableAt(planned.expected, planned.fork)
        if planned.new_fork and planned.origin is None:
            restored[planned.table] = _fork_restored(store, planned, at)
        else:
            restored[planned.table] = replace(at, version=restore_to(store, planned.path, at))
    return restored


def _fork_restored(store: GraphStore, planned: PlannedTable, at: TableAt) -> TableAt:
    """The operation's own fork, showing what it was to be made from.

    The table it was to be made from belongs to another branch and is left alone; that the pin moves to the fork is
    what a writer still alive cannot pass. The fork is named by the sidecar, so that cleanup leaves it.
    """
    source = store.tables.open(planned.path, at.version, at.fork)
    for name in fork_names(planned.new_fork):
        try:
            made = store.tables.fork(source, name)
        except ForkHalfMade:
            continue
        return TableAt(restore_to(store, planned.path, TableAt(made.version, name)), name, at.rows)
    raise Contention(message=f"table {planned.path} could not be forked", tries=_RESTORES)


def fork_names(name: str) -> Iterator[str]:
    """The names that belong to a fork named in a sidecar: those after the first are for makers that died half way."""
    yield name
    for number in range(2, _RESTORES):
        yield f"{name}-{number}"


def undo_tables(store: GraphStore, sidecar: Sidecar, state: ManifestState) -> None:
    """Bring back what a lost write has moved. Its forks are nobody's: cleanup removes them."""
    moved = [planned for planned in sidecar.tables if not planned.new_fork]
    restore_tables(store, replace(sidecar, tables=tuple(moved)), state)


def restore_to(store: GraphStore, path: str, at: TableAt) -> int:
    """Restore until an answer arrives: a restore that landed twice shows the same content."""
    snapshot = store.tables.open(path, at.version, at.fork)
    for _ in range(_RESTORES):
        try:
            return store.tables.restore(snapshot)
        except (CommitRefused, CommitUnknown):
            continue
    raise Contention(message=f"table {path} could not be restored to version {at.version}", tries=_RESTORES)


def publish_roll_back(
    store: GraphStore,
    sidecar: Sidecar,
    restored: Mapping[str, TableAt],
    *,
    kind: str,
    movements: Mapping[str, Movement],
    by_recovery: bool,
) -> Published:
    """Publish the restored pins, with a commit and an audit row; the operation's own commit, if that is there.

    Recovery expects the operation's base to be the head still; a writer that gives up expects what it expected
    for its publish.
    """
    commit = store.ids.new()
    back = Publication(
        branch=sidecar.branch,
        commit=commit,
        base=sidecar.base,
        incarnation=sidecar.incarnation,
        writer="recovery",
        actor=ACTOR if by_recovery else sidecar.actor,
        message=f"roll back {sidecar.writer} {sidecar.operation}",
        metadata=_for_whom(sidecar, kind),
        content=False,
        expected={} if by_recovery else sidecar.expected,
        if_head=True if by_recovery else sidecar.if_head,
        unless=sidecar.operation,
        pins=restored,
        audit=_audit(sidecar, commit, kind, restored, movements),
    )
    return publish(store.manifest, back, clock=store.clock)


def publish_roll_forward(store: GraphStore, sidecar: Sidecar, movements: Mapping[str, Movement]) -> Published:
    """The same publish the writer would have made, with the same commit id, by recovery, plus the audit row."""
    landed = {planned.table: planned.planned for planned in sidecar.tables}
    pins = {planned.table: TableAt(planned.planned, planned.lands_on) for planned in sidecar.tables}
    forward = sidecar.publication(landed)
    audit = _audit(sidecar, sidecar.operation, "roll_forward", pins, movements)
    told = {**forward.metadata, **_for_whom(sidecar, "roll_forward")}
    # A head that moved has settled the matter, also where no pin tells: the writer may have given up meanwhile.
    by_recovery = replace(forward, actor=ACTOR, metadata=told, audit=audit, if_head=True)
    return publish(store.manifest, by_recovery, clock=store.clock)


def _for_whom(sidecar: Sidecar, kind: str) -> dict[str, str]:
    """What the commit of a recovery says besides its actor."""
    return {"recovery_kind": kind, "recovery_for_actor": sidecar.actor, "operation_id": sidecar.operation}


def _audit(
    sidecar: Sidecar, commit: str, kind: str, now: Mapping[str, TableAt], movements: Mapping[str, Movement]
) -> Audit:
    return Audit(
        operation_id=sidecar.operation,
        recovery_kind=kind,
        recovery_for_actor=sidecar.actor,
        graph_commit_id=commit,
        tables=tuple(
            {
                "table": planned.table,
                "from": planned.expected,
                "to": now[planned.table].version if planned.table in now else planned.expected,
                "outcome": str(movements.get(planned.table, Movement.NO_MOVEMENT)),
            }
            for planned in sidecar.tables
        ),
    )
