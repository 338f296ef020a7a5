"""Edges without a key are known by their two ends: the ids of those that are there already."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.schema.model import DST, ID, SRC
from headgate.graph.storage import TableSnapshot
from headgate.graph.storage.lookup import rows_with


def with_known_ids(rows: pa.Table, at: TableSnapshot, pending: pa.Table | None = None) -> pa.Table:
    """The rows, each with the id of the edge that has the same ends, where there is one. Ends are distinct."""
    found = rows_with(at, SRC, pc.unique(rows[SRC].combine_chunks()), [ID, SRC, DST])
    if pending is not None:
        found = pa.concat_tables([found, pending.select([ID, SRC, DST]).cast(found.schema)])
    if not found.num_rows:
        return rows
    theirs, ours = _ends(found), _ends(rows)
    # The last of several edges with the same ends is the one that is replaced.
    last = {ends: at for at, ends in enumerate(theirs.to_pylist())} if theirs.null_count == 0 else {}
    places = pa.array([last.get(ends) for ends in ours.to_pylist()], pa.int64())
    known = found[ID].combine_chunks().take(places)
    return rows.set_column(rows.schema.get_field_index(ID), rows.schema.field(ID), pc.coalesce(known, rows[ID]))


def _ends(rows: pa.Table) -> pa.Array:
    # The separator is no character of a text that came through UTF-8 JSON unescaped.
    return pc.binary_join_element_wise(rows[SRC].combine_chunks(), rows[DST].combine_chunks(), "\x00")
