"""Mutations held against a schema: every name, type and rule that can be checked before parameters are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.graph.language.diagnostics import NOWHERE, Diagnostics, Source, diagnosing, nearest
from headgate.graph.query import syntax as q
from headgate.graph.query.conditions import Conditions, Resolved, assignable, literal_value
from headgate.graph.query.mutation import CheckedMutation, DeleteStmt, InsertStmt, Statement, UpdateStmt
from headgate.graph.query.predicate import ColumnRef, Predicate, Slot, endpoint_id
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, Kind, NodeType, PropertyType, Schema, TableType
from headgate.graph.schema.values import BadValue, Rules, coerce

_ENDS = {"from": SRC, "to": DST}


def check_mutation(query: q.Query, schema: Schema, *, source: Source | None = None) -> CheckedMutation:
    """The mutation with its names looked up, or `InvalidInput` with every problem."""
    source = source or Source("", query.name)
    with diagnosing(source) as diagnostics:
        return mutation_of(query, schema, diagnostics)


def mutation_of(query: q.Query, schema: Schema, diagnostics: Diagnostics) -> CheckedMutation:
    """The mutation as far as it is right; the rest is told to `diagnostics`."""
    if not isinstance(query.body, q.Mutation):
        diagnostics.add(query.at, f"{query.name} reads and changes nothing", "run it as a query")
        return CheckedMutation(query.name, query.parameters, ())
    checker = _Checker(schema, {item.name: item for item in query.parameters}, diagnostics)
    made = [checker.statement(item) for item in query.body.statements]
    return CheckedMutation(query.name, query.parameters, tuple(item for item in made if item is not None))


@dataclass(frozen=True)
class _Checker:
    schema: Schema
    parameters: Mapping[str, q.Parameter]
    diagnostics: Diagnostics

    def statement(self, statement: q.Statement) -> Statement | None:
        table = self.schema.find(statement.type) or self.schema.find_edge(statement.type)
        if table is None:
            known = [item.name for item in self.schema.tables()]
            self.diagnostics.add(statement.at, f"there is no type {statement.type}", nearest(statement.type, known))
            return None
        if isinstance(statement, q.Delete):
            return DeleteStmt(table, self._where(table, statement.where), statement.at.line)
        if isinstance(statement, q.Update):
            fields = self._fields(table, statement.fields, update=True)
            if not statement.fields:
                self.diagnostics.add(statement.at, "this update sets nothing", "name a property in set { … }")
            return UpdateStmt(table, fields, self._where(table, statement.where), statement.at.line)
        fields = self._fields(table, statement.fields, update=False)
        self._check_complete(table, statement, fields)
        return InsertStmt(table, fields, self._ends(table), statement.at.line)

    def _ends(self, table: TableType) -> dict[str, NodeType]:
        if not isinstance(table, EdgeType):
            return {}
        ends = {SRC: self.schema.find_node(table.src), DST: self.schema.find_node(table.dst)}
        return {end: node for end, node in ends.items() if node is not None}

    def _fields(self, table: TableType, given: tuple[q.Field, ...], *, update: bool) -> dict[str, q.Value]:
        fields: dict[str, q.Value] = {}
        for item in given:
            column = _ENDS.get(item.name, item.name) if isinstance(table, EdgeType) else item.name
            if column in fields:
                self.diagnostics.add(item.at, f"{item.name} is given twice", "keep one")
            elif self._check_field(table, item, column, update=update):
                fields[column] = item.value
        return fields

    def _check_field(self, table: TableType, item: q.Field, column: str, *, update: bool) -> bool:
        ends = ("src", "dst") if isinstance(table, EdgeType) else ()
        if update and (column in table.key or column in (ID, *ends)):
            what = "the key" if column in table.key else column
            self.diagnostics.add(
                item.at, f"{what} of a {table.name} never changes", "delete the row and insert another"
            )
            return False
        if column in ends:
            return self._check_end(table, item, column)
        declared = table.find_property(column)
        if declared is None:
            known = [*(name for name, end in _ENDS.items() if end in ends), *(p.name for p in table.properties)]
            hint = "id is made from the key" if column == ID else nearest(item.name, known)
            self.diagnostics.add(item.at, f"{table.name} has no property {item.name}", hint)
            return False
        return self._check_value(item.value, Rules.of(table, declared))

    def _check_end(self, table: TableType, item: q.Field, column: str) -> bool:
        node = self._ends(table)[column]
        if isinstance(item.value, q.Variable):
            return self._parameter(item.value) is not None
        try:
            endpoint_id(node, literal_value(item.value))
        except BadValue as problem:
            self.diagnostics.add(item.value.at, problem.message)
            return False
        return True

    def _check_value(self, value: q.Value, rules: Rules) -> bool:
        if not isinstance(value, q.Variable):
            try:
                coerce(rules, literal_value(value))
            except BadValue as problem:
                self.diagnostics.add(value.at, problem.message)
                return False
            return True
        found = self._parameter(value)
        if found is not None and not assignable(found.type, rules.type):
            self.diagnostics.add(
                value.at, f"{rules.name} is {rules.type}, and ${found.name} is {found.type}", f"declare it {rules.type}"
            )
            return False
        return found is not None

    def _parameter(self, variable: q.Variable) -> q.Parameter | None:
        found = self.parameters.get(variable.name)
        if found is None:
            known = [f"${name}" for name in self.parameters]
            hint = nearest(f"${variable.name}", known) or "declare it in the parentheses after the query's name"
            self.diagnostics.add(variable.at, f"there is no parameter ${variable.name}", hint)
        return found

    def _check_complete(self, table: TableType, statement: q.Insert, fields: dict[str, q.Value]) -> None:
        given = {item.name for item in statement.fields} | set(fields)
        missing = [p.name for p in table.properties if not p.nullable and p.default is None and p.name not in given]
        if isinstance(table, EdgeType):
            missing = [name for name, end in _ENDS.items() if not {name, end} & given] + missing
        if missing:
            self.diagnostics.add(statement.at, f"a {table.name} needs {', '.join(missing)}", "give each a value")

    def _where(self, table: TableType, expression: q.Expression) -> Predicate:
        return Conditions(self.diagnostics, lambda operand: self._resolve(table, operand)).read(expression)

    def _resolve(self, table: TableType, operand: q.Operand) -> Resolved | None:
        if isinstance(operand, q.Variable):
            found = self._parameter(operand)
            return None if found is None else Resolved(Slot(found.name, found.type))
        if not isinstance(operand, q.Column):
            self.diagnostics.add(
                getattr(operand, "at", NOWHERE), "a mutation has no match variables", "write the property's name alone"
            )
            return None
        return self._column(table, operand)

    def _column(self, table: TableType, operand: q.Column) -> Resolved | None:
        name = _ENDS.get(operand.name, operand.name) if isinstance(table, EdgeType) else operand.name
        if name in table.system_columns:
            return Resolved(ColumnRef(name, PropertyType(Kind.STRING)), endpoint=self._ends(table).get(name))
        declared = table.find_property(name)
        if declared is None:
            known = [*table.system_columns, *(item.name for item in table.properties)]
            self.diagnostics.add(operand.at, f"{table.name} has no property {name}", nearest(name, known))
            return None
        return Resolved(ColumnRef(name, declared.type))
