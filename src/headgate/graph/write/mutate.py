"""Apply a mutation's statements, in order, to what a write has pending."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from headgate.graph.query.mutation import BoundDelete, BoundInsert, BoundStatement, BoundUpdate
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import ID
from headgate.graph.write.pending import Pending
from headgate.ids import IdSource


@dataclass
class Affected:
    """How many rows each kind of statement touched; edges deleted with their nodes are not counted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def apply(pending: Pending, statements: Iterable[BoundStatement], ids: IdSource) -> Affected:
    """Run statements so that each sees what the earlier ones did."""
    done = Affected()
    for statement in statements:
        match statement:
            case BoundInsert(table, row):
                keyed = bool(table.key)
                whole = row if keyed else {ID: ids.new(), **row}
                rows = pa.Table.from_pylist([whole], schema=arrow_schema(table))
                pending.insert(table, rows, made_up=not keyed, strict=not keyed)
                done.inserted += 1
            case BoundUpdate(table, changes, where):
                done.updated += pending.update(table, changes, where)
            case BoundDelete(table, where):
                done.deleted += pending.delete_where(table, where)
    return done
