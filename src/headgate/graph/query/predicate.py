"""Conditions with resolved columns and types, in a form without `not`.

Negation is pushed into the leaves when a condition is built, so a leaf whose answer is unknown (a null is compared)
may count as false: SQL's three-valued logic and this agree on which rows are kept. Parameters are `Slot`s until `bind`
puts values in their place.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from headgate.graph.schema.keys import row_id
from headgate.graph.schema.model import INTEGERS, NUMBERS, Kind, NodeType, PropertyType
from headgate.graph.schema.values import BadValue, coerce_type, integer_bounds

CompareOp = Literal["=", "!=", "<", "<=", ">", ">="]
FLIPPED: dict[CompareOp, CompareOp] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE: dict[CompareOp, CompareOp] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class ColumnRef:
    """A column of a table, or of what a match variable is bound to."""

    column: str
    type: PropertyType
    variable: str = ""

    @property
    def name(self) -> str:
        return f"{self.variable}.{self.column}" if self.variable else self.column


@dataclass(frozen=True)
class Constant:
    """A value as Python knows it; a list for a list type."""

    value: Any
    type: PropertyType


@dataclass(frozen=True)
class Slot:
    """The place of a parameter's value."""

    parameter: str
    type: PropertyType
    endpoint: NodeType | None = None
    """Set where the value names a node: it then stands for that node's id."""


Term = ColumnRef | Constant | Slot


@dataclass(frozen=True)
class Comparison:
    left: Term
    op: CompareOp
    right: Term


@dataclass(frozen=True)
class InSet:
    """The left value is an element of the right list."""

    left: Term
    right: Term
    negated: bool = False


@dataclass(frozen=True)
class TextTest:
    """The left text contains the right one, or starts with it."""

    test: Literal["contains", "starts_with"]
    left: Term
    right: Term
    negated: bool = False


@dataclass(frozen=True)
class IsNull:
    term: Term
    negated: bool = False


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Always:
    holds: bool


Predicate = Comparison | InSet | TextTest | IsNull | AllOf | AnyOf | Always

TRUE, FALSE = Always(True), Always(False)


def all_of(parts: list[Predicate]) -> Predicate:
    """The conjunction, without parts that say nothing."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AllOf) else (part,))]
    if FALSE in flat:
        return FALSE
    kept = [part for part in flat if part != TRUE]
    return AllOf(tuple(kept)) if len(kept) > 1 else kept[0] if kept else TRUE


def any_of(parts: list[Predicate]) -> Predicate:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AnyOf) else (part,))]
    if TRUE in flat:
        return TRUE
    kept = [part for part in flat if part != FALSE]
    return AnyOf(tuple(kept)) if len(kept) > 1 else kept[0] if kept else FALSE


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    if isinstance(predicate, AllOf):
        return predicate.parts
    return () if predicate == TRUE else (predicate,)


def terms(predicate: Predicate) -> Iterator[Term]:
    match predicate:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from terms(part)
        case IsNull(term):
            yield term
        case Comparison() | InSet() | TextTest():
            yield predicate.left
            yield predicate.right
        case Always():
            return


def column_refs(predicate: Predicate) -> tuple[ColumnRef, ...]:
    """The columns a condition looks at, each once."""
    return tuple(dict.fromkeys(term for term in terms(predicate) if isinstance(term, ColumnRef)))


def variables(predicate: Predicate) -> frozenset[str]:
    return frozenset(ref.variable for ref in column_refs(predicate))


def bind(predicate: Predicate, values: Mapping[str, Any]) -> Predicate:
    """The condition with every parameter's value in its place, and with what that decides taken out."""
    match predicate:
        case AllOf(parts):
            return all_of([bind(part, values) for part in parts])
        case AnyOf(parts):
            return any_of([bind(part, values) for part in parts])
        case IsNull(term, negated):
            bound = bind_term(term, values)
            return Always((bound.value is None) != negated) if isinstance(bound, Constant) else IsNull(bound, negated)
        case Comparison() | InSet() | TextTest():
            made = replace(predicate, left=bind_term(predicate.left, values), right=bind_term(predicate.right, values))
            return _settled(made)
        case Always():
            return predicate


