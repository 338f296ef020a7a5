"""What the writers of a run do: the kinds of writes there are, and how each is prepared on a state of the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tests.simulation.graph.disk import Change, Disk, Kind

from headgate.graph.manifest.publisher import TableAt
from headgate.graph.manifest.rows import HeadMark, Pin, SchemaRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import commit_at, state_at
from headgate.graph.storage import Staged
from headgate.graph.store import GraphStore
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest

BRANCH = "main"
TAG = "tag"
"""The key of a commit's metadata under which it names its write."""


@dataclass(frozen=True, kw_only=True)
class Write:
    """One write of a run, and everything that it is expected to mean."""

    tag: str
    tables: tuple[str, ...]
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
            branch=BRANCH,
            writer="task" if self.task else "mutate",
            actor=self.tag,
            metadata={TAG: self.tag},
            publish_id=self.publish_id,
            if_commit=head.commit if self.conditional else "",
            only_head=head if self.replaces else None,
            task=self.task,
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
    content: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def prepare(store: GraphStore, disk: Disk, write: Write, state: ManifestState, head: HeadMark, uuid: int) -> Seen:
    """Stage a write on a state, as statements and loads do: one transaction per table, and what it rests on."""
    pins = state.pins(BRANCH)
    shown = {table: pins[table] for table in (*write.tables, *write.reads)}
    schema = state.schema(BRANCH)
    back = pins
    if write.replaces:
        onto = commit_at(store.manifest, state, write.onto)
        back = state_at(store.manifest, state, onto).pins(BRANCH, onto.order)
    changes = tuple(
        _change(store, write, table, back[table], shown[table], f"{UUID(int=uuid * 16 + number)}")
        for number, table in enumerate(write.tables)
    )
    prepared = Prepared(
        changes=changes,
        reads={table: _at(pins[table]) for table in write.reads},
        schema_order=schema.order,
        insert_only=write.insert_only,
        content=write.content,
        schema=SchemaRow(schema=write.tag) if write.schema else None,
    )
    content = {
        table: disk.content(state.table(table).path, (back if table in write.tables else pins)[table].version)
        for table in shown
    }
    return Seen(write, prepared, head, content)


def _change(store: GraphStore, write: Write, table: str, from_: Pin, shown: Pin, uuid: str) -> TableChange:
    at = store.tables.open(f"tables/{table}", from_.version, from_.fork)
    change = Change(write.kind, write.tag)
    staged = None if write.relocates else Staged(uuid, at.version, len(change.on(at.dataset.content)), change)  # type: ignore[attr-defined]
    moved = write.replaces and (staged is None or shown.version != from_.version)
    return TableChange(table, at, staged, pin=_at(shown) if moved else None)


def _at(pin: Pin) -> TableAt:
    return TableAt(pin.version, pin.fork, pin.rows)
