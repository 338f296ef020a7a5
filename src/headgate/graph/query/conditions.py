"""From the text of a condition to a typed predicate: operands are resolved, literals take the other side's type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.graph.language.diagnostics import Diagnostics, Span, nearest
from headgate.graph.query import syntax as q
from headgate.graph.query.predicate import (
    OPPOSITE,
    TRUE,
    CompareOp,
    Comparison,
    Constant,
    InSet,
    IsNull,
    Predicate,
    Slot,
    Term,
    TextTest,
    all_of,
    any_of,
    endpoint_id,
)
from headgate.graph.schema.model import FLOATS, INTEGERS, NUMBERS, TIMES, Kind, NodeType, PropertyType
from headgate.graph.schema.values import BadValue, coerce_type

_TEXTS = frozenset({Kind.STRING, Kind.ENUM})
_COMPARED = NUMBERS | TIMES | _TEXTS | {Kind.BOOL}
_INEQUALITIES: tuple[CompareOp, ...] = ("<", "<=", ">", ">=")

Resolve = Callable[[q.Operand], "Resolved | None"]
"""What a variable, property or column stands for in this place; None once the problem has been told."""


@dataclass(frozen=True)
class Resolved:
    """A term, and the node type it names a member of where it stands for a node."""

    term: Term
    node: str = ""
    endpoint: NodeType | None = None
    """Set for `from` and `to`: values held against it are keys of this type."""


@dataclass(frozen=True)
class Conditions:
    """Reads the conditions of one query."""

    diagnostics: Diagnostics
    resolve: Resolve

    def read(self, expression: q.Expression, *, negated: bool = False) -> Predicate:
        """The condition, or its negation; a part that is wrong is told and taken as true."""
        match expression:
            case q.Everything():
                return TRUE
            case q.And(parts):
                made = [self.read(part, negated=negated) for part in parts]
                return any_of(made) if negated else all_of(made)
            case q.Or(parts):
                made = [self.read(part, negated=negated) for part in parts]
                return all_of(made) if negated else any_of(made)
            case q.Not(inner):
                return self.read(inner, negated=not negated)
            case q.Compare(left, op, right, at):
                return self.compare(left, OPPOSITE[op] if negated else op, right, at)
            case q.Member(left, right, inverted, at):
                return self._member(left, right, at, negated=negated != inverted)
            case q.Contains(left, right, at):
                return self._contains(left, right, at, negated=negated)
            case q.StartsWith(left, right, at):
                return self._text_test("starts_with", left, right, at, negated=negated)
            case q.NullTest(operand, inverted, at):
                found = self._operand(operand)
                if isinstance(found, q.LiteralValue | q.ListValue):
                    self.diagnostics.add(at, "a literal is never null", "test a property")
                return IsNull(found.term, negated != inverted) if isinstance(found, Resolved) else TRUE

    def compare(self, left: q.Operand, op: CompareOp, right: q.Operand, at: Span) -> Predicate:
        sides = self._operand(left), self._operand(right)
        if sides[0] is None or sides[1] is None:
            return TRUE
        if not any(isinstance(side, Resolved) for side in sides):
            self.diagnostics.add(at, "this compares two literals", "compare a property")
            return TRUE
        if any(isinstance(side, Resolved) and side.node for side in sides):
            return self._compare_nodes(sides[0], op, sides[1], at)
        terms = self._typed(sides[0], sides[1]), self._typed(sides[1], sides[0])
        if terms[0] is None or terms[1] is None:
            return TRUE
        if not self._check_pair(terms[0].type, op, terms[1].type, at):
            return TRUE
        return Comparison(terms[0], op, terms[1])

    def _compare_nodes(self, left: Any, op: CompareOp, right: Any, at: Span) -> Predicate:
        nodes = [side.node if isinstance(side, Resolved) else "" for side in (left, right)]
        if not all(nodes):
            self.diagnostics.add(at, "a node is only equal to a node", "compare its .id, or a property")
        elif nodes[0] != nodes[1]:
            self.diagnostics.add(at, f"a {nodes[0]} is never a {nodes[1]}", "compare variables of one type")
        elif op in _INEQUALITIES:
            self.diagnostics.add(at, f"nodes have no order for {op}", "compare a property")
        else:
            return Comparison(left.term, op, right.term)
        return TRUE

    def _check_pair(self, left: PropertyType, op: str, right: PropertyType, at: Span) -> bool:
        for side in (left, right):
            if side.is_list or side.kind not in _COMPARED:
                self.diagnostics.add(at, f"a {side} cannot be compared with {op}", "use contains, or is null")
                return False
        if not comparable(left, right):
            self.diagnostics.add(at, f"a {left} is never compared with a {right}", "compare values of one kind")
            return False
        if op in _INEQUALITIES and (left.kind in (Kind.BOOL, Kind.ENUM)):
            self.diagnostics.add(at, f"a {left} has no order for {op}", "use = or in")
            return False
        return True

    def _member(self, left: q.Operand, right: q.Operand, at: Span, *, negated: bool) -> Predicate:
        value, members = self._operand(left), self._operand(right)
        if value is None or members is None:
            return TRUE
        if isinstance(members, q.LiteralValue) or (isinstance(members, Resolved) and not members.term.type.is_list):
            self.diagnostics.add(at, "in needs a list on its right", "such as [1, 2] or a list parameter")
            return TRUE
        return self._in_set(value, members, at, negated=negated)

    def _in_set(self, value: Any, members: Any, at: Span, *, negated: bool) -> Predicate:
        if isinstance(members, q.ListValue):
            if not isinstance(value, Resolved):
                self.diagnostics.add(at, "this looks a literal up in a literal", "test a property")
                return TRUE
            values = self._list(members, value)
            return TRUE if values is None else InSet(value.term, values, negated)
        element = Resolved(members.term, endpoint=members.endpoint)
        term = self._typed(value, element, element_of=True)
        if term is None:
            return TRUE
        if isinstance(value, Resolved) and value.endpoint is not None and isinstance(members.term, Slot):
            members = Resolved(Slot(members.term.parameter, members.term.type, value.endpoint))
        elif not self._check_pair(term.type, "in", members.term.type.element, at):
            return TRUE
        return InSet(term, members.term, negated)

    def _list(self, members: q.ListValue, against: Resolved) -> Constant | None:
        made = [self._typed(value, against) for value in members.values]
        if any(term is None for term in made):
            return None
        constants = [term for term in made if isinstance(term, Constant)]
        if any(item.value is None for item in constants):
            self.diagnostics.add(members.at, "a list for in has no nulls", "use is null besides")
            return None
        kinds = {item.type.kind for item in constants}
        kind = Kind.F64 if kinds & FLOATS else Kind.U64 if Kind.U64 in kinds else None
        declared = PropertyType(kind) if kind else constants[0].type if constants else against.term.type
        values = declared.values
        return Constant([item.value for item in constants], PropertyType(declared.kind, True, values))

    def _contains(self, left: q.Operand, right: q.Operand, at: Span, *, negated: bool) -> Predicate:
        whole = self._operand(left)
        if isinstance(whole, Resolved) and whole.term.type.is_list:
            part = self._operand(right)
            return TRUE if part is None else self._in_set(part, whole, at, negated=negated)
        return self._text_test("contains", left, right, at, negated=negated)

    def _text_test(self, test: Any, left: q.Operand, right: q.Operand, at: Span, *, negated: bool) -> Predicate:
        terms: list[Term] = []
        for operand in (left, right):
            side = self._operand(operand)
            term = None if side is None else self._typed(side, _TEXT)
            if term is None:
                return TRUE
            if term.type.is_list or term.type.kind not in _TEXTS:
                self.diagnostics.add(at, f"{test} is for texts, and this is {term.type}", "compare it with =")
                return TRUE
            terms.append(term)
        return TextTest(test, terms[0], terms[1], negated)

    def _operand(self, operand: q.Operand) -> Resolved | q.LiteralValue | q.ListValue | None:
        return operand if isinstance(operand, q.LiteralValue | q.ListValue) else self.resolve(operand)

    def _typed(self, side: Any, other: Any, *, element_of: bool = False) -> Term | None:
        """A side as a term; a literal becomes a constant of the other side's type."""
        endpoint = other.endpoint if isinstance(other, Resolved) else None
        if isinstance(side, Resolved):
            term = side.term
            if endpoint is not None and isinstance(term, Slot):
                return Slot(term.parameter, PropertyType(Kind.STRING, term.type.is_list), endpoint)
            return term
        declared = other.term.type.element if element_of else other.term.type
        return self._constant(side, declared, endpoint)

    def _constant(self, literal: Any, declared: PropertyType, endpoint: NodeType | None) -> Constant | None:
        try:
            if endpoint is not None:
                return Constant(endpoint_id(endpoint, literal_value(literal)), PropertyType(Kind.STRING))
            if isinstance(literal, q.ListValue):
                raise BadValue("type", "a list stands only on the right of in")
            if literal.value is None:
                raise BadValue("null", "nothing equals null; write is null")
            return constant(literal.value, declared)
        except BadValue as problem:
            self.diagnostics.add(literal.at, problem.message, _member_hint(literal, declared))
            return None


