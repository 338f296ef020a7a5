"""What the writers of a run do: the kinds of writes there are, and how each is prepared on a state of the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tests.simulation.graph.disk import Change, Disk, Kind

from headgate.graph.manifest.rows import HeadMark, SchemaRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import commit_at, state_at
from headgate.graph.recovery.writers import Writer
from headgate.graph.storage import Staged, TableSnapshot
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest
from headgate.graph.write.task import on_pin

MAIN = "main"
TAG = "tag"
"""The key of a commit's metadata under which it names its write."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """One write of a run, and everything that it is expected to mean."""

    tag: str
    tables: tuple[str, ...]
    branch: str = MAIN
    kind: Kind = "append"
    reads: tuple[str, ...] = ()
    insert_only: bool = True
    conditional: bool = False
    """Only on the head that its writer finds at first."""
    task: bool = False
    content: bool = True
    schema: bool = False
    publish_id: str = ""
    replaces: str = ""
    """An abandoned commit whose place it takes, on the commit `onto`."""
    onto: str = ""
    relocates: bool = False

    def request(self, head: HeadMark) -> WriteRequest:
        return WriteRequest(
            branch=self.branch,
            writer=Writer.TASK if self.task else Writer.MUTATE,
            actor=self.tag,
            metadata={TAG: self.tag},
            publish_id=self.publish_id,
            if_commit=head.commit if self.conditional else "",
            only_head=head if self.replaces else None,
            replaces=self.replaces,
            onto=self.onto,
            relocates=self.relocates,
        )


@dataclass(frozen=True)
class Seen:
    """What a write was prepared on: the content of every table that it changes or that its checks read."""

    write: Write
    prepared: Prepared
    head: HeadMark
    """The head as its writer found it at first."""
    incarnation: str = ""
    content: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def prepare(store: GraphStore, disk: Disk, write: Write, state: ManifestState, head: HeadMark, number: int) -> Seen:
    """Stage a write on a state, as statements, loads and tasks do: a change per table, and what it rests on."""
    there = base_of(store, state, write.branch)
    back = there
    if write.replaces:
        onto = commit_at(store.manifest, state, write.onto)
        back = base_of(store, state_at(store.manifest, state, onto), write.branch, onto.order)
    changes = []
    for table in write.tables:
        at = back.snapshot_of(table)
        staged = None if write.relocates else _staged(write, at, number)
        if write.replaces:
            changes.append(on_pin(there, TableChange(table, at, staged), there.pinned(table)))
        else:
            changes.append(there.change(table, at, staged))
    prepared = Prepared(
        changes=tuple(changes),
        reads={table: there.pinned(table) for table in write.reads},
        schema_order=there.schema_order,
        insert_only=write.insert_only,
        content=write.content,
        schema=SchemaRow(schema=write.tag) if write.schema else None,
    )
    content = {table: back.snapshot_of(table).dataset.content for table in write.tables}  # type: ignore[attr-defined]
    content |= {table: there.snapshot_of(table).dataset.content for table in write.reads}  # type: ignore[attr-defined]
    return Seen(write, prepared, head, there.incarnation, content)


class PlainBase(Base):
    """A base whose types are known by the names of their tables: no schema is read."""

    def snapshot_of(self, table: str) -> TableSnapshot:
        row, pin = self.tables[table]
        return self.store.tables.open(row.path, pin.version, pin.fork)


def base_of(store: GraphStore, state: ManifestState, branch: str, order: int | None = None) -> PlainBase:
    made = state.incarnation(branch, order)
    assert made is not None
    tables = {name: (state.table(name), pin) for name, pin in state.pins(branch, order).items()}
    schema_order = state.schema(branch, order).order
    return PlainBase(store, branch, made.commit, made.order, schema_order, cast(Any, None), tables, made)


def _staged(write: Write, at: TableSnapshot, number: int) -> Staged:
    change = Change(write.kind, write.tag)
    rows = len(change.on(at.dataset.content))  # type: ignore[attr-defined]
    return Staged(f"{write.tag}-{number}-{at.path}", at.version, rows, change, at.fork)
