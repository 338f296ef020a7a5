"""A query text as it stands, before anything is looked up. Equality ignores the places."""

# ruff: noqa: RUF009 -- `_at` makes a dataclass field, which has to be made anew for each class
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from headgate.graph.language.diagnostics import NOWHERE, Span
from headgate.graph.schema.model import PropertyType

Scalar = str | bool | int | float


def _at() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Variable:
    """`$a`: a parameter, or a variable of the match."""

    name: str
    at: Span = _at()


@dataclass(frozen=True)
class PropertyOf:
    """`$a.name`."""

    variable: str
    name: str
    at: Span = _at()


@dataclass(frozen=True)
class Column:
    """A bare name: a property in a mutation's `where`, a result column in `order`."""

    name: str
    at: Span = _at()


@dataclass(frozen=True)
class LiteralValue:
    value: Scalar | None
    at: Span = _at()


@dataclass(frozen=True)
class ListValue:
    values: tuple[LiteralValue | ListValue, ...]
    at: Span = _at()


Operand = Variable | PropertyOf | Column | LiteralValue | ListValue
Value = Variable | LiteralValue | ListValue
CompareOp = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Compare:
    left: Operand
    op: CompareOp
    right: Operand
    at: Span = _at()


@dataclass(frozen=True)
class Member:
    """`left in right`."""

    left: Operand
    right: Operand
    negated: bool = False
    at: Span = _at()


@dataclass(frozen=True)
class Contains:
    left: Operand
    right: Operand
    at: Span = _at()


@dataclass(frozen=True)
class StartsWith:
    left: Operand
    right: Operand
    at: Span = _at()


@dataclass(frozen=True)
class NullTest:
    operand: Operand
    negated: bool = False
    at: Span = _at()


@dataclass(frozen=True)
class Not:
    inner: Expression
    at: Span = _at()


@dataclass(frozen=True)
class And:
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Everything:
    """`where true`."""


Expression = Compare | Member | Contains | StartsWith | NullTest | Not | And | Or | Everything


@dataclass(frozen=True)
class Field:
    name: str
    value: Value
    at: Span = _at()


@dataclass(frozen=True)
class Pattern:
    """`$a: Person { name: "x" }`."""

    variable: Variable
    type: str
    fields: tuple[Field, ...] = ()
    at: Span = _at()


@dataclass(frozen=True)
class Hops:
    min: int
    max: int | None


@dataclass(frozen=True)
class Traversal:
    """`$a knows{1,3} $b as $e { … }`."""

    src: Variable
    verb: str
    dst: Variable
    hops: Hops | None = None
    edge: Variable | None = None
    fields: tuple[Field, ...] = ()
    at: Span = _at()


@dataclass(frozen=True)
class Absent:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    at: Span = _at()


@dataclass(frozen=True)
class Optional:
    """`optional { … }`."""

    clauses: tuple[Clause, ...]
    at: Span = _at()


@dataclass(frozen=True)
class Filter:
    expression: Expression


Clause = Pattern | Traversal | Absent | Optional | Filter


@dataclass(frozen=True)
class Aggregate:
    """`count(distinct $a.name)`; no argument is `*`."""

    function: str
    argument: PropertyOf | Variable | Aggregate | None
    distinct: bool = False
    at: Span = _at()


@dataclass(frozen=True)
class Item:
    value: PropertyOf | Variable | Aggregate
    alias: str | None = None
    at: Span = _at()


@dataclass(frozen=True)
class Sort:
    by: PropertyOf | Column
    descending: bool = False


@dataclass(frozen=True)
class Read:
    clauses: tuple[Clause, ...]
    items: tuple[Item, ...]
    distinct: bool = False
    order: tuple[Sort, ...] = ()
    limit: int | Variable | None = None


@dataclass(frozen=True)
class Insert:
    type: str
    fields: tuple[Field, ...]
    at: Span = _at()


@dataclass(frozen=True)
class Update:
    type: str
    fields: tuple[Field, ...]
    where: Expression
    at: Span = _at()


@dataclass(frozen=True)
class Delete:
    type: str
    where: Expression
    at: Span = _at()


Statement = Insert | Update | Delete


@dataclass(frozen=True)
class Mutation:
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Parameter:
    name: str
    type: PropertyType
    nullable: bool = False
    at: Span = _at()


@dataclass(frozen=True)
class Query:
    name: str
    parameters: tuple[Parameter, ...]
    body: Read | Mutation
    at: Span = _at()
