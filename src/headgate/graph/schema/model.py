"""What a graph's schema says, as frozen values: types, properties, constraints, annotations.

The text it is read from is `parse`'s concern, Arrow is `arrow`'s, and what a value may be is `values`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeVar

ID, SRC, DST = "id", "src", "dst"
RESERVED_COLUMNS = (ID, SRC, DST)

Literal_ = str | bool | int | float
"""A literal as it stands in a schema: a date is its text."""


class Kind(StrEnum):
    """The types a property can be declared with, by their names in the language."""

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    BLOB = "Blob"
    VECTOR = "Vector"
    ENUM = "enum"


INTEGERS = frozenset({Kind.I32, Kind.I64, Kind.U32, Kind.U64})
FLOATS = frozenset({Kind.F32, Kind.F64})
NUMBERS = INTEGERS | FLOATS
TIMES = frozenset({Kind.DATE, Kind.DATETIME})
KEYABLE = INTEGERS | TIMES | {Kind.STRING, Kind.BOOL, Kind.ENUM}
"""Kinds whose equality is exact and whose text is one: what a key or a unique constraint may hold."""
ORDERED = NUMBERS | TIMES | {Kind.STRING, Kind.ENUM}


@dataclass(frozen=True)
class PropertyType:
    """The type of a property's values, nullability apart."""

    kind: Kind
    is_list: bool = False
    values: tuple[str, ...] = ()
    """The members of an enum, in declared order."""
    size: int = 0
    """The number of elements of a vector."""

    @property
    def element(self) -> PropertyType:
        """What a list holds; the type itself if it is no list."""
        return replace(self, is_list=False) if self.is_list else self

    @property
    def is_keyable(self) -> bool:
        return self.kind in KEYABLE and not self.is_list

    @property
    def is_ordered(self) -> bool:
        return self.kind in ORDERED and not self.is_list

    def __str__(self) -> str:
        if self.kind is Kind.VECTOR:
            text = f"Vector({self.size})"
        elif self.kind is Kind.ENUM:
            text = f"enum({', '.join(self.values)})"
        else:
            text = str(self.kind)
        return f"[{text}]" if self.is_list else text


@dataclass(frozen=True)
class Annotations:
    """What is said about a type or property without changing what it accepts."""

    rename_from: str | None = None
    description: str | None = None
    instruction: str | None = None


@dataclass(frozen=True)
class Property:
    """One column that the schema declares."""

    name: str
    type: PropertyType
    nullable: bool = False
    default: Literal_ | None = None
    """What existing rows get when a required property is added, and new rows that leave it out."""
    annotations: Annotations = Annotations()
    id: int = 0
    """Stable through renames and never reused; 0 until `with_ids` gave one."""


@dataclass(frozen=True)
class Key:
    """These properties identify a row: its `id` is their canonical text."""

    properties: tuple[str, ...]
    kind: Literal["key"] = "key"


@dataclass(frozen=True)
class Unique:
    """No two rows hold the same values here; a row with a null among them is not compared."""

    properties: tuple[str, ...]
    kind: Literal["unique"] = "unique"


@dataclass(frozen=True)
class Index:
    """Look-ups by this property are worth an index."""

    property: str
    kind: Literal["index"] = "index"


@dataclass(frozen=True)
class Range:
    """The value lies between these, ends included; a missing end is open."""

    property: str
    low: int | float | str | None
    high: int | float | str | None
    kind: Literal["range"] = "range"


@dataclass(frozen=True)
class Check:
    """The whole value matches this regular expression (RE2 syntax, so it cannot run away)."""

    property: str
    pattern: str
    kind: Literal["check"] = "check"


Constraint = Key | Unique | Index | Range | Check


@dataclass(frozen=True)
class Interface:
    """Properties and constraints that several node types share."""

    name: str
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    annotations: Annotations = Annotations()


@dataclass(frozen=True)
class _TableType:
    """What node and edge types have in common: each is one table."""

    name: str
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    annotations: Annotations = Annotations()
    id: int = 0
    """Stable through renames and never reused; 0 until `with_ids` gave one."""

    @cached_property
    def _by_name(self) -> dict[str, Property]:
        return {item.name: item for item in self.properties}

    def find_property(self, name: str) -> Property | None:
        return self._by_name.get(name)

    def property(self, name: str) -> Property:
        return self._by_name[name]

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The key's columns in declared order; empty where rows have made-up ids."""
        return next((c.properties for c in self.constraints if isinstance(c, Key)), ())

    @cached_property
    def uniques(self) -> tuple[Unique, ...]:
        return tuple(c for c in self.constraints if isinstance(c, Unique))

    @cached_property
    def indexed(self) -> tuple[str, ...]:
        """Properties that get an index of their own: those declared so, and a composite key's parts."""
        declared = [c.property for c in self.constraints if isinstance(c, Index)]
        parts = [name for name in self.key if name not in RESERVED_COLUMNS]
        return tuple(dict.fromkeys([*declared, *parts]))

    def ranges(self, name: str) -> tuple[Range, ...]:
        return tuple(c for c in self.constraints if isinstance(c, Range) and c.property == name)

    def checks(self, name: str) -> tuple[Check, ...]:
        return tuple(c for c in self.constraints if isinstance(c, Check) and c.property == name)


