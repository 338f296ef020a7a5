"""What the read side needs of a graph at one commit: its schema and each table pinned at a version."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from headgate.graph.schema.model import Schema

if TYPE_CHECKING:
    from lance import LanceDataset


class TableVersion(NamedTuple):
    """One immutable state of one table: whatever is derived from it never goes stale."""

    table: str
    """Unique for the table in this process: its full address, fork included."""
    version: int


class TableSource(Protocol):
    """A graph at one commit."""

    @property
    def schema(self) -> Schema: ...

    @property
    def commit(self) -> str:
        """The ref that is read."""
        ...

    def dataset(self, type_name: str) -> LanceDataset:
        """The table of a type, checked out at its pinned version; the caller may keep it."""
        ...

    def cache_key(self, type_name: str) -> TableVersion:
        """What may name things derived from this table's rows."""
        ...
