"""From one schema to another: the steps of the change, or why it cannot be made. Pure; looks at no data.

Types and properties are the same if they have the same name, or if the new one says which it was renamed from. A
stale `@rename_from`, of a change that has been made, is no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from headgate.graph.schema.change import (
    Refusal,
    RefusalCode,
    SchemaPlan,
    Step,
    StepKind,
    TableEdit,
    told_constraint,
)
from headgate.graph.schema.model import (
    Annotations,
    Check,
    Constraint,
    EdgeType,
    Index,
    Key,
    Kind,
    NodeType,
    Property,
    Range,
    Schema,
    TableType,
    Unique,
    with_ids,
)

_T = TypeVar("_T", NodeType, EdgeType)


def plan_change(old: Schema, new: Schema, *, allow_data_loss: bool = False, next_id: int = 0) -> SchemaPlan:
    """The plan from a stored schema to a parsed one. Ids from `next_id` on are given to what is new."""
    refusals = [*_rename_refusals(old, new), *_use_refusals(new)]
    if refusals:
        return SchemaPlan(old, new, refusals=tuple(refusals))
    numbered = with_ids(new, replace(old, next_id=max(old.next_id, next_id)))
    planner = _Planner(old, numbered, hard=allow_data_loss)
    return planner.plan()


def _rename_refusals(old: Schema, new: Schema) -> Iterator[Refusal]:
    yield from _ambiguous(_renames(old.tables()), _renames(new.tables()), "")
    for table in new.tables():
        before = old.find(table.name) or old.find(table.annotations.rename_from or "")
        if before is None:
            continue
        if type(before) is not type(table):
            kinds = ("an edge", "a node") if isinstance(before, EdgeType) else ("a node", "an edge")
            yield Refusal(
                RefusalCode.KIND_CHANGED,
                table.name,
                f"{before.name} is {kinds[0]} type and would become {kinds[1]} type",
                "give the new type a name of its own",
            )
            continue
        yield from _ambiguous(_renames(before.properties), _renames(table.properties), f"{table.name}.")


def _renames(items: Iterable[TableType | Property]) -> dict[str, str | None]:
    return {item.name: item.annotations.rename_from for item in items}


def _ambiguous(old: dict[str, str | None], new: dict[str, str | None], prefix: str) -> Iterator[Refusal]:
    """Renames that name nothing, or that leave open which is which."""
    taken: dict[str, str] = {}
    for name, source in new.items():
        if source is None or source == name:
            continue
        where = f"{prefix}{name}"
        if name in old:
            if new.get(source) == name and source in old:
                yield Refusal(
                    RefusalCode.RENAME_AMBIGUOUS,
                    where,
                    f"{name} and {source} cannot take each other's names at once",
                    "rename one to a third name first",
                )
        elif source not in old:
            yield Refusal(
                RefusalCode.RENAME_UNKNOWN,
                where,
                f"there is no {source} to be renamed",
                "correct the name, or remove @rename_from",
            )
        elif source in new:
            yield Refusal(
                RefusalCode.RENAME_AMBIGUOUS,
                where,
                f"{source} is renamed to {name} and is still declared",
                f"remove {source}, or rename in two changes",
            )
        elif source in taken:
            yield Refusal(
                RefusalCode.RENAME_AMBIGUOUS,
                where,
                f"{source} is renamed to both {taken[source]} and {name}",
                "keep one @rename_from",
            )
        else:
            taken[source] = name


def _use_refusals(new: Schema) -> Iterator[Refusal]:
    for edge in new.edges:
        for node in dict.fromkeys((edge.src, edge.dst)):
            if new.find_node(node) is None:
                yield Refusal(
                    RefusalCode.TYPE_IN_USE,
                    edge.name,
                    f"its edges join {node}, which would not be there",
                    f"keep {node}, or drop {edge.name} too",
                )


class _Planner:
    def __init__(self, old: Schema, new: Schema, *, hard: bool) -> None:
        self._old, self._new, self._hard = old, new, hard
        self._steps: list[Step] = []
        self._refusals: list[Refusal] = []

    def plan(self) -> SchemaPlan:
        before = {table.id: table for table in self._old.tables()}
        after = {table.id: table for table in self._new.tables()}
        dropped = tuple(table for number, table in before.items() if number not in after)
        added = tuple(table for number, table in after.items() if number not in before)
        for table in dropped:
            self._drop(StepKind.DROP_TYPE, table.name, f"type {table.name}")
        for table in added:
            what = f"{table.src} -> {table.dst}" if isinstance(table, EdgeType) else "a node type"
            self._step(StepKind.ADD_TYPE, table.name, f"add type {table.name}, {what}")
        edits = tuple(self._table(before[number], after[number]) for number in after if number in before)
        if not self._steps and not self._refusals and _plain(self._old) != _plain(self._new):
            self._step(StepKind.DESCRIBE, "schema", "change interfaces or the order of declarations; no table changes")
        return SchemaPlan(
            self._old, self._new, tuple(self._steps), tuple(self._refusals), edits, added=added, dropped=dropped
        )

    def _step(self, kind: StepKind, where: str, told: str, *, hard: bool = False) -> None:
        self._steps.append(Step(kind, where, told, hard))

    def _drop(self, kind: StepKind, where: str, what: str) -> None:
        how = "its data can no longer be read" if self._hard else "earlier commits still show it"
        self._step(kind, where, f"drop {what}; {how}", hard=self._hard)

    def _refuse(self, code: RefusalCode, where: str, reason: str, fix: str) -> None:
        self._refusals.append(Refusal(code, where, reason, fix))

    # -------- one type

    def _table(self, old: TableType, new: TableType) -> TableEdit:
        if old.name != new.name:
            self._step(StepKind.RENAME_TYPE, new.name, f"rename type {old.name} to {new.name}")
        self._check_shape(old, new)
        before = {item.id: item for item in old.properties}
        after = {item.id: item for item in new.properties}
        dropped = [item for number, item in before.items() if number not in after]
        added = [item for number, item in after.items() if number not in before]
        renamed = [
            (before[number].name, item.name)
            for number, item in after.items()
            if number in before and before[number].name != item.name
        ]
        for item in dropped:
            self._drop(StepKind.DROP_PROPERTY, f"{new.name}.{item.name}", f"property {old.name}.{item.name}")
        for was, now in renamed:
            self._step(StepKind.RENAME_PROPERTY, f"{new.name}.{now}", f"rename property {new.name}.{was} to {now}")
        for item in added:
            self._add(new, item)
        for number, item in after.items():
            if number in before:
                self._property(new, before[number], item)
        constraints = self._constraints(old, new, dict(renamed), {item.name for item in dropped})
        if _texts(old.annotations) != _texts(new.annotations):
            self._step(StepKind.DESCRIBE, new.name, f"describe {new.name} anew")
        return TableEdit(
            old,
            new,
            tuple(added),
            tuple(renamed),
            tuple(item.name for item in dropped),
            constraints,
        )

    def _check_shape(self, old: TableType, new: TableType) -> None:
        if not isinstance(old, EdgeType) or not isinstance(new, EdgeType):
            return
        ends = [(self._old.find_node(a), self._new.find_node(b)) for a, b in ((old.src, new.src), (old.dst, new.dst))]
        if any(a is None or b is None or a.id != b.id for a, b in ends):
            self._refuse(
                RefusalCode.ENDS_CHANGED,
                new.name,
                f"its edges join {old.src} -> {old.dst}, and would join {new.src} -> {new.dst}",
                "add an edge type for these ends",
            )
        if old.cardinality != new.cardinality:
            self._refuse(
                RefusalCode.CARDINALITY_CHANGED,
                new.name,
                "the number of edges of a node that it allows would change",
                "add an edge type with the other @card",
            )

    def _add(self, table: TableType, item: Property) -> None:
        where = f"{table.name}.{item.name}"
        if item.nullable:
            self._step(StepKind.ADD_PROPERTY, where, f"add property {where}: {item.type}?, null in stored rows")
        elif item.default is None:
            self._refuse(
                RefusalCode.DEFAULT_MISSING,
                where,
                "it is required, and stored rows have no value for it",
                "give it a @default, or make it nullable with ?",
            )
        else:
            self._step(
                StepKind.ADD_PROPERTY,
                where,
                f"add property {where}: {item.type}, {item.default!r} in stored rows",
            )

    def _property(self, table: TableType, old: Property, new: Property) -> None:
        where = f"{table.name}.{new.name}"
        if old.type != new.type:
            self._type(where, old, new)
        if old.nullable != new.nullable:
            change = "may be null and would be required" if old.nullable else "is required and would be nullable"
            self._refuse(
                RefusalCode.NULLABILITY_CHANGED, where, f"it {change}", "add a property and drop this one later"
            )
        if old.default != new.default:
            self._step(StepKind.DESCRIBE, where, f"change the default of {where} for later rows")
        elif _texts(old.annotations) != _texts(new.annotations):
            self._step(StepKind.DESCRIBE, where, f"describe {where} anew")

    def _type(self, where: str, old: Property, new: Property) -> None:
        enums = old.type.kind is Kind.ENUM and new.type.kind is Kind.ENUM and old.type.is_list == new.type.is_list
        gone = [value for value in old.type.values if value not in new.type.values]
        more = [value for value in new.type.values if value not in old.type.values]
        if enums and gone:
            self._refuse(
                RefusalCode.ENUM_NARROWED,
                where,
                f"it would no longer accept {', '.join(gone)}",
                "keep these values, or add a property",
            )
        elif enums:
            told = f"accept {', '.join(more)} in {where}" if more else f"reorder the values of {where}"
            self._step(StepKind.WIDEN_ENUM if more else StepKind.DESCRIBE, where, told)
        else:
            self._refuse(
                RefusalCode.TYPE_CHANGED,
                where,
                f"it is {old.type} and would become {new.type}",
                "add a property of the new type and drop this one later",
            )

    # -------- constraints

    def _constraints(
        self, old: TableType, new: TableType, renamed: dict[str, str], dropped: set[str]
    ) -> tuple[Unique | Range | Check, ...]:
        """What is newly asked of the rows of a type."""
        if tuple(renamed.get(name, name) for name in old.key) != new.key:
            self._refuse(
                RefusalCode.KEY_CHANGED,
                new.name,
                f"its key is ({', '.join(old.key)}) and would be ({', '.join(new.key)}), which rows are known by",
                "add a type with this key and load the rows into it",
            )
        before = {_renamed(item, renamed) for item in old.constraints if item.kind != "key"}
        after = {item for item in new.constraints if item.kind != "key"}
        asked: list[Unique | Range | Check] = []
        for item in [c for c in new.constraints if c in after - before]:
            told = f"{told_constraint(item)} to {new.name}"
            if isinstance(item, Unique | Range | Check):
                asked.append(item)
                self._step(StepKind.ADD_CONSTRAINT, new.name, f"add {told}; stored rows must satisfy it")
            elif isinstance(item, Index):
                self._step(StepKind.ADD_INDEX, f"{new.name}.{item.property}", f"add {told}")
        for gone in old.constraints:
            if isinstance(gone, Key) or dropped.intersection(_names(gone)):
                continue
            if _renamed(gone, renamed) not in after:
                self._step(StepKind.DROP_CONSTRAINT, new.name, f"drop {told_constraint(gone)} from {new.name}")
        return tuple(asked)


def _plain(schema: Schema) -> Schema:
    """A schema without what renames leave behind."""

    def bare(table: _T) -> _T:
        properties = tuple(replace(item, annotations=_texts(item.annotations)) for item in table.properties)
        return replace(table, properties=properties, annotations=_texts(table.annotations))

    nodes, edges = tuple(bare(node) for node in schema.nodes), tuple(bare(edge) for edge in schema.edges)
    return replace(schema, nodes=nodes, edges=edges, next_id=0)


def _texts(annotations: Annotations) -> Annotations:
    return replace(annotations, rename_from=None)


def _names(item: Constraint) -> tuple[str, ...]:
    return item.properties if isinstance(item, Key | Unique) else (item.property,)


def _renamed(item: Constraint, renamed: dict[str, str]) -> Constraint:
    if isinstance(item, Key | Unique):
        return replace(item, properties=tuple(renamed.get(name, name) for name in item.properties))
    return replace(item, property=renamed.get(item.property, item.property))
