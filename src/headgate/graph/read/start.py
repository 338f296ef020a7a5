"""Where a match begins: how few rows the conditions on a variable leave, guessed from their form and the indices."""

from __future__ import annotations

from enum import IntEnum

from headgate.graph.query.lance_sql import ids_in
from headgate.graph.query.mutation import lookup_ids
from headgate.graph.query.predicate import (
    TRUE,
    ColumnRef,
    Comparison,
    Constant,
    InSet,
    Predicate,
    all_of,
    conjuncts,
)
from headgate.graph.read.tables import Tables
from headgate.graph.schema.model import ID, NodeType


class Rank(IntEnum):
    """Fewer rows are expected of a lower rank."""

    POINT = 0
    INDEXED = 1
    EQUALITY = 2
    FILTER = 3
    EVERYTHING = 4


def rank(node: NodeType, where: Predicate, tables: Tables) -> Rank:
    """How selective a variable's own conditions look."""
    if where == TRUE:
        return Rank.EVERYTHING
    if lookup_ids(node, where) is not None:
        return Rank.POINT
    fixed = [column for part in conjuncts(where) if (column := _fixed_column(part))]
    if any(tables.is_indexed(node.name, column) for column in fixed):
        return Rank.INDEXED
    return Rank.EQUALITY if fixed else Rank.FILTER


def start_condition(node: NodeType, where: Predicate) -> Predicate:
    """The condition, with a fixed key also said as a fixed id: that is the column every table has an index on."""
    ids = lookup_ids(node, where)
    fixed = [_fixed_column(part) for part in conjuncts(where)]
    if not ids or ID in fixed:
        return where
    # A key column that is fixed twice keeps both conditions: they may contradict each other.
    said = [name for name in node.key if fixed.count(name) == 1]
    rest = [part for part, name in zip(conjuncts(where), fixed, strict=True) if name not in said]
    return all_of([ids_in(ID, ids), *rest])


def _fixed_column(part: Predicate) -> str:
    """The column a condition fixes to one or a few values, or nothing."""
    if not isinstance(part, Comparison | InSet) or not isinstance(part.left, ColumnRef):
        return ""
    if not isinstance(part.right, Constant):
        return ""
    if isinstance(part, Comparison):
        return part.left.column if part.op == "=" else ""
    return "" if part.negated else part.left.column
