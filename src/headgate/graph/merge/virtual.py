"""The base of two branches that were merged in both directions: none of the nearest ancestors alone, but their merge.

Only the rows that may have changed are put together. A value on which the ancestors themselves disagree is unknown:
it is equal to nothing, so that the two sides have to agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headgate.graph.changes.pairing import as_type
from headgate.graph.merge.bases import Commits, merge_bases
from headgate.graph.merge.rows import Row
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import ID, TableType
from headgate.graph.storage.lookup import ADDRESS, rows_with
from headgate.graph.write.base import Base

UNKNOWN = object()


class VirtualBase:
    def __init__(self, commits: Commits, base_of: Callable[[str], Base]) -> None:
        self._commits = commits
        self._base_of = base_of

    def rows(self, bases: Sequence[str], table: TableType, ids: pa.Array) -> dict[str, Row]:
        """The rows of these ids in the merge of several commits, in the columns of a type."""
        if not bases:
            return {}
        first, *others = bases
        found = self.stored(self._base_of(first), table, ids)[0]
        for other in others:
            before = self.rows(merge_bases(self._commits, first, other), table, ids)
            theirs = self.stored(self._base_of(other), table, ids)[0]
            names = {*found, *theirs}
            put = {name: _merged(before.get(name), found.get(name), theirs.get(name)) for name in names}
            found = {name: row for name, row in put.items() if row is not None}
        return found

    @staticmethod
    def stored(base: Base, table: TableType, ids: pa.Array) -> tuple[dict[str, Row], dict[str, int]]:
        """The rows of these ids at one commit, and where they are."""
        held = next((name for name, (row, _) in base.tables.items() if row.type_id == table.id), None)
        if held is None:
            return {}, {}
        source = base.type(held)
        found = rows_with(base.snapshot(held), ID, ids, arrow_schema(source).names, address=True)
        at = dict(zip(found[ID].to_pylist(), found[ADDRESS].to_pylist(), strict=True))
        rows = as_type(found.drop_columns([ADDRESS]), source, table).to_pylist()
        return {row[ID]: row for row in rows}, at


def _merged(base: Row | None, one: Row | None, other: Row | None) -> Row | None:
    if one is None or other is None:
        kept = other if one is None else one
        if kept is None or base is None:
            return kept
        # One of them removed it. Where the other left it alone it is gone; else nobody knows.
        return None if kept == base else dict.fromkeys(kept, UNKNOWN) | {ID: kept[ID]}
    return {name: _value(base[name] if base else UNKNOWN, one[name], other[name]) for name in one}


def _value(base: Any, one: Any, other: Any) -> Any:
    if one == other or (one != one and other != other):
        return one
    if one == base:
        return other
    return one if other == base else UNKNOWN
