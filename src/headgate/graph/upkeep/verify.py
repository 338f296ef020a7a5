"""Walk everything a graph promises: lineage, pins, files, counts, columns, constraints. Changes nothing.

Each branch's head is read whole. Of earlier commits that are kept, the versions they show must be there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import HeadgateError
from headgate.graph.manifest.rows import Commit, Pin, TableRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.keys import row_ids
from headgate.graph.schema.model import ID, TableType
from headgate.graph.schema.values import Rules, check_column
from headgate.graph.storage import TableSnapshot
from headgate.graph.storage.lookup import scan
from headgate.graph.store import GraphStore
from headgate.graph.upkeep.retention import Stored
from headgate.graph.write.base import Base
from headgate.graph.write.distinct import repeated
from headgate.graph.write.evaluate import Delta, evaluate, key_columns

_LISTED = 100
"""Rows that are told of each table."""


@dataclass(frozen=True)
class Damage:
    what: str
    """`lineage`, `pin`, `file`, `count`, `columns` or `constraint`."""
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.what}: {self.where}: {self.message}"


@dataclass
class Verified:
    """What was looked at, and what is wrong with it."""

    branches: int = 0
    commits: int = 0
    versions: int = 0
    rows: int = 0
    damage: list[Damage] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return not self.damage


def verify(store: GraphStore) -> Verified:
    """Everything that is not as it should be, in one list."""
    found = Verified()
    state = store.manifest.state()
    past = store.manifest.history.rows("kind IN ('commit','pin')")
    whole = ManifestState(state.version, {**{row.object_id: row for row in past}, **state.rows})
    found.damage += _lineage(whole, found)
    found.damage += _versions(store, whole, found)
    for branch in state.branches:
        found.branches += 1
        try:
            base = Base.of(store, state, branch)
        except HeadgateError as error:
            found.damage.append(Damage("lineage", branch, error.message))
            continue
        found.damage += _head(base, found)
    return found


def _lineage(state: ManifestState, found: Verified) -> Iterator[Damage]:
    """Every branch leads from its head, parent by parent, to the commit the graph began with."""
    commits = {row.id: row for row in state.rows.values() if isinstance(row, Commit)}
    found.commits = len(commits)
    sound: set[str] = set()
    for branch in state.branches:
        at, seen, child = state.head(branch).commit, set(), branch
        while at and at not in sound:
            commit = commits.get(at)
            if commit is None:
                yield Damage("lineage", branch, f"commit {at}, which {child} was made on, is not there")
                break
            if at in seen:
                yield Damage("lineage", branch, f"commit {at} is its own ancestor")
                break
            seen.add(at)
            at, child = commit.parent, commit.id
        sound |= seen


def _versions(store: GraphStore, state: ManifestState, found: Verified) -> Iterator[Damage]:
    """The version that each pin names, unless it lies below what is kept."""
    pinned: dict[Stored, dict[int, str]] = {}
    for row in state.rows.values():
        if isinstance(row, Pin):
            floor = state.find_floor(row.table, row.fork)
            if floor is None or row.version >= floor.version:
                pinned.setdefault(Stored(row.table, row.fork), {})[row.version] = row.branch
    for stored, versions in sorted(pinned.items()):
        table = state.rows.get(f"table:{stored.table}")
        if not isinstance(table, TableRow):
            yield Damage("pin", stored.table, "a pin names this table, and the manifest does not know it")
            continue
        where = f"{table.name} ({table.path}{f' on {stored.fork}' if stored.fork else ''})"
        try:
            there = set(store.tables.versions(table.path, stored.fork))
        except HeadgateError as error:
            yield Damage("pin", where, error.message)
            continue
        found.versions += len(versions)
        for version, branch in sorted(versions.items()):
            if version not in there:
                yield Damage("pin", where, f"version {version}, which branch {branch} showed, is not there")


def _head(base: Base, found: Verified) -> Iterator[Damage]:
    images: dict[str, Delta] = {}
    for table in base.schema.tables():
        where = f"{base.branch}:{table.name}"
        if table.name not in base.tables:
            yield Damage("pin", where, "the schema declares this type, and the branch shows no table for it")
            continue
        try:
            at = base.snapshot(table.name)
            wrong = list(_columns(table, at, where))
            yield from wrong
            if wrong:
                continue
            keys = yield from _rows(table, at, where, found)
        except HeadgateError as error:
            yield Damage("file", where, error.message)
            continue
        if at.rows != base.rows[table.name]:
            told = f"the table has {at.rows} rows, and its pin says {base.rows[table.name]}"
            yield Damage("count", where, told)
        images[table.name] = Delta(table=table, at=at, keys=keys, image=True)
    if len(images) == len(list(base.schema.tables())):
        yield from _constraints(base, images)


def _columns(table: TableType, at: TableSnapshot, where: str) -> Iterator[Damage]:
    declared, stored = arrow_schema(table), at.dataset.schema
    for column in declared:
        if column.name not in stored.names:
            yield Damage("columns", where, f"the column {column.name} is not there")
        elif stored.field(column.name).type != column.type:
            told = f"the column {column.name} is {stored.field(column.name).type}, and should be {column.type}"
            yield Damage("columns", where, told)
    for name in stored.names:
        if name not in declared.names:
            yield Damage("columns", where, f"the column {name} is none of the type's")


def _rows(table: TableType, at: TableSnapshot, where: str, found: Verified) -> Generator[Damage, None, pa.Table]:
    """Every row: its values and its id. The answer is the columns that other rows are held against."""
    names = arrow_schema(table).names
    wanted = key_columns(table)
    parts: list[pa.Table] = []
    told = 0
    for batch in scan(at, names):
        rows = pa.Table.from_batches([batch])
        found.rows += rows.num_rows
        parts.append(rows.select(wanted))
        for row, message in _bad(table, rows):
            told += 1
            if told <= _LISTED:
                yield Damage("constraint", where, f"{rows[ID][row].as_py()}: {message}")
    keys = pa.concat_tables(parts) if parts else arrow_schema(table).empty_table().select(wanted)
    for twice in repeated(keys[ID].combine_chunks()).to_pylist()[:_LISTED]:
        yield Damage("constraint", where, f"the id {twice} is there more than once")
    return keys


def _bad(table: TableType, rows: pa.Table) -> Iterator[tuple[int, str]]:
    for item in table.properties:
        for row, problem in check_column(Rules.of(table, item), rows[item.name].combine_chunks()).bad.items():
            yield row, problem.message
    if table.key:
        expected = row_ids([rows[name] for name in table.key])
        for row in pc.indices_nonzero(pc.not_equal(expected, rows[ID].combine_chunks())).to_pylist():
            yield row, f"its key says {expected[row].as_py()}"


def _constraints(base: Base, images: dict[str, Delta]) -> Iterator[Damage]:
    """The whole graph as one write would be checked: unique values, both ends of every edge, cardinality."""
    for rejection in evaluate(base.schema, images, base.snapshot).rejected[:_LISTED]:
        yield Damage("constraint", f"{base.branch}:{rejection.type}", f"{rejection.id}: {rejection.message}")
