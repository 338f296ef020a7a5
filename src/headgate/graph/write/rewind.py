"""Show again what a branch showed at an earlier commit, as a new commit: nothing of its history is lost."""

from __future__ import annotations

from headgate.errors import InvalidInput
from headgate.graph.manifest.rows import SchemaRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import ancestors, commit_at, state_at
from headgate.graph.schema.serial import schema_to_json
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written, write
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest
from headgate.graph.write.task import base_at, on_pin


def rewind_branch(store: GraphStore, request: WriteRequest, to: str) -> Written:
    """Bring a branch back to a commit of its own history; refused if it is at it."""

    def prepare(state: ManifestState) -> Prepared | None:
        return plan_rewind(store, state, request.branch, to)

    return write(store, request, prepare)


def plan_rewind(store: GraphStore, state: ManifestState, branch: str, to: str) -> Prepared | None:
    """What brings a branch back; None if it shows the very same already."""
    commit_at(store.manifest, state, to)
    head = state.head(branch).commit
    if to == head:
        raise InvalidInput(message=f"branch {branch} is at {to} already", hint="there is nothing to bring back")
    if all(commit.id != to for commit in ancestors(store.manifest, state, head)):
        raise InvalidInput(
            message=f"{to} is not in the history of branch {branch}",
            hint="a branch is only brought back to its own past; to bring in other work, merge it",
        )
    there, back = Base.of(store, state, branch), base_at(store, state, to)
    now = {row.table: name for name, (row, _) in there.tables.items()}
    then = {row.table: name for name, (row, _) in back.tables.items()}
    changes = []
    for table in now.keys() & then.keys():
        pin = there.pinned(now[table])
        at = back.pinned(then[table])
        if (pin.version, pin.fork) != (at.version, at.fork):
            changes.append(on_pin(there, TableChange(table, back.snapshot(then[table]), None), pin))
    shown = {table: back.pinned(name) for table, name in then.items() if table not in now}
    removed = tuple(table for table in now if table not in then)
    schema = _schema(store, state, there, back, to)
    if not changes and not shown and not removed and schema is None:
        return None
    changed = {change.table for change in changes}
    return Prepared(
        changes=tuple(sorted(changes, key=lambda change: change.table)),
        reads={table: there.pinned(name) for table, name in now.items() if table not in changed},
        schema_order=there.schema_order,
        insert_only=True,
        shown=shown,
        removed=removed,
        schema=schema,
    )


def _schema(store: GraphStore, state: ManifestState, there: Base, back: Base, to: str) -> SchemaRow | None:
    if there.schema == back.schema:
        return None
    commit = commit_at(store.manifest, state, to)
    stored = state_at(store.manifest, state, commit).schema(commit.branch, commit.order)
    return SchemaRow(schema=schema_to_json(back.schema), source=stored.source)
