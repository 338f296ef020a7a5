"""What a property accepts: one value at a time with a reason, or a whole Arrow column at once.

The column check decides with vectorised tests and only goes row by row where something is wrong, so that clean data
costs no Python loop and bad data still gets a reason for each row.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.schema.arrow import arrow_type
from headgate.graph.schema.model import (
    FLOATS,
    INTEGERS,
    Check,
    Kind,
    Property,
    PropertyType,
    Range,
    TableType,
)

_BOUNDS = {
    Kind.I32: (-(2**31), 2**31 - 1),
    Kind.I64: (-(2**63), 2**63 - 1),
    Kind.U32: (0, 2**32 - 1),
    Kind.U64: (0, 2**64 - 1),
}
_FLOAT32_MAX = 3.4028235677973366e38
"""The smallest magnitude that rounds to infinity in 32 bits."""
_DATETIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?([Zz]|[+-]\d{2}:?\d{2})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_SHOWN = 60


@dataclass(eq=False)
class BadValue(Exception):
    """A value that the schema does not accept; `code` is stable, `message` is for people."""

    code: str
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Rules:
    """Everything one property asks of its values."""

    name: str
    type: PropertyType
    nullable: bool = False
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()

    @classmethod
    def of(cls, table: TableType, item: Property) -> Rules:
        return cls(item.name, item.type, item.nullable, table.ranges(item.name), table.checks(item.name))


@dataclass(frozen=True)
class CheckedColumn:
    """A column in its declared Arrow type; a bad row holds a null there and its reason in `bad`."""

    array: pa.Array
    bad: dict[int, BadValue] = field(default_factory=dict)


def coerce(rules: Rules, value: Any, *, text: bool = False) -> Any:
    """The value as Python knows it (dates as dates, enums as text), or `BadValue`.

    `text` is for sources without types, such as CSV: there `12` is an integer and `true` a Bool.
    """
    if value is None:
        if rules.nullable:
            return None
        raise BadValue("required", f"{rules.name} is required and must not be null")
    result = coerce_type(rules.type, value, name=rules.name, text=text)
    for bound in rules.ranges:
        if not _in_range(bound, rules.type, result):
            raise BadValue("range", f"{rules.name} is {_show(value)}, outside {range_text(bound)}")
    for check in rules.checks:
        if not pc.match_substring_regex(pa.array([result], pa.string()), whole(check.pattern))[0].as_py():
            raise BadValue("check", f"{rules.name} is {_show(value)}, which does not match {check.pattern!r}")
    return result


def coerce_type(declared: PropertyType, value: Any, *, name: str = "value", text: bool = False) -> Any:
    """The value as a member of a declared type, or `BadValue`."""
    if declared.is_list:
        if not isinstance(value, list | tuple):
            raise _mismatch(name, declared, value)
        return [coerce_type(declared.element, item, name=f"{name}[{at}]", text=text) for at, item in enumerate(value)]
    if text and isinstance(value, str):
        value = _from_text(declared, value, name)
    return _COERCIONS[declared.kind](declared, value, name)


def check_column(rules: Rules, column: pa.Array | pa.ChunkedArray, *, text: bool = False) -> CheckedColumn:
    """The column cast to its declared type with every rule applied; bad rows are told apart, not raised."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    cast = _try_cast(rules.type, array)
    if cast is not None and not _any_violation(rules, cast):
        return CheckedColumn(cast)
    values: list[Any] = []
    bad: dict[int, BadValue] = {}
    for row, value in enumerate(array.to_pylist()):
        try:
            values.append(coerce(rules, value, text=text))
        except BadValue as problem:
            bad[row] = problem
            values.append(None)
    return CheckedColumn(pa.array(values, arrow_type(rules.type)), bad)


def integer_bounds(kind: Kind) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    return _BOUNDS[kind]


def whole(pattern: str) -> str:
    """A pattern that must match the value from its first to its last character."""
    return rf"\A(?:{pattern})\z"


