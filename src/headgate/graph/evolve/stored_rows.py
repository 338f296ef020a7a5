"""Hold what a changed schema newly asks of rows against those that are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.schema.arrow import arrow_type
from headgate.graph.schema.change import SchemaPlan, TableEdit
from headgate.graph.schema.keys import row_ids
from headgate.graph.schema.model import ID, Check, Range, Unique
from headgate.graph.schema.values import Rules, check_column
from headgate.graph.storage.lookup import scan
from headgate.graph.write.base import Base
from headgate.graph.write.distinct import repeated
from headgate.graph.write.evaluate import Rejection

_LISTED = 1000
"""Rows that are told of each constraint."""


def rejected_rows(base: Base, plan: SchemaPlan) -> list[Rejection]:
    """Stored rows that break a constraint the plan adds, by their ids; `Person` is what the new schema calls it."""
    found: list[Rejection] = []
    for edit in plan.edits:
        if edit.constraints and base.rows[edit.old.name]:
            found += _of_table(base, edit)
    return found


def _of_table(base: Base, edit: TableEdit) -> Iterator[Rejection]:
    uniques = [item for item in edit.constraints if isinstance(item, Unique)]
    values = [item for item in edit.constraints if not isinstance(item, Unique)]
    told: dict[int, int] = {}
    taken: list[list[pa.Array]] = [[] for _ in uniques]
    ids: list[pa.Array] = []
    for rows in _batches(base, edit, _columns(edit)):
        for number, item in enumerate(values):
            for rejection in _by_value(edit, item, rows):
                told[number] = told.get(number, 0) + 1
                if told[number] <= _LISTED:
                    yield rejection
        if uniques:
            ids.append(rows[ID].combine_chunks())
        for number, unique in enumerate(uniques):
            taken[number].append(row_ids([rows[name] for name in unique.properties]))
    for unique, columns in zip(uniques, taken, strict=True):
        yield from _by_others(edit, unique, pa.concat_arrays(ids), pa.concat_arrays(columns))


def _columns(edit: TableEdit) -> list[str]:
    names = [ID]
    for item in edit.constraints:
        names += item.properties if isinstance(item, Unique) else (item.property,)
    return list(dict.fromkeys(names))


def _batches(base: Base, edit: TableEdit, names: Sequence[str]) -> Iterator[pa.Table]:
    """The columns as they will be: under their new names, new ones with what stored rows get."""
    stored = {name: edit.old_name(name) for name in names}
    present = [old for old in stored.values() if old is not None]
    for batch in scan(base.snapshot(edit.old.name), present):
        columns = []
        for name, old in stored.items():
            if old is not None:
                columns.append(batch[old])
            else:
                item = edit.new.property(name)
                columns.append(pa.repeat(pa.scalar(item.default, arrow_type(item.type)), batch.num_rows))
        yield pa.table(columns, names=list(stored))


def _by_value(edit: TableEdit, item: Range | Check, rows: pa.Table) -> Iterator[Rejection]:
    declared = edit.new.property(item.property)
    rules = Rules(
        item.property,
        declared.type,
        nullable=True,
        ranges=(item,) if isinstance(item, Range) else (),
        checks=(item,) if isinstance(item, Check) else (),
    )
    for row, problem in check_column(rules, rows[item.property].combine_chunks()).bad.items():
        yield Rejection(edit.new.name, None, rows[ID][row].as_py(), problem.code, problem.message)


def _by_others(edit: TableEdit, unique: Unique, ids: pa.Array, values: pa.Array) -> Iterator[Rejection]:
    twice = repeated(values)
    if not len(twice):
        return
    named = ", ".join(unique.properties)
    for row in pc.indices_nonzero(pc.is_in(values, twice)).slice(0, _LISTED).to_pylist():
        told = f"another row has {named} {values[row].as_py()} too"
        yield Rejection(edit.new.name, None, ids[row].as_py(), "unique", told)
