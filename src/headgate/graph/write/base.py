"""The state a write is made from: one commit's schema and pinned tables, which nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from headgate.errors import InvalidInput, NotFound
from headgate.graph.manifest.publisher import TableAt
from headgate.graph.manifest.rows import Commit, Fork, Head, Pin, TableRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.read.source import TableVersion
from headgate.graph.schema.model import Schema, TableType
from headgate.graph.schema.serial import schema_from_json
from headgate.graph.storage import Staged, TableSnapshot
from headgate.graph.store import GraphStore
from headgate.graph.write.prepared import TableChange

if TYPE_CHECKING:
    from lance import LanceDataset


def check_kept(state: ManifestState, commit: Commit) -> None:
    """Raise if a cleanup has let go of a commit; by a state that was read after the commit was leased."""
    if not state.is_kept(commit):
        raise cleaned_up(commit.id)


def cleaned_up(commit: str, name: str = "") -> NotFound:
    what = f"what {name} was at commit {commit}" if name else f"what the graph was at commit {commit}"
    return NotFound(
        message=f"{what} is older than what cleanup keeps",
        kind="commit",
        name=commit,
        hint="read a newer commit; headgate log lists them",
    )


_parse = lru_cache(maxsize=32)(schema_from_json)


@dataclass(frozen=True)
class Base:
    """A graph at one commit of one branch: also what queries read."""

    store: GraphStore = field(repr=False)
    branch: str
    commit: str
    order: int
    schema_order: int
    schema: Schema = field(repr=False)
    tables: dict[str, tuple[TableRow, Pin]] = field(repr=False)
    """By the name of the type."""
    made: Head | Fork = field(repr=False)
    """The branch itself, which an earlier or later one of the same name is not."""
    gone: frozenset[str] = frozenset()
    """Types whose tables a cleanup may have removed at this commit."""

    @classmethod
    def of(cls, store: GraphStore, state: ManifestState, branch: str) -> Base:
        """The head of a branch."""
        head = state.head(branch)
        return cls.at(store, state, branch, commit=head.commit, order=None)

    @classmethod
    def at(cls, store: GraphStore, state: ManifestState, branch: str, *, commit: str, order: int | None) -> Base:
        row = state.schema(branch, order)
        schema = _parse(row.schema)
        names = {table.id: table.name for table in schema.tables()}
        tables = {}
        for name, pin in state.pins(branch, order).items():
            table = state.table(name)
            if table.type_id in names:
                tables[names[table.type_id]] = (table, pin)
        reached = state.head(branch).order if order is None else order
        made = state.incarnation(branch, order)
        assert made is not None
        return cls(store, branch, commit, reached, row.order, schema, tables, made)

    @property
    def incarnation(self) -> str:
        return self.made.incarnation

    def checked(self, state: ManifestState) -> Base:
        """The same commit, by the floors of a state that was read after this commit was leased."""
        if self.commit in state.exceptions:
            return self
        made_on = state.incarnation(self.branch, self.order)
        alive = isinstance(made_on, Head) and not made_on.closed
        gone = set()
        for name, (row, pin) in self.tables.items():
            floor = state.find_floor(row.table, pin.fork)
            inherited = alive and pin.branch != self.branch
            if floor is not None and pin.version < floor.version and not inherited:
                gone.add(name)
        return replace(self, gone=frozenset(gone)) if gone else self

    def type(self, name: str) -> TableType:
        found = self.schema.find(name)
        if found is None:
            known = ", ".join(table.name for table in self.schema.tables())
            raise NotFound(message=f"there is no type {name}", kind="type", name=name, hint=f"the graph has: {known}")
        return found

    def declared(self, name: str, types: Sequence[str] | None) -> TableType:
        """A type that a transaction may touch: any, or one of those that were declared for it."""
        if types is not None and name not in types:
            raise InvalidInput(
                message=f"{name} is not among the types that were declared",
                hint=f"declared are: {', '.join(types)}",
            )
        return self.type(name)

    def snapshot(self, name: str) -> TableSnapshot:
        """A type's table at its pinned version."""
        self.type(name)
        if name in self.gone:
            raise cleaned_up(self.commit, name)
        row, pin = self.tables[name]
        return self.store.tables.open(row.path, pin.version, pin.fork)

    def change(self, name: str, at: TableSnapshot, staged: Staged | None) -> TableChange:
        """A change to a type's table, on a fork of its own if the branch only inherits what it shows."""
        row, pin = self.tables[name]
        return TableChange(row.table, at, staged, new_fork="" if self.owns(row, pin.fork) else self.new_fork())

    def owns(self, row: TableRow, fork: str) -> bool:
        """Whether only this branch ever writes to a fork of a table, or to the table itself if `fork` is empty."""
        if fork:
            return fork.startswith(self.made.fork_prefix)
        return row.branch == self.branch and row.order > self.made.inherited

    def new_fork(self) -> str:
        """A name for a fork that this branch may write to, which nobody has used."""
        return f"{self.made.fork_prefix}{self.store.ids.new().lower()}"

    def table_key(self, name: str) -> str:
        return self.tables[name][0].table

    def pinned(self, name: str) -> TableAt:
        pin = self.tables[name][1]
        return TableAt(pin.version, pin.fork, pin.rows)

    # -------- as the read side's source

    def dataset(self, type_name: str) -> LanceDataset:
        return self.snapshot(type_name).dataset

    def cache_key(self, type_name: str) -> TableVersion:
        row, pin = self.tables[type_name]
        return TableVersion(f"{self.store.location}/{row.path}@{pin.fork}", pin.version)

    @cached_property
    def rows(self) -> dict[str, int]:
        """How many rows each type has."""
        return {name: pin.rows for name, (_, pin) in self.tables.items()}
