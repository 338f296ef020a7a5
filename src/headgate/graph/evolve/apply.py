"""Change the schema of a branch as one commit: new columns, new tables and the schema become visible together.

The plan is made anew whenever other writers move the tables meanwhile. It is never made on another schema than the
one it was first made on: what somebody else has added since would be dropped by a text that does not know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headgate.errors import InvalidInput, Problem
from headgate.graph.evolve.stored_rows import rejected_rows
from headgate.graph.manifest.publisher import TableAt, schema_mismatch
from headgate.graph.manifest.rows import SchemaRow, TableRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.schema.arrow import arrow_field, arrow_schema
from headgate.graph.schema.change import SchemaPlan, Step, StepKind, TableEdit
from headgate.graph.schema.parse import parse_schema
from headgate.graph.schema.plan import plan_change
from headgate.graph.schema.serial import schema_from_json, schema_to_json
from headgate.graph.schema.values import Rules, coerce
from headgate.graph.storage.columns import ColumnChanges, NewColumn
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written, write
from headgate.graph.write.create import new_table
from headgate.graph.write.evaluate import Rejection
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest

_TOLD = 100
"""Rows that an error lists one by one."""


@dataclass(frozen=True)
class PlannedSchema:
    """What a change would do: its plan, and the stored rows that stand in its way."""

    plan: SchemaPlan
    rejected: tuple[Rejection, ...] = ()

    def check(self) -> None:
        """Raise `InvalidInput` if the change cannot be made."""
        refuse_plan(self.plan)
        refuse_rows(self.rejected)


@dataclass(frozen=True)
class AppliedSchema:
    """What a change did: its commit (the head, if nothing changed) and its steps."""

    commit: str
    changed: bool
    steps: tuple[Step, ...] = ()
    repeated: bool = False
    """An earlier write with the same publish id made the commit."""
    let_go: tuple[tuple[str, str], ...] = ()
    """Tables, and forks of them, whose earlier versions are not to be kept: what a hard drop was made on."""


def plan_schema(
    store: GraphStore, state: ManifestState, branch: str, text: str, *, name: str, allow_data_loss: bool
) -> PlannedSchema:
    """The change from a branch's schema to the one a text declares; nothing is written."""
    base = Base.of(store, state, branch)
    target = parse_schema(text, name=name)
    plan = plan_change(base.schema, target, allow_data_loss=allow_data_loss, next_id=next_id(state))
    return PlannedSchema(plan, () if plan.refusals else tuple(rejected_rows(base, plan)))


def apply_schema(
    store: GraphStore, text: str, *, request: WriteRequest, name: str = "schema", allow_data_loss: bool = False
) -> AppliedSchema:
    """Bring a branch to the schema that a text declares, or raise with every reason why not."""
    change = _Change(store, text, request.branch, name=name, allow_data_loss=allow_data_loss)
    written: Written = write(store, request, change.prepare)
    let_go = change.let_go if written.changed and allow_data_loss else ()
    return AppliedSchema(written.commit, written.changed, change.steps, written.repeated, let_go)


class _Change:
    def __init__(self, store: GraphStore, text: str, branch: str, *, name: str, allow_data_loss: bool) -> None:
        self._store = store
        self._text = text
        self._branch = branch
        self._name = name
        self._allow_data_loss = allow_data_loss
        self._schema_order: int | None = None
        self._created: dict[int, tuple[TableRow, int]] = {}
        self.steps: tuple[Step, ...] = ()
        self.let_go: tuple[tuple[str, str], ...] = ()

    def prepare(self, state: ManifestState) -> Prepared | None:
        base = Base.of(self._store, state, self._branch)
        if self._schema_order not in (None, base.schema_order):
            assert self._schema_order is not None
            raise schema_mismatch(self._branch, expected=self._schema_order, actual=base.schema_order)
        self._schema_order = base.schema_order
        planned = plan_schema(
            self._store, state, self._branch, self._text, name=self._name, allow_data_loss=self._allow_data_loss
        )
        planned.check()
        plan = planned.plan
        self.steps = plan.steps
        dropped = [edit.old.name for edit in plan.edits if edit.dropped] + [table.name for table in plan.dropped]
        # What the branch only inherits is the history of another one.
        own = [pin for row, pin in (base.tables[name] for name in dropped) if pin.branch == self._branch]
        self.let_go = tuple((pin.table, pin.fork) for pin in own)
        if plan.changes_nothing:
            return None
        changes = tuple(self._column_changes(base, plan))
        created = [self._create(table.id, table.name, arrow_schema(table)) for table in plan.added]
        changed = {change.table for change in changes}
        read = [edit.old.name for edit in plan.edits if edit.constraints] + [table.name for table in plan.dropped]
        keys = {base.table_key(name): base.pinned(name) for name in read}
        return Prepared(
            changes=changes,
            reads={key: at for key, at in keys.items() if key not in changed},
            schema_order=base.schema_order,
            insert_only=True,
            new_tables=tuple(row for row, _ in created),
            shown={row.table: TableAt(version) for row, version in created},
            removed=tuple(base.table_key(table.name) for table in plan.dropped),
            schema=SchemaRow(schema=schema_to_json(plan.new), source=self._text),
            ids=(state.next_id, plan.new.next_id),
        )

    def _column_changes(self, base: Base, plan: SchemaPlan) -> Iterator[TableChange]:
        for edit in plan.edits:
            if edit.changes_columns:
                at = base.snapshot(edit.old.name)
                yield base.change(edit.old.name, at, self._store.tables.stage_columns(at, _columns(edit)))

    def _create(self, type_id: int, name: str, columns: object) -> tuple[TableRow, int]:
        """A table in a folder nobody knows yet; made once, however often the plan is made."""
        if type_id not in self._created:
            row = new_table(self._store.ids, type_id=type_id, name=name, branch=self._branch, order=0)
            self._created[type_id] = (row, self._store.tables.create(row.path, columns))
        return self._created[type_id]


def _columns(edit: TableEdit) -> ColumnChanges:
    added = tuple(
        NewColumn(arrow_field(item), None if item.default is None else coerce(Rules.of(edit.new, item), item.default))
        for item in edit.added
    )
    return ColumnChanges(added, dict(edit.renamed), edit.dropped)


def next_id(state: ManifestState) -> int:
    """The first id that no type or property of any branch has had."""
    stored = [schema_from_json(row.schema).next_id for row in state.schemas()]
    return max([state.next_id, *stored])


def refuse_plan(plan: SchemaPlan) -> None:
    if plan.refusals:
        raise InvalidInput(
            message="the schema cannot be changed like this",
            problems=tuple(
                Problem(where=item.where, message=f"{item.reason} ({item.code})", fix=item.fix)
                for item in plan.refusals
            ),
            hint="nothing was changed",
        )


def refuse_rows(rejected: tuple[Rejection, ...]) -> None:
    if rejected:
        more = f", of which {_TOLD} are shown" if len(rejected) > _TOLD else ""
        raise InvalidInput(
            message=f"{len(rejected)} stored rows do not satisfy the new schema{more}",
            problems=tuple(Problem(where=f"{row.type} {row.id}", message=row.message) for row in rejected[:_TOLD]),
            hint="correct the rows first; nothing was changed",
        )


def newly_indexed(steps: Iterable[Step]) -> list[str]:
    """Types whose tables get an index by this change."""
    return list(dict.fromkeys(step.where.partition(".")[0] for step in steps if step.kind is StepKind.ADD_INDEX))
