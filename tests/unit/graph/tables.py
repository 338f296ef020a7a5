"""A graph at one commit made of plain Lance tables, for tests of the read side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from headgate.graph.read.source import TableVersion
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import Schema

Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class PlainTables:
    schema: Schema
    root: Path
    commit: str = "test"

    def dataset(self, type_name: str) -> lance.LanceDataset:
        return lance.dataset(str(self.root / f"{type_name}.lance"))

    def cache_key(self, type_name: str) -> TableVersion:
        return TableVersion(str(self.root / type_name), self.dataset(type_name).version)


def write_tables(
    root: Path, schema: Schema, rows: Rows, *, indexed: bool = False, properties: bool = True
) -> PlainTables:
    """The tables of a schema with these rows, and with the indices a maintained graph has."""
    for table in schema.tables():
        data = pa.Table.from_pylist(rows.get(table.name, []), schema=arrow_schema(table))
        dataset = lance.write_dataset(data, str(root / f"{table.name}.lance"), mode="overwrite")
        if not indexed:
            continue
        for column in (*table.system_columns, *(table.indexed if properties else ())):
            dataset.create_scalar_index(column, "BTREE")
    return PlainTables(schema, root)
