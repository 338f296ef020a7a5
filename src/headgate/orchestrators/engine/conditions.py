"""The condition of a DO_WHILE: the part of JavaScript that such conditions are made of.

Comparisons, `&&`, `||`, `!`, `+`, `-`, numbers, texts, and `$.ref['key']`; alone, or as
`if (…) { true; } else { false; }`. Anything else is refused when the workflow is loaded. Values compare as in
JavaScript for what JSON can hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

Node: TypeAlias = Callable[[Mapping[str, Any]], Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>'[^'\\]*'|"[^"\\]*")|(?P<word>\$|[A-Za-z_][\w]*)"""
    r"""|(?P<mark>===|!==|==|!=|<=|>=|&&|\|\||[<>!()\[\]{}.;+-]))"""
)
_LITERALS = {"true": True, "false": False, "null": None}


class _Undefined:
    """What JavaScript finds where there is nothing."""


UNDEFINED = _Undefined()


class NotACondition(ValueError):
    """Says what in a condition cannot be read."""


@dataclass(frozen=True)
class Condition:
    """A condition that can be asked."""

    text: str
    roots: frozenset[str]
    node: Node

    def holds(self, variables: Mapping[str, Any]) -> bool:
        return truthy(self.node(variables))


@lru_cache(maxsize=256)
def parse(text: str) -> Condition:
    """The condition a text holds; `NotACondition` for what the engine does not read."""
    parser = _Parser(text)
    node = parser.program()
    return Condition(text, frozenset(parser.roots), node)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.roots, self.tokens, self.at = text, set[str](), list[tuple[str, str]](), 0
        place, end = 0, len(text.rstrip())
        while place < end:
            found = _TOKEN.match(text, place)
            if found is None:
                raise NotACondition(f"{text!r} cannot be read from {text[place:].strip()[:20]!r} on")
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            place = found.end()

    def program(self) -> Node:
        node = self.choice() if self.sees("if") else self.either()
        self.take_if(";")
        if self.at < len(self.tokens):
            raise NotACondition(f"{self.text!r} goes on with {self.tokens[self.at][1]!r} where it should end")
        return node

    def choice(self) -> Node:
        self.take("if")
        self.take("(")
        condition = self.either()
        self.take(")")
        then = self.block()
        self.take("else")
        otherwise = self.block()
        return lambda known: then(known) if truthy(condition(known)) else otherwise(known)

    def block(self) -> Node:
        self.take("{")
        self.take_if("return")
        node = self.either()
        self.take_if(";")
        self.take("}")
        return node

    def either(self) -> Node:
        node = self.both()
        while self.take_if("||"):
            node = _or(node, self.both())
        return node

    def both(self) -> Node:
        node = self.negation()
        while self.take_if("&&"):
            node = _and(node, self.negation())
        return node

    def negation(self) -> Node:
        if self.take_if("!"):
            inner = self.negation()
            return lambda known: not truthy(inner(known))
        return self.comparison()

    def comparison(self) -> Node:
        left = self.sum()
        if self.at < len(self.tokens) and self.tokens[self.at][1] in _COMPARE and self.tokens[self.at][0] == "mark":
            compare = _COMPARE[self.next()[1]]
            right = self.sum()
            return lambda known: compare(left(known), right(known))
        return left

    def sum(self) -> Node:
        node = self.value()
        while self.sees("+") or self.sees("-"):
            node = _sum(node, self.next()[1], self.value())
        return node

    def value(self) -> Node:
        kind, token = self.next()
        if kind == "number":
            number = float(token) if "." in token else int(token)
            return lambda known: number
        if kind == "text":
            inner = token[1:-1]
            return lambda known: inner
        if token == "(":
            node = self.either()
            self.take(")")
            return node
        if token == "-":
            operand = self.value()
            return lambda known: -number_of(operand(known))
        if token in _LITERALS:
            literal = _LITERALS[token]
            return lambda known: literal
        if token == "$":
            return self.path()
        raise NotACondition(f"{self.text!r} has {token!r}, which is not supported")

    def path(self) -> Node:
        keys: list[str | int] = []
        while self.sees(".") or self.sees("["):
            dotted = self.next()[1] == "."
            kind, token = self.next()
            if (dotted and kind != "word") or (not dotted and kind not in ("text", "number")) or token == "$":
                raise NotACondition(f"{self.text!r} has a path that goes on with {token!r}")
            keys.append(token if dotted else token[1:-1] if kind == "text" else int(float(token)))
            if not dotted:
                self.take("]")
        if not keys:
            raise NotACondition(f"{self.text!r} has a $ that names nothing; write $.ref['key']")
        self.roots.add(str(keys[0]))
        return lambda known: _follow(known, keys)

    def next(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise NotACondition(f"{self.text!r} ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def sees(self, token: str) -> bool:
        kind = self.tokens[self.at][0] if self.at < len(self.tokens) else ""
        return kind in ("mark", "word") and self.tokens[self.at][1] == token

    def take_if(self, token: str) -> bool:
        found = self.sees(token)
        self.at += found
        return found

    def take(self, token: str) -> None:
        if not self.take_if(token):
            raise NotACondition(f"{self.text!r} lacks a {token!r}")


def _or(left: Node, right: Node) -> Node:
    return lambda known: first if truthy(first := left(known)) else right(known)


def _and(left: Node, right: Node) -> Node:
    return lambda known: right(known) if truthy(first := left(known)) else first


def _sum(left: Node, sign: str, right: Node) -> Node:
    def node(known: Mapping[str, Any]) -> Any:
        one, other = left(known), right(known)
        if sign == "+" and isinstance(one, str) and isinstance(other, str):
            return one + other
        return number_of(one) + (number_of(other) if sign == "+" else -number_of(other))

    return node


def _follow(known: Any, keys: list[str | int]) -> Any:
    for key in keys:
        if isinstance(known, Mapping) and str(key) in known:
            known = known[str(key)]
        elif isinstance(known, list) and isinstance(key, int) and key < len(known):
            known = known[key]
        else:
            return UNDEFINED
    return known


def truthy(value: Any) -> bool:
    if isinstance(value, dict | list):
        return True
    if isinstance(value, float) and math.isnan(value):
        return False
    return value is not UNDEFINED and bool(value)


def number_of(value: Any) -> float:
    if value is None:
        return 0
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        try:
            return float(value) if value.strip() else 0
        except ValueError:
            return math.nan
    return math.nan


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def node(one: Any, other: Any) -> bool:
        if isinstance(one, str) and isinstance(other, str):
            return compare(one, other)
        return compare(number_of(one), number_of(other))

    return node


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return (type(one) is type(other) and one == other) or (_is_number(one) and _is_number(other) and one == other)


def _alike(one: Any, other: Any) -> bool:
    nothing = (None, UNDEFINED)
    if one in nothing or other in nothing:
        return one in nothing and other in nothing
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return one is other
    return number_of(one) == number_of(other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": _ordered(lambda one, other: bool(one < other)),
    "<=": _ordered(lambda one, other: bool(one <= other)),
    ">": _ordered(lambda one, other: bool(one > other)),
    ">=": _ordered(lambda one, other: bool(one >= other)),
    "===": _same,
    "!==": lambda one, other: not _same(one, other),
    "==": _alike,
    "!=": lambda one, other: not _alike(one, other),
}
