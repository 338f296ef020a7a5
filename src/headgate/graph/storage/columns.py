"""Change the columns of a table in one staged transaction: add, rename, drop. No stored row is written again.

New columns are written beside the others, one file per fragment. Lance gives each column a number that it never uses
twice, so that a dropped column's bytes, which stay in their files, are never read as those of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceOperation

from headgate.graph.schema.model import ID
from headgate.graph.storage.changes import Staged
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.snapshots import TableSnapshot, staged_on


@dataclass(frozen=True)
class NewColumn:
    column: pa.Field
    value: Any = None
    """What every stored row gets."""

    def array(self, count: int) -> pa.Array:
        if self.value is None:
            return pa.nulls(count, self.column.type)
        return pa.repeat(pa.scalar(self.value, self.column.type), count)


@dataclass(frozen=True)
class ColumnChanges:
    added: tuple[NewColumn, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()


def stage_columns(at: TableSnapshot, changes: ColumnChanges) -> Staged:
    """The transaction that makes these changes: the present rows, with other columns."""
    try:
        operation = _changed(at.dataset, changes) if at.dataset.get_fragments() else _emptied(at.dataset, changes)
    except Exception as error:
        raise as_error(error, doing=f"change the columns of table {at.path}") from error
    return staged_on(at, at.rows, operation)


def _changed(dataset: LanceDataset, changes: ColumnChanges) -> LanceOperation.Merge:
    fragments, schema = _with_added(dataset, changes.added)
    if changes.renamed or changes.dropped:
        schema = edited_schema(schema, changes)
    return LanceOperation.Merge(fragments, schema)


def _emptied(dataset: LanceDataset, changes: ColumnChanges) -> LanceOperation.Overwrite:
    """The same for a table without rows: its columns may have new numbers, since there is nothing to read by them."""
    kept = [
        column.with_name(changes.renamed.get(column.name, column.name))
        for column in dataset.schema
        if column.name not in changes.dropped
    ]
    return LanceOperation.Overwrite(pa.schema([*kept, *(item.column for item in changes.added)]), [])


def _with_added(dataset: LanceDataset, added: Sequence[NewColumn]) -> tuple[list[Any], Any]:
    present = list(dataset.get_fragments())
    if not added:
        return [fragment.metadata for fragment in present], dataset.lance_schema
    declared = pa.schema([item.column for item in added])

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([item.array(batch.num_rows) for item in added], schema=declared)

    written = [fragment.merge_columns(values, columns=[ID]) for fragment in present]
    return [fragment for fragment, _ in written], written[0][1]


def edited_schema(schema: Any, changes: ColumnChanges) -> Any:
    """A schema with columns renamed and dropped, and the numbers of the others kept.

    Lance hands a schema out for pickling, as one protocol buffer per field: only that keeps the numbers.
    """
    make, (metadata, *stored) = schema.__reduce__()
    gone: set[int] = set()
    kept = []
    for field_bytes in stored:
        parts = list(_parts(field_bytes))
        values = {number: value for number, value, _ in parts}
        name, at, parent = bytes(values[_NAME]).decode(), int(values.get(_NUMBER, 0)), int(values[_PARENT])
        top = parent >= _NO_PARENT
        if (top and name in changes.dropped) or (not top and parent in gone):
            gone.add(at)
        elif top and name in changes.renamed:
            kept.append(_renamed(parts, changes.renamed[name]))
        else:
            kept.append(field_bytes)
    return make(metadata, *kept)


_NAME, _NUMBER, _PARENT = 2, 3, 4
_NO_PARENT = 1 << 31
"""The parent of a column is -1, which is a large number on the wire."""


def _parts(message: bytes) -> Iterator[tuple[int, Any, bytes]]:
    """The fields of a protocol buffer: number, value, and the bytes they stand in."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _number(message, at)
        if tag & 7 == 2:
            size, at = _number(message, at)
            value: Any = message[at : at + size]
            at += size
        elif tag & 7 == 0:
            value, at = _number(message, at)
        else:
            raise ValueError(f"a column of the table is described in a way that is not known: {message!r}")
        yield tag >> 3, value, message[start:at]


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _renamed(parts: list[tuple[int, Any, bytes]], name: str) -> bytes:
    text = name.encode()
    size = bytearray()
    left = len(text)
    while left >= 128:
        size.append(left & 127 | 128)
        left >>= 7
    size.append(left)
    named = bytes([_NAME << 3 | 2]) + bytes(size) + text
    return b"".join(named if number == _NAME else whole for number, _, whole in parts)
