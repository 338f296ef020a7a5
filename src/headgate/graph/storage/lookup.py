"""Find rows of a table by the values of one column: through its index for a few, by one scan for many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.snapshots import TableSnapshot

ADDRESS = "_rowaddr"
_BY_FILTER = 512
"""Up to this many values are looked up one by one; more are found in a scan of the column."""


def rows_where(at: TableSnapshot, where: str | None, columns: Sequence[str], *, address: bool = False) -> pa.Table:
    """Rows that a filter in Lance's SQL selects."""
    try:
        scanner = at.dataset.scanner(columns=list(columns), filter=where, with_row_address=address)
        return scanner.to_table()
    except Exception as error:
        raise as_error(error, doing=f"read table {at.path}") from error


def rows_with(
    at: TableSnapshot, column: str, values: pa.Array, columns: Sequence[str], *, address: bool = False
) -> pa.Table:
    """Rows whose `column` holds one of the values."""
    wanted = [*columns, column] if column not in columns else list(columns)
    if len(values) == 0 or at.rows == 0:
        found = at.dataset.schema.empty_table().select(wanted)
        return found.append_column(ADDRESS, pa.array([], pa.uint64())) if address else found
    if len(values) <= _BY_FILTER:
        listed = ",".join(quoted(value) for value in values.to_pylist() if value is not None)
        return rows_where(at, f"{named(column)} IN ({listed})" if listed else "false", wanted, address=address)
    parts = [batch.filter(pc.is_in(batch[column], values)) for batch in scan(at, wanted, address=address)]
    return (
        pa.Table.from_batches(parts) if parts else rows_with(at, column, values.slice(0, 0), columns, address=address)
    )


def scan(at: TableSnapshot, columns: Sequence[str], *, address: bool = False) -> Iterator[pa.RecordBatch]:
    """Every row, a large batch at a time."""
    try:
        scanner = at.dataset.scanner(columns=list(columns), with_row_address=address, batch_size=1 << 17)
        yield from scanner.to_batches()
    except Exception as error:
        raise as_error(error, doing=f"read table {at.path}") from error


def quoted(text: object) -> str:
    """A value as a literal of Lance's SQL."""
    if isinstance(text, bool):
        return "true" if text else "false"
    if isinstance(text, int | float):
        return repr(text)
    return "'" + str(text).replace("'", "''") + "'"


def named(column: str) -> str:
    return f"`{column}`"
