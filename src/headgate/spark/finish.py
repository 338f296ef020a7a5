"""The last work on a write's files, on executors: staged rows that lost are left out, stored rows that go are marked.

Each source is finished by one task from all its edits. A task that is repeated writes other files under other names,
and only those of the try that answered are published.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import ID, Schema
from headgate.graph.storage import Part
from headgate.graph.storage.parts import fragment_from_text, fragment_to_text, part_from_text, part_to_text, read_part
from headgate.spark.claims import Source, unpack
from headgate.spark.work import TableRef

FINISHED = "source int, told string"


@dataclass(frozen=True)
class Finished:
    """A source after its edits."""

    parts: tuple[Part, ...] = ()
    """What is left of a staged source."""
    updated: tuple[Any, ...] = ()
    dropped: tuple[int, ...] = ()
    removed: int = 0

    @classmethod
    def read(cls, text: str) -> Finished:
        told = json.loads(text)
        return cls(
            parts=(part_from_text(told["parts"]),) if told["parts"] else (),
            updated=tuple(fragment_from_text(one) for one in told["updated"]),
            dropped=tuple(told["dropped"]),
            removed=told["removed"],
        )


def finish(source: Source, schema: Schema, blocks: pa.Table) -> pa.Table:
    """Apply all edits of a source."""
    edits = pa.concat_tables([unpack(blocks["block"][row].as_buffer()) for row in range(blocks.num_rows)])
    told: dict[str, Any] = {"parts": [], "updated": [], "dropped": [], "removed": 0}
    if source.fragment is not None:
        told |= _without(source.table, source.fragment, pc.unique(edits["offset"].combine_chunks()))
    else:
        told["parts"] = _rewritten(source, schema, edits)
    answer = pa.array([json.dumps(told)], pa.string())
    return pa.table({"source": pa.array([source.number], pa.int32()), "told": answer})


def _without(table: TableRef, fragment: int, offsets: pa.Array) -> dict[str, Any]:
    left = table.store.without_rows(table.open(), fragment, offsets.to_pylist())
    if left is None:
        return {"dropped": [fragment], "removed": len(offsets)}
    return {"updated": [fragment_to_text(left)], "removed": len(offsets)}


def _rewritten(source: Source, schema: Schema, edits: pa.Table) -> list[str]:
    declared = schema.find(source.type)
    assert declared is not None
    at = source.table.open()
    shape = arrow_schema(declared)
    batches = list(read_part(source.table.location, at, part_from_text([source.part]), shape.names))
    rows = pa.Table.from_batches(batches).select(shape.names)
    renamed = edits.filter(edits["id"].is_valid())
    gone = edits.filter(edits["id"].is_null())["offset"].to_numpy()
    if renamed.num_rows:
        ids = rows[ID].to_numpy(zero_copy_only=False).copy()
        ids[renamed["offset"].to_numpy()] = renamed["id"].to_numpy(zero_copy_only=False)
        rows = rows.set_column(rows.schema.get_field_index(ID), rows.schema.field(ID), pa.array(ids, pa.string()))
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[gone] = False
    rows = rows.filter(pa.array(kept))
    return part_to_text(source.table.store.write_part(at, rows)) if rows.num_rows else []
