"""Merge a branch into another as one commit, or say everything that stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from headgate.errors import InvalidInput, MergeConflict
from headgate.graph.changes.between import TableCounts
from headgate.graph.manifest.publisher import TableAt
from headgate.graph.manifest.rows import SchemaRow, TableRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.merge.conflicts import Choices, RowConflict
from headgate.graph.merge.plan import MergeOutcome, MergePlan, make_plan
from headgate.graph.merge.rows import TableMerge, kept_rows, taken_rows
from headgate.graph.recovery.writers import Writer
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.serial import schema_to_json
from headgate.graph.schema.text import schema_text
from headgate.graph.storage import Part
from headgate.graph.store import GraphStore
from headgate.graph.write.commit import write
from headgate.graph.write.create import new_table
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest

_PART_ROWS = 1 << 17
_TOLD = 1000
"""Conflicts that an error carries one by one."""


@dataclass(frozen=True, kw_only=True)
class MergeRequest:
    """Which branch (or commit) comes into which, and what is done where both cannot be right."""

    source: str
    into: str = "main"
    resolve: Mapping[str, str] | str | None = None
    """`ours` or `theirs`, for all types or by type."""
    actor: str = ""
    message: str = ""
    publish_id: str = ""
    if_commit: str = ""


@dataclass(frozen=True)
class Merged:
    """What a merge did, or would do: its commit (the head, if there was nothing to merge) and the rows it touched."""

    commit: str
    outcome: MergeOutcome
    source: str
    bases: tuple[str, ...] = ()
    tables: dict[str, TableCounts] = field(default_factory=dict)
    conflicts: tuple[RowConflict, ...] = ()
    repeated: bool = False


def plan_merge(store: GraphStore, request: MergeRequest) -> Merged:
    """What a merge would do to the present head, conflicts included; nothing is written."""
    state = store.manifest.state()
    plan = make_plan(store, state, request.into, _source(store, state, request), Choices(request.resolve))
    return _told(plan, plan.ours.commit)


def merge_branch(store: GraphStore, request: MergeRequest) -> Merged:
    """Bring everything that is in `source` into a branch, as one commit with two parents."""
    choices = Choices(request.resolve)
    source = _source(store, store.manifest.state(), request)
    plan: MergePlan | None = None

    def prepare(state: ManifestState) -> Prepared | None:
        nonlocal plan
        plan = make_plan(store, state, request.into, source, choices)
        refuse(plan, request)
        return None if plan.outcome is MergeOutcome.UP_TO_DATE else _prepared(store, plan)

    written = write(
        store,
        WriteRequest(
            branch=request.into,
            writer=Writer.MERGE,
            actor=request.actor,
            message=request.message or f"Merge {request.source} into {request.into}",
            publish_id=request.publish_id,
            if_commit=request.if_commit,
        ),
        prepare,
    )
    if plan is None:
        return Merged(written.commit, MergeOutcome.UP_TO_DATE, source, repeated=written.repeated)
    return _told(plan, written.commit, repeated=written.repeated)


def refuse(plan: MergePlan, request: MergeRequest) -> None:
    if plan.conflicts:
        count = len(plan.conflicts)
        raise MergeConflict(
            message=f"{request.source} and {request.into} are in conflict in {count} place{'s' if count > 1 else ''}",
            conflicts=plan.conflicts[:_TOLD],
            hint="choose a side with resolve, for all types or by type, or change one of the branches",
        )


def _source(store: GraphStore, state: ManifestState, request: MergeRequest) -> str:
    """The commit that is merged: it is chosen once, however long the merge takes."""
    if request.source == request.into:
        raise InvalidInput(message=f"branch {request.into} cannot be merged into itself", hint="name another branch")
    state.head(request.into)
    head = state.find_head(request.source)
    if head is not None and not head.closed:
        return head.commit
    if len(request.source) != len(state.head(request.into).commit):
        state.head(request.source)  # a name, and no branch has it
    return request.source


def _told(plan: MergePlan, commit: str, *, repeated: bool = False) -> Merged:
    tables = {name: TableCounts(*merge.counts) for name, merge in plan.merges.items() if merge.changes}
    return Merged(commit, plan.outcome, plan.theirs.commit, plan.bases, tables, plan.conflicts, repeated)


def _prepared(store: GraphStore, plan: MergePlan) -> Prepared:
    ours = plan.ours
    names = {row.type_id: name for name, (row, _) in ours.tables.items()}
    changes: list[TableChange] = []
    made: list[tuple[TableRow, TableAt]] = []
    removed = [ours.table_key(name) for name in plan.dropped]
    for merge in plan.merges.values():
        name = names[merge.sides.type.id]
        if merge.sides.rewritten:
            made.append(_written_anew(store, plan, merge))
            removed.append(ours.table_key(name))
        elif merge.changes:
            changes.append(_change(store, plan, name, merge))
    adopted = {name: ours_name for name in plan.adopted if (ours_name := names.get(_type_id(plan, name)))}
    shown = {**plan.shown(), **{row.table: at for row, at in made}}
    removed += [ours.table_key(name) for name in adopted.values() if ours.table_key(name) not in shown]
    read = set(ours.tables) if plan.evaluation is None else {names[_type_id(plan, n)] for n in _read(plan, names)}
    read |= {names[merge.sides.type.id] for merge in plan.merges.values() if merge.sides.rewritten}
    read |= {*plan.dropped, *adopted.values()}
    changed = {change.table for change in changes}
    schema = None
    if plan.schema != ours.schema:
        schema = SchemaRow(schema=schema_to_json(plan.schema), source=schema_text(plan.schema))
    return Prepared(
        changes=tuple(changes),
        reads={key: ours.pinned(name) for name in sorted(read) if (key := ours.table_key(name)) not in changed},
        schema_order=ours.schema_order,
        # All of it is worked out anew on whatever the branch shows then.
        insert_only=True,
        content=bool(changes or shown or removed or schema),
        new_tables=tuple(row for row, _ in made),
        shown=shown,
        removed=tuple(removed),
        schema=schema,
        merged_parent=plan.theirs.commit,
    )


def _type_id(plan: MergePlan, name: str) -> int:
    table = plan.schema.find(name)
    assert table is not None
    return table.id


def _read(plan: MergePlan, names: Mapping[int, str]) -> set[str]:
    """Types that validation read and that ours has, by their names in the result."""
    assert plan.evaluation is not None
    return {name for name in plan.evaluation.reads if _type_id(plan, name) in names}


def _change(store: GraphStore, plan: MergePlan, name: str, merge: TableMerge) -> TableChange:
    at = merge.sides.ours.at
    parts: list[Part] = []
    if len(merge.taken) > _PART_ROWS:
        parts = [store.tables.write_part(at, rows) for rows in _taken(store, merge)]
        rows = _made(merge)
    else:
        rows = pa.concat_tables([*_taken(store, merge), _made(merge)])
    staged = store.tables.stage(at, add=rows, parts=parts, remove=merge.stored.values())
    return plan.ours.change(name, at, staged)


def _written_anew(store: GraphStore, plan: MergePlan, merge: TableMerge) -> tuple[TableRow, TableAt]:
    """A table in a folder of its own with all the rows of the result."""
    table = merge.sides.type
    row = new_table(store.ids, type_id=table.id, name=table.name, branch=plan.ours.branch, order=0)

    def rows() -> Iterator[pa.Table]:
        yield from kept_rows(merge)
        yield from _taken(store, merge)
        yield _made(merge)

    version = store.tables.create(row.path, arrow_schema(table), rows())
    return row, TableAt(version, rows=store.tables.open(row.path, version).rows)


def _taken(store: GraphStore, merge: TableMerge) -> Iterator[pa.Table]:
    schema = arrow_schema(merge.sides.type)
    for start in range(0, len(merge.taken), _PART_ROWS):
        addresses = merge.taken.at[start : start + _PART_ROWS]
        yield taken_rows(store.objects, merge, addresses, schema.names).cast(schema)


def _made(merge: TableMerge) -> pa.Table:
    return pa.Table.from_pylist(list(merge.made.values()), schema=arrow_schema(merge.sides.type))
