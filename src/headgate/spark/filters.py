"""Conditions that Spark hands over, as conditions of Lance; those that mean something else there stay with Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_COMPARED = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_TEXTS = {"StringStartsWith": ("", "%"), "StringEndsWith": ("%", ""), "StringContains": ("%", "%")}
_WORDS = frozenset({"String", "enum"})
_NUMBERS = frozenset({"Bool", "I32", "I64", "U32", "U64", "F32", "F64"})


class _Not(Exception):
    """Lance cannot be asked this."""


def split(kinds: Mapping[str, str], filters: Iterable[Any]) -> tuple[list[str], list[Any]]:
    """The conditions that Lance takes, as text, and the filters that are left to Spark.

    `kinds` says what each column was declared as.
    """
    taken, left = [], []
    for found in filters:
        try:
            taken.append(condition(kinds, found))
        except _Not:
            left.append(found)
    return taken, left


def condition(kinds: Mapping[str, str], found: Any) -> str:
    kind = type(found).__name__
    if kind == "Not":
        return f"NOT ({condition(kinds, found.child)})"
    column = _column(found.attribute)
    literal = _literal_of(kinds.get(found.attribute[0], ""))
    if kind in _COMPARED:
        return f"{column} {_COMPARED[kind]} {literal(found.value)}"
    if kind == "EqualNullSafe":
        if found.value is None:
            return f"{column} IS NULL"
        return f"({column} IS NOT NULL AND {column} = {literal(found.value)})"
    if kind == "In":
        values = [value for value in found.value if value is not None]
        if not values or len(values) != len(found.value):
            raise _Not
        return f"{column} IN ({', '.join(map(literal, values))})"
    if kind == "IsNull":
        return f"{column} IS NULL"
    if kind == "IsNotNull":
        return f"{column} IS NOT NULL"
    if kind in _TEXTS and isinstance(found.value, str) and not set(found.value) & set("%_\\"):
        before, after = _TEXTS[kind]
        return f"{column} LIKE {literal(f'{before}{found.value}{after}')}"
    raise _Not


def _column(path: tuple[str, ...]) -> str:
    if len(path) != 1:
        raise _Not
    return f"`{path[0]}`"


def _literal_of(kind: str) -> Callable[[Any], str]:
    if kind in _WORDS:
        return _text
    if kind in _NUMBERS:
        return _number
    if kind == "Date":
        return _date
    raise _Not


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Not
    return "'" + value.replace("'", "''") + "'"


def _date(value: Any) -> str:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _Not
    return f"date '{value.isoformat()}'"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        if value != value.to_integral_value():
            raise _Not
        return str(int(value))
    if isinstance(value, int | float) and value == value and abs(value) != float("inf"):
        return repr(value)
    raise _Not