def bind_term(term: Term, values: Mapping[str, Any]) -> ColumnRef | Constant:
    if not isinstance(term, Slot):
        return term
    value = values[term.parameter]
    if term.endpoint is None or value is None:
        return Constant(value, term.type)
    if term.type.is_list and not isinstance(value, tuple):
        return Constant([endpoint_id(term.endpoint, item) for item in value], term.type)
    return Constant(endpoint_id(term.endpoint, value), term.type)


def endpoint_id(node: NodeType, value: Any) -> str:
    """The id of the node that a key's value names, or `BadValue`. A composite key takes a list, or the id itself."""
    types = [node.property(name).type for name in node.key]
    if len(types) == 1:
        return row_id([coerce_type(types[0], value, name=f"the key of {node.name}")])
    if types and isinstance(value, list | tuple):
        if len(value) != len(types):
            raise BadValue("type", f"the key of {node.name} has {len(types)} values, and {len(value)} are given")
        parts = zip(types, value, node.key, strict=True)
        return row_id([coerce_type(declared, item, name=name) for declared, item, name in parts])
    return str(coerce_type(PropertyType(Kind.STRING), value, name=f"the id of {node.name}"))


def _settled(leaf: Comparison | InSet | TextTest) -> Predicate:
    """The leaf, or what its constants make of it: null compares as unknown, no column holds what is out of range."""
    if any(isinstance(term, Constant) and term.value is None for term in (leaf.left, leaf.right)):
        return FALSE
    if isinstance(leaf, Comparison):
        if isinstance(leaf.left, Constant) and isinstance(leaf.right, ColumnRef):
            leaf = Comparison(leaf.right, FLIPPED[leaf.op], leaf.left)
        if isinstance(leaf.left, ColumnRef) and isinstance(leaf.right, Constant):
            return _within_range(leaf.left, leaf.op, leaf.right)
    if isinstance(leaf, InSet) and isinstance(leaf.left, ColumnRef) and isinstance(leaf.right, Constant):
        declared = leaf.left.type
        kept = [_held_as(declared, value) for value in leaf.right.value if _fits(declared, value)]
        if not kept:
            return IsNull(leaf.left, negated=True) if leaf.negated else FALSE
        members = replace(declared if declared.kind in NUMBERS else leaf.right.type, is_list=True)
        return replace(leaf, right=Constant(kept, members))
    return leaf


def _fits(declared: PropertyType, value: Any) -> bool:
    """Whether a column of this type can hold the value."""
    if declared.kind in INTEGERS:
        low, high = integer_bounds(declared.kind)
        return bool(low <= value <= high) and value == int(value)
    return declared.kind is not Kind.F32 or math.isfinite(_held_as(declared, value))


def _held_as(declared: PropertyType, value: Any) -> Any:
    """A number as a column of this type holds it: `0.1` is another number in 32 bits."""
    if declared.kind in INTEGERS:
        return int(value)
    if declared.kind is Kind.F32:
        return _rounded(float(value))
    return float(value) if declared.kind is Kind.F64 else value


def _rounded(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _within_range(column: ColumnRef, op: CompareOp, constant: Constant) -> Predicate:
    """A comparison of a column with a number, made one of the column's own type or decided at once."""
    kind, value = column.type.kind, constant.value
    if kind not in NUMBERS:
        return Comparison(column, op, constant)
    if kind in INTEGERS and isinstance(value, float) and not value.is_integer():
        return _between_integers(column, op, math.floor(value))
    if _fits(column.type, value):
        return Comparison(column, op, Constant(_held_as(column.type, value), column.type))
    holds = op == "!=" or op in (("<", "<=") if value > 0 else (">", ">="))
    return IsNull(column, negated=True) if holds else FALSE


def _between_integers(column: ColumnRef, op: CompareOp, below: int) -> Predicate:
    """A comparison of whole numbers with one that lies just above `below`."""
    if op == "=":
        return FALSE
    if op == "!=":
        return IsNull(column, negated=True)
    edge = Constant(below, PropertyType(Kind.I64))
    return _within_range(column, "<=" if op in ("<", "<=") else ">", edge)
