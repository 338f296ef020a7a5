"""A bound condition evaluated on Arrow rows in memory: the same answer as Lance gives for its SQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
)
from headgate.graph.schema.arrow import arrow_type
from headgate.graph.schema.model import FLOATS, INTEGERS, Kind, PropertyType

Columns = Callable[[ColumnRef], pa.Array]
"""How a condition gets at its columns: one array of the rows' length for each."""

_COMPARE: dict[CompareOp, Callable[..., Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WIDE = pa.decimal128(20, 0)
"""Holds every signed and unsigned 64-bit number."""


def evaluate(predicate: Predicate, table: pa.Table) -> pa.BooleanArray:
    """Which rows of a table the condition holds for; never null."""
    return keep(predicate, lambda ref: _flat(table[ref.column]), table.num_rows)


def keep(predicate: Predicate, columns: Columns, rows: int) -> pa.BooleanArray:
    """Which of so many rows the condition holds for, with the columns fetched as they are needed."""
    match predicate:
        case Always(holds):
            return _constant(holds, rows)
        case AllOf(parts):
            return reduce(pc.and_, (keep(part, columns, rows) for part in parts))
        case AnyOf(parts):
            return reduce(pc.or_, (keep(part, columns, rows) for part in parts))
        case _:
            return _known(_leaf(predicate, columns), rows)


def _leaf(leaf: Comparison | InSet | TextTest | IsNull, columns: Columns) -> Any:
    match leaf:
        case IsNull(term, negated):
            value = _value(term, columns)
            return pc.is_valid(value) if negated else pc.is_null(value)
        case Comparison(left, op, right):
            return _COMPARE[op](*_comparable(left, right, columns))
        case InSet():
            return _in_set(leaf, columns)
        case TextTest():
            return _text_test(leaf, columns)


def _comparable(left: Term, right: Term, columns: Columns) -> tuple[Any, Any]:
    """Both sides in a type that holds either: an F32 column is compared in 32 bits, mixed signs in decimals."""
    values = _value(left, columns, right), _value(right, columns, left)
    kinds = {left.type.kind, right.type.kind}
    if isinstance(left, ColumnRef) and isinstance(right, ColumnRef):
        if kinds <= INTEGERS and Kind.U64 in kinds and len(kinds) > 1:
            return values[0].cast(_WIDE), values[1].cast(_WIDE)
        if kinds & FLOATS and len(kinds) > 1:
            return values[0].cast(pa.float64(), safe=False), values[1].cast(pa.float64(), safe=False)
    return values


def _in_set(leaf: InSet, columns: Columns) -> Any:
    if isinstance(leaf.right, Constant):
        value = _value(leaf.left, columns)
        element = _against(leaf.right.type.element, leaf.left)
        members = pa.array(leaf.right.value, arrow_type(element))
        found = pc.is_in(value, value_set=members.cast(value.type) if members.type != value.type else members)
        return pc.and_(pc.is_valid(value), pc.invert(found)) if leaf.negated else found
    lists = columns(leaf.right) if isinstance(leaf.right, ColumnRef) else None
    assert lists is not None
    return _has_element(lists, _value(leaf.left, columns, leaf.right), negated=leaf.negated)


def _has_element(lists: pa.Array, value: Any, *, negated: bool) -> pa.Array:
    rows = pc.list_parent_indices(lists)
    elements = pc.list_flatten(lists)
    wanted = value.take(rows) if isinstance(value, pa.Array) else value
    hits = np.zeros(len(lists), dtype=bool)
    found = pc.fill_null(pc.equal(elements, wanted), False)
    hits[rows.filter(found).to_numpy()] = True
    known = np.asarray(pc.is_valid(lists))
    if isinstance(value, pa.Array):
        known = known & np.asarray(pc.is_valid(value))
    return pa.array((~hits if negated else hits) & known)


def _text_test(leaf: TextTest, columns: Columns) -> Any:
    text, part = _value(leaf.left, columns), _value(leaf.right, columns)
    if isinstance(part, pa.Scalar):
        test = pc.match_substring if leaf.test == "contains" else pc.starts_with
        found = test(text, pattern=part.as_py())
    else:
        texts = repeat(text.as_py()) if isinstance(text, pa.Scalar) else text.to_pylist()
        pairs = zip(texts, part.to_pylist(), strict=False)
        found = pa.array([_text_pair(leaf.test, *pair) for pair in pairs], pa.bool_())
    return pc.invert(found) if leaf.negated else found


def _text_pair(test: str, text: str | None, part: str | None) -> bool | None:
    if text is None or part is None:
        return None
    return part in text if test == "contains" else text.startswith(part)


def _value(term: Term, columns: Columns, other: Term | None = None) -> Any:
    if isinstance(term, ColumnRef):
        return columns(term)
    if isinstance(term, Constant):
        return pa.scalar(term.value, arrow_type(_against(term.type, other)))
    raise TypeError(f"the parameter ${term.parameter} has no value yet")


def _against(declared: PropertyType, other: Term | None) -> PropertyType:
    """The type in which a constant is held against a column: the column's, where both are numbers of one family."""
    if not isinstance(other, ColumnRef):
        return declared
    same_family = any(declared.kind in family and other.type.kind in family for family in (INTEGERS, FLOATS))
    if same_family or (declared.kind in INTEGERS and other.type.kind in FLOATS):
        return other.type.element
    return declared


def _known(result: Any, rows: int) -> pa.BooleanArray:
    if isinstance(result, pa.Scalar):
        return _constant(bool(result.as_py()), rows)
    return pc.fill_null(_flat(result), False)


def _constant(holds: bool, rows: int) -> pa.BooleanArray:
    return pa.array(np.full(rows, holds))


def _flat(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
