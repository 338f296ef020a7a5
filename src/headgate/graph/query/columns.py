"""Looking up what `$a.name` stands for."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.graph.language.diagnostics import Diagnostics, nearest
from headgate.graph.query import syntax as q
from headgate.graph.query.predicate import ColumnRef
from headgate.graph.schema.model import Kind, NodeType, PropertyType, TableType

ANYTHING = NodeType("?")
"""Stands for the type of a variable whose traversal is wrong, so that the variable itself is not called unknown."""


def find_column(
    operand: q.PropertyOf,
    known: Mapping[str, TableType],
    parameters: Mapping[str, q.Parameter],
    diagnostics: Diagnostics,
) -> ColumnRef | None:
    """The column that `$a.name` stands for; None once the problem has been told."""
    kind = known.get(operand.variable)
    if kind is ANYTHING:
        return None
    if kind is None:
        if operand.variable in parameters:
            message = f"${operand.variable} is a parameter and has no properties"
            diagnostics.add(operand.at, message, f"write ${operand.variable}")
        else:
            names = [f"${item}" for item in known]
            message = f"there is no ${operand.variable}"
            diagnostics.add(operand.at, message, nearest(f"${operand.variable}", names))
        return None
    if operand.name in kind.system_columns:
        return ColumnRef(operand.name, PropertyType(Kind.STRING), operand.variable)
    declared = kind.find_property(operand.name)
    if declared is None:
        columns = [*kind.system_columns, *(item.name for item in kind.properties)]
        diagnostics.add(operand.at, f"{kind.name} has no property {operand.name}", nearest(operand.name, columns))
        return None
    return ColumnRef(operand.name, declared.type, operand.variable)
