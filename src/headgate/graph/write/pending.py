"""What a write has changed so far, and how the tables look with it: later reads see committed and pending rows.

Nothing is stored here. A table's pending state is the rows that come, and the ids of stored rows that go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import KeyConflict
from headgate.graph.query.evaluate import evaluate as holds
from headgate.graph.query.lance_sql import lance_sql
from headgate.graph.query.mutation import lookup_ids
from headgate.graph.query.predicate import TRUE, Predicate
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import DST, ID, SRC, Schema, TableType
from headgate.graph.storage import TableSnapshot
from headgate.graph.storage.lookup import rows_where, rows_with
from headgate.graph.write.evaluate import NO_IDS, Delta, key_columns


@dataclass
class PendingTable:
    """The changes of one table. `added` holds each id once; an id in `deleted` is gone from the stored rows."""

    table: TableType
    at: TableSnapshot
    added: pa.Table
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    image: bool = False
    made_up: bool = True

    @property
    def changed(self) -> bool:
        return bool(self.image or self.added.num_rows or len(self.deleted))

    def put(self, rows: pa.Table, *, made_up: bool) -> None:
        """Rows that come; one with an id that was pending already takes its place."""
        if self.added.num_rows and not made_up:
            self.added = _without(self.added, rows[ID])
        self.added = pa.concat_tables([self.added, rows.cast(self.added.schema)])
        self.made_up = self.made_up and made_up

    def remove(self, ids: pa.Array) -> None:
        self.added = _without(self.added, ids)
        if not self.image:
            self.deleted = pc.unique(pa.concat_arrays([self.deleted, ids]))

    def replace_all(self, rows: pa.Table) -> None:
        self.added, self.image = rows.cast(self.added.schema), True
        self.deleted = NO_IDS

    def delta(self) -> Delta:
        return Delta(
            table=self.table,
            at=self.at,
            keys=self.added.select(key_columns(self.table)),
            deleted=self.deleted,
            image=self.image,
            made_up=self.made_up,
        )


class Pending:
    """The changes of one write over a base that does not move."""

    def __init__(self, schema: Schema, snapshot: Callable[[str], TableSnapshot]) -> None:
        self._schema = schema
        self._snapshot = snapshot
        self._tables: dict[str, PendingTable] = {}
        self.revision = 0
        """Goes up with every change: what was made of an earlier one is stale."""
        self.insert_only = True
        """Whether nothing that was read could have turned out differently on a newer base."""

    @property
    def schema(self) -> Schema:
        return self._schema

    def tables(self) -> dict[str, PendingTable]:
        return {name: table for name, table in self._tables.items() if table.changed}

    def find(self, name: str) -> PendingTable | None:
        return self._tables.get(name)

    def on(self, snapshot: Callable[[str], TableSnapshot]) -> Pending:
        """The same changes over another base, whose touched tables have the same content."""
        moved = Pending(self._schema, snapshot)
        moved._tables = {name: replace(table, at=snapshot(name)) for name, table in self._tables.items()}
        moved.insert_only, moved.revision = self.insert_only, self.revision
        return moved

    # -------- changing

    def insert(self, table: TableType, rows: pa.Table, *, made_up: bool = False, strict: bool = False) -> None:
        """Add rows. Keyed ones replace what has their id, unless they are strict."""
        pending = self._of(table)
        ids = rows[ID].combine_chunks()
        if strict and not made_up:
            self._refuse_taken(table, ids)
        pending.put(rows, made_up=made_up)

    def _refuse_taken(self, table: TableType, ids: pa.Array) -> None:
        taken = self.ids_with(table, ID, ids)
        if len(taken):
            key = taken[0].as_py()
            raise KeyConflict(
                message=f"there is a {table.name} {key} already",
                table=table.name,
                key=key,
                hint="update it, or merge instead",
            )

    def update(self, table: TableType, changes: dict[str, object], where: Predicate) -> int:
        """Set columns of the rows a condition holds for; how many there were."""
        self.insert_only = False
        rows = self.rows(table, where)
        if rows.num_rows:
            schema = rows.schema
            for name, value in changes.items():
                at = schema.get_field_index(name)
                rows = rows.set_column(at, schema.field(at), pa.array([value] * rows.num_rows, schema.field(at).type))
            self._of(table).put(rows, made_up=False)
        return int(rows.num_rows)

    def delete(self, table: TableType, ids: pa.Array) -> int:
        """Remove rows, and with a node its edges; how many rows of this table there were."""
        self.insert_only = False
        if not len(ids):
            return 0
        self._of(table).remove(ids)
        for edge in self._schema.edges_at(table.name):
            for side, node in ((SRC, edge.src), (DST, edge.dst)):
                if node == table.name:
                    self.delete(edge, self.ids_with(edge, side, ids))
        return len(ids)

    def delete_where(self, table: TableType, where: Predicate) -> int:
        self.insert_only = False
        return self.delete(table, self.rows(table, where, columns=[ID])[ID].combine_chunks())

    def overwrite(self, table: TableType, rows: pa.Table) -> None:
        self.insert_only = False
        self._of(table).replace_all(rows)

    # -------- reading

    def rows(self, table: TableType, where: Predicate = TRUE, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows a condition holds for, as this write would leave them."""
        names = list(columns) if columns else arrow_schema(table).names
        pending = self._tables.get(table.name)
        if pending is None or not pending.changed:
            return self._stored(table, where, names)
        mine = pending.added.filter(holds(where, pending.added)).select(names)
        if pending.image:
            return mine
        stored = self._stored(table, where, list(dict.fromkeys([*names, ID])))
        hidden = pa.concat_arrays([pending.deleted, pending.added[ID].combine_chunks()])
        return pa.concat_tables([_without(stored, hidden).select(names), mine.cast(stored.select(names).schema)])

    def ids_with(self, table: TableType, column: str, values: pa.Array) -> pa.Array:
        """The ids of the rows whose column holds one of the values, as this write would leave them."""
        pending = self._tables.get(table.name)
        found = NO_IDS
        if pending is None or not pending.image:
            found = rows_with(self._snapshot(table.name), column, values, [ID])[ID].combine_chunks()
        if pending is None:
            return found
        hidden = pa.concat_arrays([pending.deleted, pending.added[ID].combine_chunks()])
        mine = pending.added.filter(pc.is_in(pending.added[column], values))[ID].combine_chunks()
        return pa.concat_arrays([found.filter(pc.invert(pc.is_in(found, hidden))), mine])

    def _stored(self, table: TableType, where: Predicate, names: list[str]) -> pa.Table:
        at = self._snapshot(table.name)
        ids = lookup_ids(table, where)
        if ids is None:
            return rows_where(at, lance_sql(where), names)
        every = arrow_schema(table).names
        found = rows_with(at, ID, pa.array(ids, pa.string()), every)
        return found.filter(holds(where, found)).select(names)

    def _of(self, table: TableType) -> PendingTable:
        """The pending state of a table that is about to change."""
        self.revision += 1
        found = self._tables.get(table.name)
        if found is None:
            empty = arrow_schema(table).empty_table()
            found = self._tables[table.name] = PendingTable(table, self._snapshot(table.name), empty)
        return found


def _without(rows: pa.Table, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    taken = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if not rows.num_rows or not len(taken):
        return rows
    return rows.filter(pc.invert(pc.is_in(rows[ID], taken)))
