"""Rows by a condition in SQL, as a write would leave them: stored rows by Lance, pending ones by DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import InvalidInput
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import ID, TableType
from headgate.graph.storage.lookup import rows_where
from headgate.graph.write.base import Base
from headgate.graph.write.pending import Pending


def matching(pending: Pending, base: Base, table: TableType, where: str) -> pa.Table:
    """The rows of a type that an SQL condition holds for."""
    names = arrow_schema(table).names
    mine = pending.find(table.name)
    if mine is not None and mine.image:
        return _filtered(mine.added, where)
    stored = rows_where(base.snapshot(table.name), where, names)
    if mine is None or not mine.changed:
        return stored
    hidden = pa.concat_arrays([mine.deleted, mine.added[ID].combine_chunks()])
    left = stored.filter(pc.invert(pc.is_in(stored[ID], hidden)))
    return pa.concat_tables([left, _filtered(mine.added, where).cast(left.schema)])


def _filtered(rows: pa.Table, where: str) -> pa.Table:
    import duckdb

    if not rows.num_rows:
        return rows
    numbered = rows.append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
    try:
        with duckdb.connect() as connection:
            kept = connection.from_arrow(numbered).filter(where).select("__row").fetchall()
    except duckdb.Error as error:
        raise InvalidInput(message=f"the condition {where!r} cannot be read: {error}", hint="correct it") from error
    return rows.take(pa.array(sorted(row for (row,) in kept), pa.int64()))