@dataclass(frozen=True)
class NodeType(_TableType):
    """A node table: `id`, then the properties, those of its interfaces included."""

    implements: tuple[str, ...] = ()

    @property
    def system_columns(self) -> tuple[str, ...]:
        return (ID,)


@dataclass(frozen=True)
class Cardinality:
    """How many edges of one type may leave one node."""

    min: int = 0
    max: int | None = None

    @property
    def is_open(self) -> bool:
        return self.min == 0 and self.max is None


@dataclass(frozen=True)
class EdgeType(_TableType):
    """An edge table: `id`, `src`, `dst`, then the properties."""

    src: str = ""
    """The node type that edges leave."""
    dst: str = ""
    """The node type that edges reach."""
    cardinality: Cardinality = Cardinality()

    @property
    def system_columns(self) -> tuple[str, ...]:
        return (ID, SRC, DST)

    @property
    def verb(self) -> str:
        """The name in a traversal: `Knows` is written `$a knows $b`."""
        return self.name[:1].lower() + self.name[1:]


TableType = NodeType | EdgeType
_T = TypeVar("_T", NodeType, EdgeType)


@dataclass(frozen=True)
class Schema:
    """Every type of a graph."""

    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    next_id: int = field(default=1)
    """The id the next new type or property gets; only grows, so that no id is used twice."""

    @cached_property
    def _tables(self) -> dict[str, TableType]:
        tables: list[TableType] = [*self.nodes, *self.edges]
        return {item.name: item for item in tables}

    @cached_property
    def _verbs(self) -> dict[str, EdgeType]:
        return {name: edge for edge in self.edges for name in (edge.name, edge.verb)}

    def tables(self) -> Iterator[TableType]:
        """Node types, then edge types, in declared order."""
        yield from self._tables.values()

    def find(self, name: str) -> TableType | None:
        return self._tables.get(name)

    def find_node(self, name: str) -> NodeType | None:
        found = self._tables.get(name)
        return found if isinstance(found, NodeType) else None

    def find_edge(self, name: str) -> EdgeType | None:
        """The edge type of this name, or of this verb."""
        return self._verbs.get(name)

    def edges_at(self, node: str) -> tuple[EdgeType, ...]:
        """Edge types that leave or reach a node type: what deleting its nodes touches."""
        return tuple(edge for edge in self.edges if node in (edge.src, edge.dst))

    def edges_from(self, node: str) -> tuple[EdgeType, ...]:
        return tuple(edge for edge in self.edges if edge.src == node)


def with_ids(schema: Schema, previous: Schema | None = None) -> Schema:
    """The schema with an id on every type and property: those of `previous` where name or `rename_from` matches."""
    fresh = iter(range(previous.next_id if previous else 1, 2**62))
    last = (previous.next_id if previous else 1) - 1

    def take() -> int:
        nonlocal last
        last = next(fresh)
        return last

    def properties_of(table: TableType, old: TableType | None) -> tuple[Property, ...]:
        return tuple(
            replace(item, id=found.id if (found := _former(item, old)) else take()) for item in table.properties
        )

    def tables_of(tables: tuple[_T, ...]) -> tuple[_T, ...]:
        done: list[_T] = []
        for table in tables:
            old = _former_table(table, previous)
            number = old.id if old else take()
            done.append(replace(table, id=number, properties=properties_of(table, old)))
        return tuple(done)

    nodes, edges = tables_of(schema.nodes), tables_of(schema.edges)
    return replace(schema, nodes=nodes, edges=edges, next_id=last + 1)


def _former(item: Property, old: TableType | None) -> Property | None:
    if old is None:
        return None
    renamed = item.annotations.rename_from
    return old.find_property(item.name) or (old.find_property(renamed) if renamed else None)


def _former_table(table: TableType, previous: Schema | None) -> TableType | None:
    if previous is None:
        return None
    renamed = table.annotations.rename_from
    found = previous.find(table.name) or (previous.find(renamed) if renamed else None)
    return found if type(found) is type(table) else None
