"""The canonical text of a key, which is a row's `id`: one value's text, or a JSON array of several."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def row_id(values: Sequence[Any]) -> str:
    """The id of the row with these key values, as `values.coerce` gives them."""
    if len(values) == 1:
        return _text(values[0])
    return json.dumps([_json(value) for value in values], ensure_ascii=False, separators=(",", ":"))


def row_ids(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """`row_id` of every row of these key columns, without a Python loop over rows."""
    flat = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    if len(flat) == 1:
        return _texts(flat[0])
    parts = [_jsons(column) for column in flat]
    body = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise("[", body, "]", "")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def _json(value: Any) -> Any:
    return value if isinstance(value, bool | int) else _text(value)


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
    return column.cast(pa.string())


def _jsons(column: pa.Array) -> pa.Array:
    texts = _texts(column)
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return texts
    if pa.types.is_string(column.type) and pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return pa.array([json.dumps(text, ensure_ascii=False) for text in texts.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', texts, '"', "")
