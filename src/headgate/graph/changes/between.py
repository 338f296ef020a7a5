"""The changes between two commits: rows with what they were and what they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from headgate.errors import NotFound
from headgate.graph.changes.pairing import pairs
from headgate.graph.changes.rows import Changed, TableDifference
from headgate.graph.schema.model import ID
from headgate.graph.write.base import Base

Kind = Literal["added", "changed", "removed"]


@dataclass(frozen=True)
class RowChange:
    """One row that two commits show differently."""

    type: str
    kind: Kind
    id: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None

    def reversed(self) -> RowChange:
        """The change that takes this one back."""
        kinds: dict[Kind, Kind] = {"added": "removed", "removed": "added", "changed": "changed"}
        return RowChange(self.type, kinds[self.kind], self.id, self.after, self.before)


@dataclass(frozen=True)
class TableCounts:
    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True)
class Changes:
    """What turns one commit into another. Rows are read as they are asked for."""

    old: str
    new: str
    tables: tuple[TableDifference, ...] = field(repr=False)

    def __iter__(self) -> Iterator[RowChange]:
        for table in self.tables:
            name = table.pair.name
            for rows in table.removed():
                for row in rows.to_pylist():
                    yield RowChange(name, "removed", row[ID], before=row)
            for changed in table.changed():
                for before, after in zip(changed.before.to_pylist(), changed.after.to_pylist(), strict=True):
                    yield RowChange(name, "changed", after[ID], before, after)
            for rows in table.added():
                for row in rows.to_pylist():
                    yield RowChange(name, "added", row[ID], after=row)

    def batches(self) -> Iterator[tuple[str, Kind, pa.Table | None, pa.Table | None]]:
        """Type, kind, and the rows before and after, as Arrow tables of bounded size."""
        for table in self.tables:
            name = table.pair.name
            yield from ((name, "removed", rows, None) for rows in table.removed())
            yield from ((name, "changed", rows.before, rows.after) for rows in table.changed())
            yield from ((name, "added", None, rows) for rows in table.added())

    def counts(self) -> dict[str, TableCounts]:
        """How many rows of each type differ; types that do not are left out."""
        found = {
            table.pair.name: TableCounts(
                sum(rows.num_rows for rows in table.added()),
                sum(rows.after.num_rows for rows in table.changed()),
                sum(rows.num_rows for rows in table.removed()),
            )
            for table in self.tables
        }
        return {name: counts for name, counts in found.items() if counts != TableCounts()}


def changes_between(before: Base, after: Base, types: Collection[str] | None = None) -> Changes:
    """What turns one commit into another, of some types or of all."""
    for name in types or ():
        if before.schema.find(name) is None and after.schema.find(name) is None:
            raise NotFound(
                message=f"there is no type {name}", kind="type", name=name, hint="headgate graph schema show lists them"
            )
    objects = after.store.objects
    found = [TableDifference(objects, pair) for pair in pairs(before, after)]
    return Changes(
        before.commit, after.commit, tuple(table for table in found if types is None or table.pair.name in types)
    )


__all__ = ["Changed", "Changes", "RowChange", "TableCounts", "changes_between"]