_TEXT = Resolved(Constant("", PropertyType(Kind.STRING)))


def _member_hint(literal: Any, declared: PropertyType) -> str:
    if declared.kind is Kind.ENUM and isinstance(getattr(literal, "value", None), str):
        return nearest(literal.value, declared.values)
    return ""


def comparable(left: PropertyType, right: PropertyType) -> bool:
    """Whether values of these types can be equal."""
    return any({left.kind, right.kind} <= family for family in (NUMBERS, _TEXTS, {left.kind}))


def constant(value: Any, declared: PropertyType) -> Constant:
    """A literal for a comparison with a type: a number keeps its own width, so that `age < 3.5` means what it says."""
    if declared.kind not in NUMBERS:
        return Constant(coerce_type(declared, value, name="the literal"), declared)
    if isinstance(value, float):
        return Constant(value, PropertyType(Kind.F64))
    kind = Kind.U64 if isinstance(value, int) and value >= 2**63 else Kind.I64
    return Constant(coerce_type(PropertyType(kind), value, name="the literal"), PropertyType(kind))


def literal_value(literal: q.LiteralValue | q.ListValue) -> Any:
    """A literal as JSON would give it."""
    if isinstance(literal, q.ListValue):
        return [literal_value(value) for value in literal.values]
    return literal.value


def assignable(given: PropertyType, declared: PropertyType) -> bool:
    """Whether a parameter of one type may be stored in a property of another; whether the value fits is for later."""
    if given.is_list != declared.is_list:
        return False
    if given.kind is Kind.VECTOR or declared.kind is Kind.VECTOR:
        return given.element == declared.element
    if given.kind in INTEGERS and declared.kind in NUMBERS:
        return True
    return any({given.kind, declared.kind} <= family for family in (FLOATS, _TEXTS, {declared.kind}))
