"""Change the columns of a table in one staged transaction: add, rename, drop. No stored row is written again.

New columns are written beside the others, one file per fragment. Lance gives each column a number that it never uses
twice; the numbers of a changed schema are made by Lance itself, on an empty table in a scratch folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation

from headgate.graph.schema.model import ID
from headgate.graph.storage.changes import Staged
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.tables import TableSnapshot, staged_on


@dataclass(frozen=True)
class NewColumn:
    column: pa.Field
    value: Any = None
    """What every stored row gets."""

    def array(self, count: int) -> pa.Array:
        if self.value is None:
            return pa.nulls(count, self.column.type)
        return pa.repeat(pa.scalar(self.value, self.column.type), count)


@dataclass(frozen=True)
class ColumnChanges:
    added: tuple[NewColumn, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()


def stage_columns(at: TableSnapshot, changes: ColumnChanges) -> Staged:
    """The transaction that makes these changes: the present rows, with other columns."""
    try:
        operation = _changed(at.dataset, changes) if at.dataset.get_fragments() else _emptied(at.dataset, changes)
    except Exception as error:
        raise as_error(error, doing=f"change the columns of table {at.path}") from error
    return staged_on(at, at.rows, operation)


def _changed(dataset: LanceDataset, changes: ColumnChanges) -> LanceOperation.Merge:
    fragments, schema = _with_added(dataset, changes.added)
    if changes.renamed or changes.dropped:
        schema = _edited(schema, changes)
    return LanceOperation.Merge(fragments, schema)


def _emptied(dataset: LanceDataset, changes: ColumnChanges) -> LanceOperation.Overwrite:
    """The same for a table without rows: its columns may have new numbers, since there is nothing to read by them."""
    kept = [
        column.with_name(changes.renamed.get(column.name, column.name))
        for column in dataset.schema
        if column.name not in changes.dropped
    ]
    return LanceOperation.Overwrite(pa.schema([*kept, *(item.column for item in changes.added)]), [])


def _with_added(dataset: LanceDataset, added: Sequence[NewColumn]) -> tuple[list[Any], Any]:
    present = list(dataset.get_fragments())
    if not added:
        return [fragment.metadata for fragment in present], dataset.lance_schema
    declared = pa.schema([item.column for item in added])

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([item.array(batch.num_rows) for item in added], schema=declared)

    written = [fragment.merge_columns(values, columns=[ID]) for fragment in present]
    return [fragment for fragment, _ in written], written[0][1]


def _edited(schema: Any, changes: ColumnChanges) -> Any:
    """A schema with columns renamed and dropped, and the numbers of the others kept."""
    with TemporaryDirectory(prefix="headgate-columns-") as folder:
        place = Path(folder) / "table"
        table = LanceDataset.commit(place, LanceOperation.Overwrite(schema, []))
        if changes.dropped:
            table.drop_columns(list(changes.dropped))
        if changes.renamed:
            table.alter_columns(*({"path": was, "name": now} for was, now in changes.renamed.items()))
        return lance.dataset(place).lance_schema
