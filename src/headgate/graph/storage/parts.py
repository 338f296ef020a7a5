"""Rows that were written for a table and not committed, as they travel between processes and are read back.

An executor writes a part, hands its description on as text, and whoever prepares the write reads the columns it has
to check from the very files that will be published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter
from lance.fragment import FragmentMetadata

from headgate.graph.storage.changes import Part
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.location import Location
from headgate.graph.storage.snapshots import TableSnapshot
from headgate.graph.storage.tables import data_folder

_BATCH_ROWS = 1 << 17
SCRATCH = "__scratch"
"""The folder of columns that are only read while a write is prepared."""


def fragment_to_text(fragment: Any) -> str:
    return json.dumps(fragment.to_json())


def fragment_from_text(text: str) -> Any:
    return FragmentMetadata.from_json(text)


def part_to_text(part: Part) -> list[str]:
    """A text for each fragment of a part."""
    return [fragment_to_text(fragment) for fragment in part.fragments]


def part_from_text(texts: Sequence[str]) -> Part:
    return Part(tuple(fragment_from_text(text) for text in texts))


def single_parts(part: Part) -> list[Part]:
    """The fragments of a part, each by itself."""
    return [Part((fragment,)) for fragment in part.fragments]


def read_part(
    location: Location, at: TableSnapshot, part: Part, columns: Sequence[str], *, batch_rows: int = _BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Columns of a part's rows, in the order in which they were written."""
    for fragment in part.fragments:
        [file] = fragment.files
        yield from _read(location, f"{data_folder(at)}/{file.path}", columns, batch_rows)


def read_part_table(location: Location, at: TableSnapshot, parts: Sequence[Part], columns: Sequence[str]) -> pa.Table:
    """Columns of all rows of several parts."""
    schema = pa.schema([at.dataset.schema.field(name) for name in columns])
    batches = [batch for part in parts for batch in read_part(location, at, part, columns)]
    return pa.Table.from_batches(batches).select(list(columns)).cast(schema) if batches else schema.empty_table()


def write_column(location: Location, folder: str, column: pa.Array, name: str) -> str:
    """Keep a column beside the tables while a write is prepared; what it is called."""
    path = f"{SCRATCH}/{folder}/{uuid4().hex}.lance"
    schema = pa.schema([pa.field(name, column.type)])
    try:
        with LanceFileWriter(location.child(path), schema, storage_options=_options(location)) as writer:
            writer.write_batch(pa.record_batch([column], schema=schema))
    except Exception as error:
        raise as_error(error, doing=f"write {path}") from error
    return path


def read_column(location: Location, path: str, name: str) -> Iterator[pa.Array]:
    """A column that was kept, a large piece at a time."""
    for batch in _read(location, path, [name], _BATCH_ROWS):
        yield batch.column(0)


def _read(location: Location, path: str, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    try:
        reader = LanceFileReader(location.child(path), storage_options=_options(location), columns=list(columns))
        yield from reader.read_all(batch_size=batch_rows).to_batches()
    except Exception as error:
        raise as_error(error, doing=f"read {path}") from error


def _options(location: Location) -> dict[str, Any] | None:
    return dict(location.options) or None
