"""From a write's changes to staged transactions: evaluate the delta, then one transaction per touched table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.errors import InvalidInput, KeyConflict, Problem
from headgate.graph.storage import Part, Staged
from headgate.graph.storage.lookup import ADDRESS
from headgate.graph.write.base import Base
from headgate.graph.write.evaluate import Delta, Evaluation, Rejection, evaluate
from headgate.graph.write.pending import Pending
from headgate.graph.write.prepared import Prepared

_TOLD = 100
"""Rejected rows that an error lists one by one."""


def prepare_pending(base: Base, pending: Pending, *, insert_only: bool) -> Prepared | None:
    """Check and stage what is pending; None if nothing would change."""
    tables = pending.tables()
    if not tables:
        return None
    deltas = {name: table.delta() for name, table in tables.items()}
    evaluation = evaluate(base.schema, deltas, base.snapshot)
    refuse(evaluation.rejected)
    staged: dict[str, Staged] = {}
    for name, table in tables.items():
        if table.image:
            if table.added.num_rows or table.at.rows:
                staged[name] = base.store.tables.stage_overwrite(table.at, add=table.added)
            continue
        gone = evaluation.replaced[name][ADDRESS].to_pylist()
        if table.added.num_rows or gone:
            staged[name] = base.store.tables.stage(table.at, add=table.added, remove=gone)
    return prepared(base, deltas, evaluation, staged, insert_only=insert_only)


def check_pending(base: Base, pending: Pending) -> None:
    """Raise what `prepare_pending` would raise, with nothing written."""
    deltas = {name: table.delta() for name, table in pending.tables().items()}
    refuse(evaluate(base.schema, deltas, base.snapshot).rejected)


def prepared(
    base: Base,
    deltas: Mapping[str, Delta],
    evaluation: Evaluation,
    staged: Mapping[str, Staged],
    *,
    insert_only: bool,
) -> Prepared | None:
    if not staged:
        return None
    read = evaluation.reads | (deltas.keys() - staged.keys())
    return Prepared(
        changes=tuple(base.change(name, deltas[name].at, change) for name, change in staged.items()),
        reads={base.table_key(name): base.pinned(name) for name in sorted(read)},
        schema_order=base.schema_order,
        insert_only=insert_only,
    )


def stage_parts(base: Base, delta: Delta, evaluation: Evaluation, parts: Sequence[Part]) -> Staged | None:
    """The transaction of a table whose rows have been written already."""
    if delta.image:
        if parts or delta.at.rows:
            return base.store.tables.stage_overwrite(delta.at, parts=parts)
        return None
    gone = evaluation.replaced[delta.table.name][ADDRESS].to_pylist()
    return base.store.tables.stage(delta.at, parts=parts, remove=gone) if parts or gone else None


def refuse(rejected: Sequence[Rejection]) -> None:
    """Raise for a write with rejected rows: all of them are told, up to a limit."""
    if not rejected:
        return
    taken = [found for found in rejected if found.code == "duplicate_key"]
    if len(taken) == len(rejected) == 1:
        raise KeyConflict(
            message=taken[0].message, table=taken[0].type, key=taken[0].id, hint="update it, or merge instead"
        )
    problems = tuple(Problem(where=f"{found.type} {found.id}", message=found.message) for found in rejected[:_TOLD])
    more = f", of which {_TOLD} are shown" if len(rejected) > _TOLD else ""
    raise InvalidInput(
        message=f"{len(rejected)} rows break the schema's rules{more}",
        problems=problems,
        hint="correct them; nothing was written",
    )
