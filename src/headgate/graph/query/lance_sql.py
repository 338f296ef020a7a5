"""A bound condition as the SQL that Lance filters with; built as a tree, so that no value can be read as SQL.

Lance takes backticks for names, and reads "double quotes" as a text: a filter quoted the usual way finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect

from headgate.graph.query.predicate import (
    AllOf,
    Always,
    AnyOf,
    ColumnRef,
    CompareOp,
    Comparison,
    Constant,
    InSet,
    IsNull,
    Predicate,
    Term,
    TextTest,
    all_of,
)
from headgate.graph.schema.model import FLOATS, Kind, PropertyType

_LEAST_INTEGER = -(2**63)
STRING = PropertyType(Kind.STRING)


class Lance(Dialect):  # type: ignore[misc]
    """Text doubles its single quotes and knows no backslash; names stand in backticks."""

    class Tokenizer(tokens.Tokenizer):  # type: ignore[misc]
        IDENTIFIERS = ("`",)


_COMPARE: dict[CompareOp, type[exp.Expression]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}


def lance_sql(predicate: Predicate) -> str | None:
    """The filter for a scan; None where the condition keeps every row."""
    if predicate == Always(True):
        return None
    # The tree was made for this one text, so it need not be copied.
    return str(_tree(predicate).sql(dialect=Lance, normalize_functions=False, copy=False))


def ids_in(column: str, ids: Iterable[str]) -> Predicate:
    """The rows whose column holds one of these ids."""
    values = list(ids)
    ref = ColumnRef(column, STRING)
    if len(values) == 1:
        return Comparison(ref, "=", Constant(values[0], STRING))
    return InSet(ref, Constant(values, PropertyType(Kind.STRING, is_list=True)))


def lookup_sql(column: str, ids: Iterable[str], also: Predicate) -> str:
    """The filter for the rows whose column holds one of these ids, and for which `also` holds."""
    made = lance_sql(all_of([ids_in(column, ids), also]))
    assert made is not None
    return made


def _tree(predicate: Predicate) -> exp.Expression:
    match predicate:
        case Always(holds):
            return exp.Boolean(this=holds)
        case AllOf(parts):
            return exp.and_(*(_tree(part) for part in parts), copy=False)
        case AnyOf(parts):
            return exp.or_(*(_tree(part) for part in parts), copy=False)
        case IsNull(term, negated):
            test = exp.Is(this=_term(term), expression=exp.Null())
            return exp.Not(this=test) if negated else test
        case Comparison(left, op, right):
            return _COMPARE[op](this=_term(left, right), expression=_term(right, left))
        case InSet():
            return _in_set(predicate)
        case TextTest(test, left, right, negated):
            call = exp.Anonymous(this=test, expressions=[_term(left), _term(right)])
            return exp.Not(this=call) if negated else call


def _in_set(predicate: InSet) -> exp.Expression:
    left, right = predicate.left, predicate.right
    if isinstance(right, Constant):
        element = right.type.element
        values = [_literal(value, element, left) for value in right.value]
        test: exp.Expression = exp.In(this=_term(left), expressions=values)
    else:
        test = exp.Anonymous(this="array_has", expressions=[_term(right), _term(left, right)])
    if not predicate.negated:
        return test
    # Of two such lists without a common member Lance's planner makes TRUE, null or not; so null is ruled out in words.
    known = [
        exp.Not(this=exp.Is(this=_term(term), expression=exp.Null())) for term in (left, right) if _may_be_null(term)
    ]
    return exp.and_(*known, exp.Not(this=exp.Paren(this=test)))


def _may_be_null(term: Term) -> bool:
    return isinstance(term, ColumnRef)


def _term(term: Term, other: Term | None = None) -> exp.Expression:
    if isinstance(term, ColumnRef):
        return exp.column(term.column, quoted=True)
    if isinstance(term, Constant):
        return _literal(term.value, term.type, other)
    raise TypeError(f"the parameter ${term.parameter} has no value yet")


def _literal(value: Any, declared: PropertyType, other: Term | None) -> exp.Expression:
    """A value as SQL, in the type of the column it is held against where that is narrower."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, datetime):
        return _cast(exp.Literal.string(value.astimezone(UTC).isoformat()), "timestamp")
    if isinstance(value, date):
        return _cast(exp.Literal.string(value.isoformat()), "date")
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, bytes):
        return exp.HexString(this=value.hex())
    if value == _LEAST_INTEGER and isinstance(value, int):
        # A minus is an operator there, and what it would be applied to is no 64-bit integer.
        return _cast(exp.Literal.string(str(value)), "bigint")
    kind = other.type.kind if isinstance(other, ColumnRef) else declared.kind
    number = exp.Literal.number(repr(float(value)) if kind in FLOATS else repr(value))
    return _cast(number, "float") if kind is Kind.F32 else number


def _cast(value: exp.Expression, to: str) -> exp.Expression:
    return exp.Cast(this=value, to=exp.DataType.build(to))
