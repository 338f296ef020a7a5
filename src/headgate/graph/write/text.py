"""Columns of text, as CSV gives them, in their declared types where every value is one; else as they are.

What stays text is looked at row by row later, and each bad value gets its reason.
"""

from __future__ import annotations

import pyarrow as pa

from headgate.graph.schema.arrow import arrow_type
from headgate.graph.schema.model import Kind, TableType

_CAST = {Kind.I32, Kind.I64, Kind.U32, Kind.U64, Kind.F32, Kind.F64, Kind.DATE}


def typed(table: TableType, rows: pa.Table) -> pa.Table:
    for number, name in enumerate(rows.column_names):
        item = table.find_property(name)
        if item is None or item.type.is_list or item.type.kind not in _CAST:
            continue
        try:
            rows = rows.set_column(number, name, rows[name].cast(arrow_type(item.type)))
        except pa.ArrowInvalid:
            continue
    return rows
