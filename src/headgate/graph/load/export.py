"""A graph's rows as files that `load` reads again: JSONL, Parquet or CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.errors import InvalidInput, Unsupported
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, NodeType, TableType
from headgate.graph.storage.lookup import scan
from headgate.graph.write.base import Base

FORMATS = ("jsonl", "parquet", "csv")


def export_rows(
    base: Base, into: Path, form: str, types: Sequence[str] | None, *, write: bool = True
) -> dict[str, int]:
    """Write the rows of some or all types: nodes first, so that a load finds the ends of edges. Rows of each type."""
    if form not in FORMATS:
        raise InvalidInput(message=f"there is no format {form}", hint=f"use {', '.join(FORMATS)}")
    chosen = [base.type(name) for name in types] if types else list(base.schema.tables())
    counts = {table.name: base.rows[table.name] for table in chosen}
    if not write:
        return counts
    if form == "jsonl":
        into.parent.mkdir(parents=True, exist_ok=True)
        target = into if into.suffix == ".jsonl" else into / "graph.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            for table in chosen:
                file.writelines(_lines(base, table))
        return counts
    into.mkdir(parents=True)
    for table in chosen:
        _columns(base, table, into / f"{table.name}.{form}", form)
    return counts


def _lines(base: Base, table: TableType) -> Iterator[str]:
    for batch in _batches(base, table):
        for row in batch.to_pylist():
            data = {name: _plain(value) for name, value in row.items() if name not in (ID, SRC, DST)}
            if not table.key:
                data = {ID: row[ID], **data}
            record: dict[str, Any] = {"type": table.name, "data": data}
            if isinstance(table, EdgeType):
                ends = {"from": _end(base, table.src, row[SRC]), "to": _end(base, table.dst, row[DST])}
                record = {"edge": table.name, **ends, "data": data}
            yield json.dumps(record, ensure_ascii=False) + "\n"


def _end(base: Base, name: str, value: str) -> Any:
    """The key of a node as a load takes it: the value itself, or the list of a composite key."""
    node = base.schema.find_node(name)
    assert isinstance(node, NodeType)
    if len(node.key) > 1:
        return json.loads(value)
    if not node.key:
        return value
    return _typed(node.property(node.key[0]).type.kind.value, value)


def _typed(kind: str, value: str) -> Any:
    if kind in ("I32", "I64", "U32", "U64"):
        return int(value)
    return value == "true" if kind == "Bool" else value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    return value


def _batches(base: Base, table: TableType) -> Iterator[pa.RecordBatch]:
    return scan(base.snapshot(table.name), arrow_schema(table).names)


def _columns(base: Base, table: TableType, path: Path, form: str) -> None:
    names = [name for name in arrow_schema(table).names if name != ID or not table.key]
    schema = pa.schema([arrow_schema(table).field(name).with_metadata(None) for name in names])
    if form == "csv" and any(
        pa.types.is_nested(field.type) or pa.types.is_large_binary(field.type) for field in schema
    ):
        raise Unsupported(message=f"{table.name} has columns that CSV cannot hold", hint="use parquet or jsonl")
    with ExitStack() as stack:
        if form == "parquet":
            import pyarrow.parquet as pq

            writer: Any = stack.enter_context(pq.ParquetWriter(path, schema))
        else:
            from pyarrow import csv

            writer = stack.enter_context(csv.CSVWriter(path, schema))
        for batch in _batches(base, table):
            writer.write_table(pa.Table.from_batches([batch]).select(names).cast(schema))
