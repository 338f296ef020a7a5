"""Which table of one commit is which of another, and which columns: by what stays through renames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import Property, TableType
from headgate.graph.storage import TableSnapshot
from headgate.graph.write.base import Base


@dataclass(frozen=True)
class Side:
    """A type's table at one commit."""

    type: TableType
    at: TableSnapshot


@dataclass(frozen=True)
class Pair:
    """A type's table at two commits; one side is missing where the type is."""

    before: Side | None
    after: Side | None

    @property
    def name(self) -> str:
        """What the type is called now, or was called last."""
        side = self.after or self.before
        assert side is not None
        return side.type.name


def pairs(before: Base, after: Base, *, unchanged: bool = False) -> Iterator[Pair]:
    """The tables that differ, node types first; with `unchanged` all of them."""
    names = {row.type_id: name for name, (row, _) in before.tables.items()}
    found = []
    for name, (row, pin) in after.tables.items():
        other = names.pop(row.type_id, None)
        if other is None:
            found.append(Pair(None, _side(after, name)))
            continue
        old_row, old_pin = before.tables[other]
        same = (old_row.table, old_pin.version, old_pin.fork) == (row.table, pin.version, pin.fork)
        if unchanged or not same:
            found.append(Pair(_side(before, other), _side(after, name)))
    found += [Pair(_side(before, name), None) for name in names.values()]
    order = [table.name for base in (after, before) for table in base.schema.tables()]
    yield from sorted(found, key=lambda pair: order.index(pair.name))


def _side(base: Base, name: str) -> Side:
    return Side(base.type(name), base.snapshot(name))


def as_type(rows: pa.Table, source: TableType, target: TableType) -> pa.Table:
    """Rows of one schema as another has them: renamed columns follow, new ones hold their default or nothing."""
    if source == target:
        return rows.cast(arrow_schema(target)) if rows.schema != arrow_schema(target) else rows
    columns = []
    schema = arrow_schema(target)
    loose = pa.schema([field.with_nullable(True) for field in schema])
    for field in schema:
        item = target.find_property(field.name)
        name = field.name if item is None else former_name(item, source)
        if name is not None:
            columns.append(rows[name].cast(field.type))
        else:
            default = None if item is None else item.default
            columns.append(pa.array([default] * rows.num_rows).cast(field.type))
    made = pa.table(columns, schema=loose)
    # A property that has become required since has no null where the new schema was applied.
    return made if any(made[f.name].null_count and not f.nullable for f in schema) else made.cast(schema)


def former_name(item: Property, source: TableType) -> str | None:
    """What a property is called in another version of its type; None if it is not there."""
    return next((old.name for old in source.properties if old.id == item.id), None)
