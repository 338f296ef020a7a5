"""Expressions in a workflow definition: `${workflow.input.x}`, `${ref.output.y[0].z}`.

A text that is one expression becomes its value, of whatever type; one with expressions in it stays a text. What does
not resolve is null. `$${` stands for the characters `${`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_ROOT = re.compile(r"[^\W\d][\w-]*")
_STEP = re.compile(r"""\.([\w-]+)|\[(-?\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")


@dataclass(frozen=True)
class Expression:
    """A place in the workflow's input or in a task: where to begin, and the way from there."""

    text: str
    root: str
    path: Path


class NotAnExpression(ValueError):
    """Says what in a text cannot be read."""


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[str | Expression, ...]:
    """The pieces of a text, in order; `NotAnExpression` for what the engine does not read."""
    pieces: list[str | Expression] = []
    at = 0
    for found in _TOKEN.finditer(text):
        pieces.append(_plain(text[at : found.start()], text))
        pieces.append("${" if found[1] is None else _expression(found[0], found[1].strip()))
        at = found.end()
    pieces.append(_plain(text[at:], text))
    return tuple(piece for piece in pieces if piece != "")


def _plain(piece: str, text: str) -> str:
    if "${" in piece:
        raise NotAnExpression(f"an expression in {text!r} is not closed, or has another one inside")
    return piece


def _expression(text: str, inner: str) -> Expression:
    root = _ROOT.match(inner)
    if root is None:
        raise NotAnExpression(f"{text} names no task and not the workflow")
    at, path = root.end(), list[str | int]()
    while at < len(inner):
        step = _STEP.match(inner, at)
        if step is None:
            raise NotAnExpression(f"{text} cannot be read from {inner[at:]!r} on")
        name, index, *quoted = step.groups()
        path.append(int(index) if index is not None else next(one for one in (name, *quoted) if one is not None))
        at = step.end()
    return Expression(text, root[0], tuple(path))


def texts_in(value: Any, place: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every text inside a value, with the way to it."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts_in(inner, (*place, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts_in(inner, (*place, index))


def resolve(value: Any, known: Mapping[str, Any]) -> Any:
    """`value` with its expressions replaced by what they stand for among `known`, by root."""
    if isinstance(value, str):
        return _resolved_text(value, known)
    if isinstance(value, Mapping):
        return {key: resolve(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [resolve(inner, known) for inner in value]
    return value


def _resolved_text(text: str, known: Mapping[str, Any]) -> Any:
    if "${" not in text:
        return text
    pieces = parse(text)
    if len(pieces) == 1 and isinstance(pieces[0], Expression):
        return look_up(pieces[0], known)
    return "".join(piece if isinstance(piece, str) else as_text(look_up(piece, known)) for piece in pieces)


def look_up(expression: Expression, known: Mapping[str, Any]) -> Any:
    return follow(known.get(expression.root), expression.path)


def follow(value: Any, path: Path) -> Any:
    """What lies at the end of a path; None where the way ends earlier."""
    for step in path:
        if isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def as_text(value: Any) -> str:
    """A value inside a text, written as a Conductor server writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={as_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_text, value)) + "]"
    return str(value)
