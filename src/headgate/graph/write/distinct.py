"""Values that stand more than once in a column, and the last row of each: cheap where there are none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def repeated(column: pa.Array) -> pa.Array:
    """The values that a column holds more than once; nulls are not compared."""
    values = column.drop_null()
    if len(values) < 2 or _ascending(values) or len(pc.unique(values)) == len(values):
        return values.slice(0, 0)
    counted = pc.value_counts(values)
    return counted.field("values").filter(pc.greater(counted.field("counts"), 1))


def _ascending(values: pa.Array) -> bool:
    """Whether each value is above the one before it, as in a file sorted by its key."""
    return bool(pc.all(pc.less(values.slice(0, len(values) - 1), values.slice(1))).as_py())


def last_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Array | None:
    """The places of the last row of each value of these columns, in order; None if every value is there once."""
    if len(columns) == 1 and not len(repeated(rows[columns[0]].combine_chunks())):
        return None
    numbered = rows.select(list(columns)).append_column("row", pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(list(columns)).aggregate([("row", "max")])["row_max"].combine_chunks()
    return None if len(last) == rows.num_rows else last.take(pc.sort_indices(last))