def range_text(bound: Range) -> str:
    low = "" if bound.low is None else bound.low
    return f"{low}..{'' if bound.high is None else bound.high}"


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


def _mismatch(name: str, declared: PropertyType, value: Any) -> BadValue:
    return BadValue("type", f"{name} must be {declared}, and is {_show(value)}")


def _from_text(declared: PropertyType, value: str, name: str) -> Any:
    stripped = value.strip()
    if declared.kind in INTEGERS:
        if not _INTEGER.fullmatch(stripped):
            raise _mismatch(name, declared, value)
        return int(stripped)
    if declared.kind in FLOATS:
        try:
            return float(stripped)
        except ValueError:
            raise _mismatch(name, declared, value) from None
    if declared.kind is Kind.BOOL:
        if stripped.lower() not in ("true", "false"):
            raise _mismatch(name, declared, value)
        return stripped.lower() == "true"
    return stripped if declared.kind in (Kind.DATE, Kind.DATETIME) else value


def _string(declared: PropertyType, value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _mismatch(name, declared, value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadValue("text", f"{name} holds half of a surrogate pair, which is no text: {_show(value)}") from None
    return value


def _bool(declared: PropertyType, value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(name, declared, value)
    return value


def _integer(declared: PropertyType, value: Any, name: str) -> int:
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _mismatch(name, declared, value)
    low, high = _BOUNDS[declared.kind]
    if not low <= value <= high:
        raise BadValue("out_of_range", f"{name} is {_show(value)}, and {declared} holds {low} to {high}")
    return value


def _float(declared: PropertyType, value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(name, declared, value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadValue("not_finite", f"{name} is {_show(value)}, and must be a finite number")
    if declared.kind in (Kind.F32, Kind.VECTOR) and abs(number) >= _FLOAT32_MAX:
        raise BadValue("out_of_range", f"{name} is {_show(value)}, which no 32-bit number holds")
    # Rounded here as the column will be, so that a key, a range or a condition sees the number that is stored.
    return struct.unpack("f", struct.pack("f", number))[0] if declared.kind in (Kind.F32, Kind.VECTOR) else number


def _date(declared: PropertyType, value: Any, name: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise BadValue("type", f"{name} must be a Date such as 2026-01-31, and is {_show(value)}")
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise BadValue("no_such_date", f"{name} is {_show(value)}, and there is no such date") from None


def _datetime(declared: PropertyType, value: Any, name: str) -> datetime:
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str) and _DATETIME.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value.upper())
        except ValueError:
            raise BadValue("no_such_date", f"{name} is {_show(value)}, and there is no such date and time") from None
    else:
        raise BadValue("type", f"{name} must be a DateTime such as 2026-01-31T12:00:00Z, and is {_show(value)}")
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        raise BadValue("no_such_date", f"{name} is {_show(value)}, outside the years 1 to 9999 in UTC") from None


def _blob(declared: PropertyType, value: Any, name: str) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise _mismatch(name, declared, value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise BadValue("type", f"{name} must be base64 text, and is {_show(value)}") from None


def _vector(declared: PropertyType, value: Any, name: str) -> list[float]:
    if not isinstance(value, list | tuple):
        raise _mismatch(name, declared, value)
    if len(value) != declared.size:
        raise BadValue("size", f"{name} has {len(value)} elements, and {declared} has {declared.size}")
    return [_float(declared, item, f"{name}[{at}]") for at, item in enumerate(value)]


def _enum(declared: PropertyType, value: Any, name: str) -> str:
    if not isinstance(value, str) or value not in declared.values:
        raise BadValue("enum", f"{name} is {_show(value)}, and must be one of {', '.join(declared.values)}")
    return value


_COERCIONS: dict[Kind, Callable[[PropertyType, Any, str], Any]] = {
    Kind.STRING: _string,
    Kind.BOOL: _bool,
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(FLOATS, _float),
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.BLOB: _blob,
    Kind.VECTOR: _vector,
    Kind.ENUM: _enum,
}


def range_ends(bound: Range, declared: PropertyType) -> tuple[Any, Any]:
    """Both ends as members of the type they bound; an open end is None."""
    unchecked = PropertyType(Kind.F64) if declared.kind in INTEGERS | FLOATS else declared
    low, high = (
        None if end is None else coerce_type(unchecked, end, name="the range") for end in (bound.low, bound.high)
    )
    if declared.kind in INTEGERS:
        return bound.low, bound.high
    return low, high


def _in_range(bound: Range, declared: PropertyType, value: Any) -> bool:
    low, high = range_ends(bound, declared)
    return (low is None or value >= low) and (high is None or value <= high)


def _try_cast(declared: PropertyType, array: pa.Array) -> pa.Array | None:
    target = arrow_type(declared)
    if array.type == target:
        return array
    if pa.types.is_null(array.type) or _casts_exactly(array.type, target):
        try:
            return array.cast(target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
    return None


def _casts_exactly(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a safe Arrow cast between these accepts what `coerce` accepts and nothing else."""
    types = pa.types
    if types.is_list(target) or types.is_fixed_size_list(target):
        listed = types.is_list(source) or types.is_large_list(source) or types.is_fixed_size_list(source)
        return bool(
            listed and (source.value_type == target.value_type or _casts_exactly(source.value_type, target.value_type))
        )
    if types.is_integer(target):
        return bool(types.is_integer(source))
    if types.is_float64(target):
        return bool(types.is_integer(source) or types.is_float32(source))
    if types.is_float32(target):
        return bool(types.is_floating(source))
    if types.is_string(target):
        return bool(types.is_large_string(source) or types.is_string_view(source) or _is_text_dictionary(source))
    if types.is_date32(target):
        return bool(types.is_string(source))
    if types.is_timestamp(target):
        return bool(types.is_timestamp(source))
    if types.is_large_binary(target):
        return bool(types.is_binary(source))
    return False


def _is_text_dictionary(source: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(source) and pa.types.is_string(source.value_type))


def _any_violation(rules: Rules, array: pa.Array) -> bool:
    """Whether any row breaks a rule; which ones, and why, is for the row-by-row pass."""
    declared = rules.type
    if array.null_count and not rules.nullable:
        return True
    elements = array
    if declared.is_list or declared.kind is Kind.VECTOR:
        elements = array.flatten()
        if elements.null_count:
            return True
    if declared.kind in FLOATS or declared.kind is Kind.VECTOR:
        return not _all(pc.is_finite(elements)) or _out_of_any_range(rules, array)
    if declared.kind is Kind.ENUM and not _all(pc.is_in(elements, pa.array(declared.values, pa.string())), elements):
        return True
    if _out_of_any_range(rules, array):
        return True
    return any(not _all(pc.match_substring_regex(array, whole(check.pattern))) for check in rules.checks)


def _out_of_any_range(rules: Rules, array: pa.Array) -> bool:
    for bound in rules.ranges:
        low, high = range_ends(bound, rules.type)
        if low is not None and not _all(pc.greater_equal(array, _bound_scalar(low, array))):
            return True
        if high is not None and not _all(pc.less_equal(array, _bound_scalar(high, array))):
            return True
    return False


def _bound_scalar(end: Any, array: pa.Array) -> pa.Scalar:
    return pa.scalar(end) if isinstance(end, int | float) else pa.scalar(end, array.type)


def _all(mask: pa.Array, values: pa.Array | None = None) -> bool:
    """Whether the test holds wherever there is a value; `is_in` answers false, not null, for a null."""
    if values is not None and values.null_count:
        mask = pc.or_(mask, pc.is_null(values))
    return bool(pc.all(mask, skip_nulls=True, min_count=0).as_py())
