"""Mutations, checked against a schema and bound to parameters: rows to insert, changes and conditions.

What remains for the write path is to apply them in order; nothing here touches a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import InvalidInput, Problem
from headgate.graph.query import syntax as q
from headgate.graph.query.conditions import literal_value
from headgate.graph.query.parameters import bind_parameters
from headgate.graph.query.predicate import (
    ColumnRef,
    Comparison,
    Constant,
    InSet,
    Predicate,
    bind,
    conjuncts,
    endpoint_id,
)
from headgate.graph.schema.keys import row_id
from headgate.graph.schema.model import (
    ID,
    EdgeType,
    NodeType,
    TableType,
)
from headgate.graph.schema.values import BadValue, Rules, coerce


@dataclass(frozen=True)
class InsertStmt:
    """Insert one row; `fields` maps columns to literals and parameters, edges name theirs `src` and `dst`."""

    table: TableType
    fields: dict[str, q.Value]
    ends: dict[str, NodeType] = field(default_factory=dict, repr=False)
    """The node types that an edge's `src` and `dst` name members of."""
    line: int = 0


@dataclass(frozen=True)
class UpdateStmt:
    table: TableType
    fields: dict[str, q.Value]
    where: Predicate = field(repr=False)
    line: int = 0


@dataclass(frozen=True)
class DeleteStmt:
    table: TableType
    where: Predicate = field(repr=False)
    line: int = 0


Statement = InsertStmt | UpdateStmt | DeleteStmt


@dataclass(frozen=True)
class CheckedMutation:
    """A mutation whose names and types are right for a schema."""

    name: str
    parameters: tuple[q.Parameter, ...]
    statements: tuple[Statement, ...]

    def bind(self, params: Mapping[str, Any] | None = None) -> tuple[BoundStatement, ...]:
        """The statements with the parameters' values, every value checked; `InvalidInput` names all that are wrong."""
        values = bind_parameters(self.name, self.parameters, params)
        bound: list[BoundStatement] = []
        problems: list[Problem] = []
        for statement in self.statements:
            binder = _Binder(statement, values, problems)
            bound.append(binder.bind())
        if problems:
            raise InvalidInput(message=f"{self.name} holds values that its types refuse", problems=tuple(problems))
        return tuple(bound)


@dataclass(frozen=True)
class BoundInsert:
    """One row: every property's column, for edges `src` and `dst`; `id` only where the type has a key."""

    table: TableType
    row: dict[str, Any]


@dataclass(frozen=True)
class BoundUpdate:
    """New values of some columns for the rows a condition holds for; never a key, `id`, `src` or `dst`."""

    table: TableType
    changes: dict[str, Any]
    where: Predicate


@dataclass(frozen=True)
class BoundDelete:
    table: TableType
    where: Predicate


BoundStatement = BoundInsert | BoundUpdate | BoundDelete


def lookup_ids(table: TableType, where: Predicate) -> tuple[str, ...] | None:
    """The only ids a bound condition can hold for, where its columns `id` or the whole key are fixed; else None."""
    fixed: dict[str, list[Any]] = {}
    for part in conjuncts(where):
        if not isinstance(part, Comparison | InSet) or not isinstance(part.left, ColumnRef):
            continue
        if not isinstance(part.right, Constant):
            continue
        if isinstance(part, InSet) and not part.negated:
            fixed.setdefault(part.left.column, list(part.right.value))
        elif isinstance(part, Comparison) and part.op == "=":
            fixed.setdefault(part.left.column, [part.right.value])
    if ID in fixed:
        return tuple(dict.fromkeys(fixed[ID]))
    if not table.key or any(name not in fixed for name in table.key):
        return None
    if len(table.key) == 1:
        return tuple(dict.fromkeys(row_id([value]) for value in fixed[table.key[0]]))
    if any(len(fixed[name]) != 1 for name in table.key):
        return None
    return (row_id([fixed[name][0] for name in table.key]),)


@dataclass(frozen=True)
class _Binder:
    statement: Statement
    values: Mapping[str, Any]
    problems: list[Problem]

    def bind(self) -> BoundStatement:
        statement = self.statement
        if isinstance(statement, InsertStmt):
            return BoundInsert(statement.table, self._row(statement))
        try:
            where = bind(statement.where, self.values)
        except BadValue as problem:
            self._tell(problem)
            where = statement.where
        if isinstance(statement, DeleteStmt):
            return BoundDelete(statement.table, where)
        changes = {name: self._property(name, value) for name, value in statement.fields.items()}
        return BoundUpdate(statement.table, changes, where)

    def _row(self, statement: InsertStmt) -> dict[str, Any]:
        table, before = statement.table, len(self.problems)
        row: dict[str, Any] = {}
        if isinstance(table, EdgeType):
            row = {end: self._endpoint(node, statement.fields[end]) for end, node in statement.ends.items()}
        for item in table.properties:
            given = statement.fields.get(item.name, q.LiteralValue(item.default))
            row[item.name] = self._property(item.name, given)
        if table.key and len(self.problems) == before:
            row = {ID: row_id([row[name] for name in table.key]), **row}
        return row

    def _given(self, value: q.Value) -> Any:
        return self.values[value.name] if isinstance(value, q.Variable) else literal_value(value)

    def _property(self, name: str, value: q.Value) -> Any:
        table = self.statement.table
        try:
            return coerce(Rules.of(table, table.property(name)), self._given(value))
        except BadValue as problem:
            self._tell(problem)
            return None

    def _endpoint(self, node: NodeType, value: q.Value) -> str | None:
        try:
            return endpoint_id(node, self._given(value))
        except BadValue as problem:
            self._tell(problem)
            return None

    def _tell(self, problem: BadValue) -> None:
        where = f"line {self.statement.line}, {self.statement.table.name}"
        self.problems.append(Problem(where, problem.message))
