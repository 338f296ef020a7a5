"""Two schemas that come from one: types and properties are known by their ids, which no two branches share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from headgate.errors import HeadgateError
from headgate.graph.merge.conflicts import ConflictKind, RowConflict
from headgate.graph.schema.model import EdgeType, NodeType, Property, Schema, TableType
from headgate.graph.schema.parse import parse_schema
from headgate.graph.schema.text import schema_text

_T = TypeVar("_T")


class SchemasDiverge(Exception):
    def __init__(self, conflicts: Sequence[RowConflict]) -> None:
        super().__init__("; ".join(conflict.message for conflict in conflicts))
        self.conflicts = tuple(conflicts)


def merged_schema(base: Schema, ours: Schema, theirs: Schema) -> Schema:
    """The schema with what either side changed; raises `SchemasDiverge` where they changed the same."""
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    merger = _Merger()
    nodes = tuple(merger.tables(base.nodes, ours.nodes, theirs.nodes))
    edges = tuple(merger.tables(base.edges, ours.edges, theirs.edges))
    interfaces = tuple(merger.members("interface", base.interfaces, ours.interfaces, theirs.interfaces, _name))
    made = Schema(nodes, edges, interfaces, max(ours.next_id, theirs.next_id))
    if not merger.conflicts:
        try:
            parse_schema(schema_text(made))
        except HeadgateError as error:
            merger.told("schema", f"the two schemas do not fit together: {error.message}")
    if merger.conflicts:
        raise SchemasDiverge(merger.conflicts)
    return made


class _Merger:
    def __init__(self) -> None:
        self.conflicts: list[RowConflict] = []

    def told(self, name: str, message: str) -> None:
        self.conflicts.append(RowConflict(ConflictKind.SCHEMA, name, "", message))

    def tables(self, base: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> Iterator[Any]:
        for was, mine, other in _aligned(base, ours, theirs, _id):
            yield from self._table(was, mine, other)

    def _table(self, was: TableType | None, mine: TableType | None, other: TableType | None) -> Iterator[TableType]:
        if other in (was, mine):
            chosen = mine
        elif mine == was:
            chosen = other
        elif mine is None or other is None or was is None:
            name = (mine or other or was).name  # type: ignore[union-attr]
            self.told(name, f"type {name} was dropped on one side and changed on the other")
            return
        else:
            chosen = self._put_together(was, mine, other)
        if chosen is not None:
            yield chosen

    def _put_together(self, was: TableType, mine: TableType, other: TableType) -> TableType:
        properties = tuple(self.members(mine.name, was.properties, mine.properties, other.properties, _id))
        made: dict[str, Any] = {"properties": properties, "constraints": _set(was, mine, other, "constraints")}
        if isinstance(mine, NodeType) and isinstance(was, NodeType) and isinstance(other, NodeType):
            made["implements"] = _set(was, mine, other, "implements")
        names = ["name", "annotations"]
        if isinstance(mine, EdgeType):
            names += ["src", "dst", "cardinality"]
        for name in names:
            old, here, there = getattr(was, name), getattr(mine, name), getattr(other, name)
            if there not in (old, here) and here != old:
                self.told(mine.name, f"{name} of type {mine.name} was changed on both sides")
            made[name] = there if here == old else here
        return replace(mine, **made)

    def members(
        self, owner: str, base: Sequence[_T], ours: Sequence[_T], theirs: Sequence[_T], key: Callable[[_T], Any]
    ) -> Iterator[_T]:
        for was, mine, other in _aligned(base, ours, theirs, key):
            if other in (was, mine):
                chosen = mine
            elif mine == was:
                chosen = other
            else:
                named = mine or other
                self.told(owner, f"{getattr(named, 'name', named)} of {owner} was changed on both sides")
                continue
            if chosen is not None:
                yield chosen


def _aligned(
    base: Sequence[_T], ours: Sequence[_T], theirs: Sequence[_T], key: Callable[[_T], Any]
) -> Iterator[tuple[_T | None, _T | None, _T | None]]:
    """Each member in the base, ours and theirs, in the order of ours and then what theirs added."""
    tables = [{key(item): item for item in side} for side in (base, ours, theirs)]
    for name in dict.fromkeys([*tables[1], *tables[2], *tables[0]]):
        was, mine, other = (table.get(name) for table in tables)
        yield was, mine, other


def _set(was: Any, mine: Any, other: Any, name: str) -> tuple[Any, ...]:
    """Members that have no identity but themselves: what either side added or took away."""
    old, here, there = (getattr(side, name) for side in (was, mine, other))
    kept: Iterable[Any] = [item for item in here if item in there or item not in old]
    return tuple(dict.fromkeys([*kept, *(item for item in there if item not in old)]))


def _id(item: Property | TableType) -> int:
    return item.id


def _name(item: Any) -> str:
    return str(item.name)
