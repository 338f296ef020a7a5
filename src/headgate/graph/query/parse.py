"""From query text to its tree; `check` looks the names up."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, v_args
from lark.tree import Meta

from headgate.graph.language.diagnostics import Diagnostics, Source, diagnosing
from headgate.graph.language.files import read_source
from headgate.graph.language.grammar import literal_of, load_grammar, parse_text, span_of
from headgate.graph.query import syntax as q
from headgate.graph.schema.syntax import TypeBuild, TypeText
from headgate.graph.schema.types import read_type


@v_args(inline=True)
class _Build(TypeBuild):
    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__()
        self._diagnostics = diagnostics

    def start(self, *queries: q.Query) -> tuple[q.Query, ...]:
        return queries

    def query(self, name: Token, params: Any, body: Any) -> q.Query:
        return q.Query(str(name), params or (), body, span_of(name))

    def params(self, *params: q.Parameter) -> tuple[q.Parameter, ...]:
        return params

    def param(self, variable: Token, declared: TypeText, optional: Token | None) -> q.Parameter:
        made = read_type(declared, self._diagnostics)
        return q.Parameter(str(variable)[1:], made, optional is not None, span_of(variable))

    def read(self, clauses: Any, returned: Any, order: Any, limit: Any) -> q.Read:
        distinct, items = returned
        return q.Read(clauses, items, distinct, order or (), limit)

    def match(self, *clauses: q.Clause) -> tuple[q.Clause, ...]:
        return clauses

    @v_args(meta=True, inline=True)
    def pattern(self, meta: Meta, variable: Token, name: Token, fields: Any) -> q.Pattern:
        return q.Pattern(_variable(variable), str(name), fields or (), span_of(name))

    def traversal(self, src: Token, verb: Token, hops: Any, dst: Token, edge: Token | None, fields: Any) -> q.Traversal:
        name = _variable(edge) if edge is not None else None
        return q.Traversal(_variable(src), str(verb), _variable(dst), hops, name, fields or (), span_of(verb))

    def exactly(self, count: Token) -> q.Hops:
        return q.Hops(int(count), int(count))

    def between(self, low: Token, high: Token | None) -> q.Hops:
        return q.Hops(int(low), None if high is None else int(high))

    @v_args(meta=True, inline=True)
    def absent(self, meta: Meta, *clauses: q.Clause) -> q.Absent:
        return q.Absent(clauses, span_of(meta))

    @v_args(meta=True, inline=True)
    def optional(self, meta: Meta, *clauses: q.Clause) -> q.Optional:
        return q.Optional(clauses, span_of(meta))

    def filter(self, expression: q.Expression) -> q.Filter:
        return q.Filter(expression)

    def fields(self, *fields: q.Field | None) -> tuple[q.Field, ...]:
        return tuple(item for item in fields if item is not None)

    def field(self, name: Token, value: q.Value) -> q.Field:
        return q.Field(str(name), value, span_of(name))

    def return_(self, distinct: Token | None, *items: q.Item | None) -> tuple[bool, tuple[q.Item, ...]]:
        return distinct is not None, tuple(item for item in items if item is not None)

    def item(self, value: Any, alias: Token | None) -> q.Item:
        return q.Item(value, None if alias is None else str(alias), value.at)

    @v_args(meta=True, inline=True)
    def aggregate(self, meta: Meta, function: Token, distinct: Token | None, argument: Any) -> q.Aggregate:
        given = None if isinstance(argument, Token) else argument
        return q.Aggregate(str(function), given, distinct is not None, span_of(meta))

    def order(self, *sorts: q.Sort) -> tuple[q.Sort, ...]:
        return sorts

    def sort(self, by: Any, direction: Token | None) -> q.Sort:
        return q.Sort(by, direction is not None and str(direction) == "desc")

    def limit(self, count: Token) -> int | q.Variable:
        return _variable(count) if count.type == "VAR" else int(count)

    def mutation(self, *statements: q.Statement) -> q.Mutation:
        return q.Mutation(statements)

    def insert(self, name: Token, fields: Any) -> q.Insert:
        return q.Insert(str(name), fields, span_of(name))

    def update(self, name: Token, fields: Any, where: q.Expression) -> q.Update:
        return q.Update(str(name), fields, where, span_of(name))

    def delete(self, name: Token, where: q.Expression) -> q.Delete:
        return q.Delete(str(name), where, span_of(name))

    def everything(self, _word: Token) -> q.Everything:
        return q.Everything()

    def or_(self, *parts: q.Expression) -> q.Or:
        return q.Or(_flat(parts, q.Or))

    def and_(self, *parts: q.Expression) -> q.And:
        return q.And(_flat(parts, q.And))

    @v_args(meta=True, inline=True)
    def negation(self, meta: Meta, inner: q.Expression) -> q.Not:
        return q.Not(inner, span_of(meta))

    @v_args(meta=True, inline=True)
    def compare(self, meta: Meta, left: Any, op: Token, right: Any) -> q.Compare:
        return q.Compare(left, str(op), right, span_of(meta))  # type: ignore[arg-type]

    @v_args(meta=True, inline=True)
    def member(self, meta: Meta, left: Any, negated: Token | None, right: Any) -> q.Member:
        return q.Member(left, right, negated is not None, span_of(meta))

    @v_args(meta=True, inline=True)
    def contains(self, meta: Meta, left: Any, right: Any) -> q.Contains:
        return q.Contains(left, right, span_of(meta))

    @v_args(meta=True, inline=True)
    def starts_with(self, meta: Meta, left: Any, right: Any) -> q.StartsWith:
        return q.StartsWith(left, right, span_of(meta))

    @v_args(meta=True, inline=True)
    def null_test(self, meta: Meta, operand: Any, negated: Token | None) -> q.NullTest:
        return q.NullTest(operand, negated is not None, span_of(meta))

    @v_args(meta=True, inline=True)
    def property(self, meta: Meta, variable: Token, name: Token) -> q.PropertyOf:
        return q.PropertyOf(str(variable)[1:], str(name), span_of(meta))

    def variable(self, token: Token) -> q.Variable:
        return _variable(token)

    def column(self, token: Token) -> q.Column:
        return q.Column(str(token), span_of(token))

    def literal(self, token: Token) -> q.LiteralValue:
        if token.type in ("TRUE", "FALSE", "NULL"):
            return q.LiteralValue({"TRUE": True, "FALSE": False, "NULL": None}[token.type], span_of(token))
        return q.LiteralValue(literal_of(token), span_of(token))

    @v_args(meta=True, inline=True)
    def list_literal(self, meta: Meta, *values: Any) -> q.ListValue:
        return q.ListValue(tuple(value for value in values if value is not None), span_of(meta))


def _variable(token: Token) -> q.Variable:
    return q.Variable(str(token)[1:], span_of(token))


def _flat(parts: tuple[q.Expression, ...], kind: type[q.And] | type[q.Or]) -> tuple[q.Expression, ...]:
    """`(a and b) and c` is `a and b and c`."""
    return tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))


@cache
def _parser() -> Lark:
    return load_grammar("headgate.graph.query")


@lru_cache(maxsize=256)
def _kept(text: str, name: str) -> tuple[q.Query, ...]:
    source = Source(text, name)
    with diagnosing(source) as diagnostics:
        queries: tuple[q.Query, ...] = parse_text(_parser(), _Build(diagnostics), source, diagnostics)
        seen: set[str] = set()
        for query in queries:
            if query.name in seen:
                diagnostics.add(query.at, f"there are two queries named {query.name}", "rename one")
            seen.add(query.name)
        return queries


def parse_queries(text: str, *, name: str = "query") -> tuple[q.Query, ...]:
    """Every query of a text, or `InvalidInput` with what is wrong."""
    return _kept(text, name)


def read_queries(path: Path) -> tuple[q.Query, ...]:
    """Every query of a `.gq` file."""
    source = read_source(path)
    return parse_queries(source.text, name=source.name)
