"""A write that is ready to be committed: its staged transactions, and everything they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.graph.manifest.publisher import TableAt
from headgate.graph.manifest.rows import HeadMark, SchemaRow, TableRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.writers import Writer
from headgate.graph.storage import Staged, TableSnapshot


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """What a caller says about a write, besides its changes."""

    writer: Writer
    branch: str = "main"
    actor: str = ""
    message: str = ""
    publish_id: str = ""
    incarnation: str | None = None
    """The very branch it was begun on; a later one of the same name is another."""
    if_commit: str = ""
    """The head this write is conditional on; empty if it is not."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    only_head: HeadMark | None = None
    """The head, by commit and order, that this write is conditional on."""
    replaces: str = ""
    """An abandoned commit that this write takes the place of, on the commit `onto`."""
    onto: str = ""
    relocates: bool = False
    """Move the head from `replaces` back to `onto`, without a commit."""


@dataclass(frozen=True)
class TableChange:
    """One table's change, and the version it was staged on. `Base.change` makes one."""

    table: str
    at: TableSnapshot
    staged: Staged | None
    """None where the table is only brought back to `at`."""
    pin: TableAt | None = None
    """What the branch shows, where that is not `at`: the content of `at` is then restored first."""
    new_fork: str = ""
    """The fork of `at` that is made for it after the sidecar exists: a name nobody has used."""

    @property
    def expected(self) -> TableAt:
        return self.pin or TableAt(self.at.version, self.at.fork)

    @property
    def rows(self) -> int:
        return self.at.rows if self.staged is None else self.staged.rows


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that one publish sets and rests on. What it sets rides in the same publish, or nothing does."""

    changes: tuple[TableChange, ...]
    reads: Mapping[str, TableAt] = field(default_factory=dict)
    """The tables that validation read besides those it changes."""
    schema_order: int
    insert_only: bool = False
    """It rests on no row it has seen: it may be prepared again on a newer state."""
    content: bool = True
    new_tables: tuple[TableRow, ...] = ()
    """Tables that were created for this write in folders of their own; `shown` says at which version."""
    shown: Mapping[str, TableAt] = field(default_factory=dict)
    """Pins to set without a change to the table."""
    removed: tuple[str, ...] = ()
    """Tables that the branch no longer shows."""
    schema: SchemaRow | None = None
    ids: tuple[int, int] | None = None
    """The first free id of types and properties: what it was taken to be, and what it becomes."""
    merged_parent: str = ""

    @property
    def expected(self) -> dict[str, TableAt]:
        changed = {change.table: change.expected for change in self.changes}
        return {**self.reads, **changed}

    def moved(self, state: ManifestState, branch: str) -> tuple[str, int, int | None] | None:
        """The first table that is not where this was prepared (name, expected, actual); None if all are."""
        if state.schema(branch).order != self.schema_order:
            return "schema", self.schema_order, state.schema(branch).order
        pins = state.pins(branch)
        for table, at in self.expected.items():
            pin = pins.get(table)
            if pin is None or (pin.version, pin.fork) != (at.version, at.fork):
                return table, at.version, pin.version if pin else None
        return None
