"""Make a graph: empty tables for every type, then a manifest whose first version shows them."""

from __future__ import annotations

from headgate.clock import Clock
from headgate.graph.manifest import Manifest
from headgate.graph.manifest.format import known_formats
from headgate.graph.manifest.rows import Commit, Format, Head, Pin, Row, SchemaRow, TableRow, stamp_time
from headgate.graph.manifest.table import refuse_taken
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import with_ids
from headgate.graph.schema.parse import parse_schema
from headgate.graph.schema.serial import schema_to_json
from headgate.graph.storage import Location, TableStore
from headgate.ids import IdSource


def create_graph(
    location: Location, text: str, *, actor: str, message: str, clock: Clock, ids: IdSource, branch: str = "main"
) -> str:
    """The commit that a new graph starts with. Tables have names nobody else uses, so that a lost race harms none."""
    schema = with_ids(parse_schema(text))
    refuse_taken(location)
    tables = TableStore(location)
    commit, current = ids.new(), known_formats().current
    rows: list[Row] = [
        Format(stamp=current),
        SchemaRow(branch=branch, order=1, schema=schema_to_json(schema), source=text),
        Head(branch=branch, order=1, commit=commit, format=current),
    ]
    names = []
    for table in schema.tables():
        row = new_table(ids, type_id=table.id, name=table.name, branch=branch, order=1)
        version = tables.create(row.path, arrow_schema(table))
        rows += [row, Pin(branch=branch, order=1, table=row.table, version=version)]
        names.append(row.table)
    rows.append(
        Commit(
            branch=branch,
            order=1,
            id=commit,
            writer="init",
            actor=actor,
            message=message or "create the graph",
            created_at=stamp_time(clock.now()),
            tables=tuple(sorted(names)),
        )
    )
    Manifest.create(location, rows)
    return commit


def new_table(ids: IdSource, *, type_id: int, name: str, branch: str, order: int) -> TableRow:
    """A table for a type, in a folder of its own."""
    key = f"{type_id}-{ids.new().lower()}"
    return TableRow(branch=branch, order=order, table=key, type_id=type_id, path=f"tables/{key}", name=name)
