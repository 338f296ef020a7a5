"""Reads held against a schema: variables get their types, conditions and outputs are looked up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headgate.graph.language.diagnostics import Diagnostics, Source, Span, diagnosing, nearest
from headgate.graph.query import syntax as q
from headgate.graph.query.columns import ANYTHING, find_column
from headgate.graph.query.conditions import Conditions, Resolved
from headgate.graph.query.outputs import read_order, read_outputs
from headgate.graph.query.predicate import ColumnRef, Predicate, Slot, conjuncts, variables
from headgate.graph.query.read import CheckedRead, Match, Step
from headgate.graph.schema.model import ID, INTEGERS, EdgeType, Kind, NodeType, PropertyType, Schema, TableType

_MOST_HOPS = 64
_MOST_CLAUSES = 1_000
ANONYMOUS = "_"


def check_read(query: q.Query, schema: Schema, *, source: Source | None = None) -> CheckedRead:
    """The read with its names looked up, or `InvalidInput` with every problem."""
    source = source or Source("", query.name)
    with diagnosing(source) as diagnostics:
        return read_of(query, schema, diagnostics)


def read_of(query: q.Query, schema: Schema, diagnostics: Diagnostics) -> CheckedRead:
    """The read as far as it is right; the rest is told to `diagnostics`."""
    body = query.body
    if not isinstance(body, q.Read):
        diagnostics.add(query.at, f"{query.name} changes the graph", "run it as a mutation")
        return CheckedRead(query.name, query.parameters, Match(), ())
    if (size := _size(body.clauses)) > _MOST_CLAUSES or len(body.items) > _MOST_CLAUSES:
        what = f"{query.name} has {size:,} clauses and returns {len(body.items):,} columns"
        diagnostics.add(query.at, what, f"a query has at most {_MOST_CLAUSES:,} of each; split it")
        return CheckedRead(query.name, query.parameters, Match(), ())
    parameters = {item.name: item for item in query.parameters}
    checker = _Checker(schema, parameters, diagnostics)
    if not body.clauses:
        diagnostics.add(query.at, "match { } matches nothing", "name what to look for, such as $a: Person")
    scope = _Scope()
    match = checker.block(body.clauses, scope)
    outputs = read_outputs(body, scope.visible(), parameters, diagnostics, query.at)
    order = read_order(body, outputs, scope.visible(), diagnostics)
    limit = checker.limit(body.limit)
    return CheckedRead(query.name, query.parameters, match, outputs, body.distinct, order, limit)


def _size(clauses: tuple[q.Clause, ...]) -> int:
    return sum(1 + (_size(item.clauses) if isinstance(item, q.Absent | q.Optional) else 0) for item in clauses)


@dataclass
class _Scope:
    """The variables one block can see."""

    around: Mapping[str, TableType] = field(default_factory=dict)
    own: dict[str, TableType] = field(default_factory=dict)
    optional: dict[str, TableType] = field(default_factory=dict)

    def visible(self) -> dict[str, TableType]:
        return {**self.around, **self.own, **self.optional}


@dataclass
class _Checker:
    schema: Schema
    parameters: Mapping[str, q.Parameter]
    diagnostics: Diagnostics
    unnamed: int = 0

    def block(self, clauses: tuple[q.Clause, ...], scope: _Scope) -> Match:
        """One block; `scope` is filled with what it brings in."""
        patterns = [item for item in clauses if isinstance(item, q.Pattern)]
        traversals = [self._named(item) for item in clauses if isinstance(item, q.Traversal)]
        for pattern in patterns:
            self._declare_pattern(pattern, scope)
        steps = [step for item in traversals if (step := self._step(item, scope)) is not None]
        optional = [self._optional(item, scope) for item in clauses if isinstance(item, q.Optional)]
        where = self._where(clauses, patterns, traversals, scope)
        absent = [
            self.block(item.clauses, _Scope(around=scope.visible())) for item in clauses if isinstance(item, q.Absent)
        ]
        self._check_blocks(clauses)
        late = [item for item in where if variables(item) & set(scope.optional)]
        nodes = tuple((name, kind) for name, kind in scope.own.items() if isinstance(kind, NodeType))
        early = tuple(item for item in where if item not in late)
        return Match(nodes, tuple(steps), early, tuple(late), tuple(optional), tuple(absent))

    def _check_blocks(self, clauses: Iterable[q.Clause]) -> None:
        for item in clauses:
            if isinstance(item, q.Absent | q.Optional) and not item.clauses:
                word = "not" if isinstance(item, q.Absent) else "optional"
                self.diagnostics.add(item.at, f"{word} {{ }} says nothing", "fill it, or remove it")

    def _optional(self, item: q.Optional, scope: _Scope) -> Match:
        inner = _Scope(around={**scope.around, **scope.own})
        made = self.block(item.clauses, inner)
        for name, kind in {**inner.own, **inner.optional}.items():
            if name in scope.optional:
                self.diagnostics.add(item.at, f"${name} is bound by another optional block", "rename one")
            scope.optional[name] = kind
        return made

    def _named(self, item: q.Traversal) -> q.Traversal:
        """The traversal with a name of its own for each `$_`."""
        return q.Traversal(
            self._fresh(item.src), item.verb, self._fresh(item.dst), item.hops, item.edge, item.fields, item.at
        )

    def _fresh(self, variable: q.Variable) -> q.Variable:
        if variable.name != ANONYMOUS:
            return variable
        self.unnamed += 1
        return q.Variable(f"{ANONYMOUS}{self.unnamed}", variable.at)

    def _declare_pattern(self, pattern: q.Pattern, scope: _Scope) -> None:
        found = self.schema.find(pattern.type)
        if isinstance(found, NodeType):
            self._declare(pattern.variable, found, scope)
        elif isinstance(found, EdgeType):
            hint = f"write $a {found.verb} $b as ${pattern.variable.name}"
            self.diagnostics.add(pattern.at, f"{found.name} is an edge type", hint)
        elif pattern.type in [item.name for item in self.schema.interfaces]:
            having = [node.name for node in self.schema.nodes if pattern.type in node.implements]
            self.diagnostics.add(pattern.at, f"{pattern.type} is an interface", f"name one of {', '.join(having)}")
        else:
            known = [node.name for node in self.schema.nodes]
            self.diagnostics.add(pattern.at, f"there is no node type {pattern.type}", nearest(pattern.type, known))

    def _declare(self, variable: q.Variable, kind: TableType, scope: _Scope) -> None:
        name = variable.name
        if name in self.parameters:
            self.diagnostics.add(variable.at, f"${name} is a parameter", "give the variable another name")
        before = scope.own.get(name) or scope.around.get(name)
        if before is None:
            scope.own[name] = kind
        elif before.name != kind.name:
            self.diagnostics.add(variable.at, f"${name} is a {before.name}, and here a {kind.name}", "rename one")

    def _step(self, item: q.Traversal, scope: _Scope) -> Step | None:
        edge = self.schema.find_edge(item.verb)
        if edge is None:
            known = [each.verb for each in self.schema.edges]
            self.diagnostics.add(item.at, f"there is no edge {item.verb}", nearest(item.verb, known))
            for end in (item.src, item.dst, item.edge):
                if end is not None and end.name not in scope.visible():
                    scope.own[end.name] = ANYTHING
            return None
        for end, kind in ((item.src, edge.src), (item.dst, edge.dst)):
            node = self.schema.find_node(kind)
            assert node is not None
            self._declare(end, node, scope)
        if item.edge is not None:
            self._declare_edge(item.edge, edge, item, scope)
        self._check_hops(item, edge)
        name = item.edge.name if item.edge is not None else ""
        return Step(edge, item.src.name, item.dst.name, item.hops, name)

    def _declare_edge(self, variable: q.Variable, edge: EdgeType, item: q.Traversal, scope: _Scope) -> None:
        if item.hops is not None:
            self.diagnostics.add(variable.at, "a path of several hops has no one edge", "remove as, or the hops")
        if variable.name in scope.visible():
            self.diagnostics.add(variable.at, f"${variable.name} is taken", "name each edge once")
        elif variable.name == ANONYMOUS:
            self.diagnostics.add(variable.at, "an edge without a name needs no as", "remove it")
        else:
            self._declare(variable, edge, scope)

    def _check_hops(self, item: q.Traversal, edge: EdgeType) -> None:
        hops = item.hops
        if hops is None:
            return
        if hops.min < 1 or (hops.max is not None and hops.max < hops.min):
            self.diagnostics.add(item.at, f"{hops.min},{hops.max} is no number of hops", "such as {1,3} or {2}")
        elif hops.max is None and hops.min > 1:
            self.diagnostics.add(item.at, "hops without end start at 1", "write {1,}, or give the most")
        elif (hops.max or 0) > _MOST_HOPS:
            self.diagnostics.add(item.at, f"at most {_MOST_HOPS} hops are walked", "write {1,} for all there are")
        elif hops.max != 1 and edge.src != edge.dst:
            self.diagnostics.add(
                item.at, f"{edge.verb} leads from {edge.src} to {edge.dst}, so it has one hop", "write each step"
            )

    def _where(
        self,
        clauses: tuple[q.Clause, ...],
        patterns: list[q.Pattern],
        traversals: list[q.Traversal],
        scope: _Scope,
    ) -> list[Predicate]:
        conditions = Conditions(self.diagnostics, lambda operand: self._resolve(operand, scope))
        found: list[Predicate] = []
        for pattern in patterns:
            found += self._fields(pattern.variable, pattern.fields, conditions, scope)
        for item in traversals:
            if item.edge is not None:
                found += self._fields(item.edge, item.fields, conditions, scope)
        for clause in clauses:
            if isinstance(clause, q.Filter):
                found += conjuncts(conditions.read(clause.expression))
        return found

    def _fields(
        self, variable: q.Variable, fields: tuple[q.Field, ...], conditions: Conditions, scope: _Scope
    ) -> list[Predicate]:
        if variable.name not in scope.visible():
            return []
        found = []
        for item in fields:
            left = q.PropertyOf(variable.name, item.name, item.at)
            found.append(conditions.compare(left, "=", item.value, item.at))
        return [part for item in found for part in conjuncts(item)]

    def _resolve(self, operand: q.Operand, scope: _Scope) -> Resolved | None:
        if isinstance(operand, q.PropertyOf):
            return self._property(operand, scope)
        if isinstance(operand, q.Variable):
            if operand.name in self.parameters:
                return Resolved(Slot(operand.name, self.parameters[operand.name].type))
            kind = scope.visible().get(operand.name)
            if kind is not None:
                return Resolved(ColumnRef(ID, PropertyType(Kind.STRING), operand.name), node=kind.name)
            self.unknown(operand.name, operand.at, scope.visible())
            return None
        at = getattr(operand, "at", Span())
        name = getattr(operand, "name", "")
        self.diagnostics.add(at, f"{name} belongs to nothing here", f"write $a.{name} for a variable $a")
        return None

    def _property(self, operand: q.PropertyOf, scope: _Scope) -> Resolved | None:
        found = find_column(operand, scope.visible(), self.parameters, self.diagnostics)
        return None if found is None else Resolved(found)

    def unknown(self, name: str, at: Span, known: Mapping[str, TableType]) -> None:
        names = [f"${item}" for item in (*known, *self.parameters)]
        self.diagnostics.add(at, f"there is no ${name}", nearest(f"${name}", names))

    def limit(self, limit: int | q.Variable | None) -> int | str | None:
        if not isinstance(limit, q.Variable):
            if limit is not None and not 0 <= limit < 2**62:
                self.diagnostics.add(Span(), f"limit {limit} is no number of rows", "use a whole number from 0")
            return limit
        found = self.parameters.get(limit.name)
        if found is None or found.type.kind not in INTEGERS or found.type.is_list or found.nullable:
            self.diagnostics.add(limit.at, f"limit takes a whole number, and ${limit.name} is none", "declare it U32")
        return limit.name
