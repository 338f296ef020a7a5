"""What the manifest holds, row by row.

A row is named by its `object_id`; rows of one name replace each other, so the head row of a branch, which every
publish rewrites, is where two publishes meet. Pins, commits and schemas are never rewritten but named by their
publish order: the state at any commit is a filter over them. A reader skips kinds and fields it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa

COLUMNS = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("order", pa.int64(), nullable=False),
        pa.field("body", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class HeadMark:
    """A head by its commit and its publish order: a commit may come back to a head, an order never does."""

    commit: str
    order: int

    def __str__(self) -> str:
        return f"{self.order:012d}-{self.commit}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What every row has: the branch it belongs to (none for what concerns the whole graph) and its publish order."""

    KIND: ClassVar[str] = ""
    branch: str = ""
    order: int = 0

    @property
    def object_id(self) -> str:
        raise NotImplementedError

    @property
    def branch_scoped(self) -> bool:
        """Whether only publishes on its own branch, or only this very operation, can write the row."""
        return True


@dataclass(frozen=True, kw_only=True)
class Format(Row):
    """The shape of everything stored: which versions of Headgate may read and write it."""

    KIND: ClassVar[str] = "format"
    stamp: int

    @property
    def object_id(self) -> str:
        return "format"


@dataclass(frozen=True, kw_only=True)
class Head(Row):
    """Where a branch is, since which publish order, and what it inherits from the branch it was made from."""

    KIND: ClassVar[str] = "head"
    commit: str
    parent_branch: str = ""
    base_order: int = 0
    """Rows of the parent branch up to this order are inherited."""
    inherited: int = 0
    """The highest order that was taken when the branch was made: its own orders lie above."""
    format: int = 1
    """The format that the rows of this branch have been brought to."""
    closed: bool = False
    """The branch has been deleted: nobody may publish to it, and its name may be taken again."""
    incarnation: str = ""
    """Tells a branch from an earlier one of the same name, and begins the names of its forks; main has none."""

    @property
    def object_id(self) -> str:
        return f"head:{self.branch}"

    @property
    def mark(self) -> HeadMark:
        return HeadMark(self.commit, self.order)

    @property
    def fork_prefix(self) -> str:
        """What the name of each fork made for this branch begins with: only this branch ever writes to those."""
        return Head.fork_prefix_of(self.incarnation)

    @staticmethod
    def fork_prefix_of(incarnation: str) -> str:
        return f"{incarnation.lower() or 'main'}-"


@dataclass(frozen=True, kw_only=True)
class Fork(Row):
    """A deleted branch whose name was taken again: its own orders lie above `inherited`, up to `order`."""

    KIND: ClassVar[str] = "fork"
    commit: str
    parent_branch: str = ""
    base_order: int = 0
    inherited: int = 0
    incarnation: str = ""

    @property
    def fork_prefix(self) -> str:
        return Head.fork_prefix_of(self.incarnation)

    @classmethod
    def of(cls, head: Head) -> Fork:
        return cls(
            branch=head.branch,
            order=head.order,
            commit=head.commit,
            parent_branch=head.parent_branch,
            base_order=head.base_order,
            inherited=head.inherited,
            incarnation=head.incarnation,
        )

    @property
    def object_id(self) -> str:
        return f"fork:{self.branch}:{self.inherited:012d}"


@dataclass(frozen=True, kw_only=True)
class SchemaRow(Row):
    """The schema of a branch from this order on: its JSON, and the text it was written as."""

    KIND: ClassVar[str] = "schema"
    schema: str
    source: str = ""

    @property
    def object_id(self) -> str:
        return f"schema:{self.branch}:{self.order:012d}"


@dataclass(frozen=True, kw_only=True)
class Ids(Row):
    """The first id of types and properties that no branch has used; only grows."""

    KIND: ClassVar[str] = "ids"
    next_id: int

    @property
    def object_id(self) -> str:
        return "ids"

    @property
    def branch_scoped(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class TableRow(Row):
    """A table: the type it holds, and the folder it is in. Its name is the type's when it was made."""

    KIND: ClassVar[str] = "table"
    table: str
    type_id: int
    incarnation: int = 1
    path: str
    name: str

    @property
    def object_id(self) -> str:
        return f"table:{self.table}"


@dataclass(frozen=True, kw_only=True)
class Pin(Row):
    """The version of a table that a branch shows from this order on."""

    KIND: ClassVar[str] = "pin"
    table: str
    version: int
    fork: str = ""
    rows: int = 0

    @property
    def object_id(self) -> str:
        return f"pin:{self.branch}:{self.table}:{self.order:012d}"


@dataclass(frozen=True, kw_only=True)
class Tombstone(Row):
    """A branch no longer shows a table from this order on."""

    KIND: ClassVar[str] = "tombstone"
    table: str

    @property
    def object_id(self) -> str:
        return f"tombstone:{self.branch}:{self.table}:{self.order:012d}"


@dataclass(frozen=True, kw_only=True)
class Commit(Row):
    """One publish: what became the head, on top of what, by whom and why."""

    KIND: ClassVar[str] = "commit"
    id: str
    parent: str = ""
    merged_parent: str = ""
    writer: str = ""
    """The kind of write: mutate, load, recovery, …"""
    actor: str = ""
    message: str = ""
    publish_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: str = ""
    superseded_by: str = ""
    content: bool = True
    """False where no row of any table changed: indices, compaction, a roll back."""
    tables: tuple[str, ...] = ()
    """The tables whose pins this commit set."""

    @property
    def object_id(self) -> str:
        return f"commit:{self.id}"

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.created_at)


@dataclass(frozen=True, kw_only=True)
class PublishRow(Row):
    """A publish id that has been used, and by which commit."""

    KIND: ClassVar[str] = "publish"
    publish_id: str
    commit: str
    created_at: str = ""

    @property
    def object_id(self) -> str:
        return f"publish:{self.publish_id}"

    @property
    def branch_scoped(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class Audit(Row):
    """What recovery did about one operation; there is never a second row for it."""

    KIND: ClassVar[str] = "audit"
    operation_id: str
    recovery_kind: str
    recovery_for_actor: str
    graph_commit_id: str
    tables: tuple[Mapping[str, Any], ...] = ()
    """Per table: `table`, `from`, `to` (the pin it shows now) and `outcome`."""
    created_at: str = ""

    @property
    def object_id(self) -> str:
        return f"audit:{self.operation_id}"


@dataclass(frozen=True, kw_only=True)
class Floor(Row):
    """The oldest version of a table, or of one of its forks, that cleanup keeps as a rule."""

    KIND: ClassVar[str] = "floor"
    table: str
    version: int
    fork: str = ""
    created_at: str = ""

    @property
    def object_id(self) -> str:
        return f"floor:{self.table}:{self.fork}" if self.fork else f"floor:{self.table}"


@dataclass(frozen=True, kw_only=True)
class Kept(Row):
    """The commits that can still be read: of each branch those from an order on, and some that are older."""

    KIND: ClassVar[str] = "kept"
    orders: Mapping[str, int] = field(default_factory=dict)
    commits: tuple[str, ...] = ()
    created_at: str = ""

    @property
    def object_id(self) -> str:
        return "kept"


@dataclass(frozen=True, kw_only=True)
class StagingFloor(Row):
    """Files staged under a record below this one may have been removed: their writer was taken for dead."""

    KIND: ClassVar[str] = "staging"
    below: str

    @property
    def object_id(self) -> str:
        return "staging"

    @property
    def branch_scoped(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class Barrier(Row):
    """A version of the manifest's own table that no transaction staged before it can pass."""

    KIND: ClassVar[str] = "barrier"
    version: int
    previous: int = 0

    @property
    def object_id(self) -> str:
        return "barrier"


KINDS: dict[str, type[Row]] = {
    kind.KIND: kind
    for kind in (
        *(Format, Head, Fork, SchemaRow, Ids, TableRow, Pin, Tombstone, Commit),
        *(PublishRow, Audit, Floor, Kept, StagingFloor, Barrier),
    )
}


def encode(rows: Iterable[Row]) -> pa.Table:
    """Rows as the manifest's table holds them."""
    listed = list(rows)
    columns = [
        [row.object_id for row in listed],
        [row.KIND for row in listed],
        [row.branch for row in listed],
        [row.order for row in listed],
        [_body(row) for row in listed],
    ]
    return pa.table([pa.array(v, f.type) for v, f in zip(columns, COLUMNS, strict=True)], schema=COLUMNS)


def decode(table: pa.Table) -> list[Row]:
    """The rows of kinds that this version knows."""
    out = []
    for kind, branch, order, body in zip(
        *(table[name].to_pylist() for name in ("kind", "branch", "order", "body")), strict=True
    ):
        cls = KINDS.get(kind)
        if cls is not None:
            out.append(_row(cls, branch, order, json.loads(body)))
    return out


def _body(row: Row) -> str:
    values: dict[str, Any] = {}
    for item in fields(row):
        value = getattr(row, item.name)
        if item.name in _SHARED or value == item.default:
            continue
        if item.default_factory is not MISSING and value == item.default_factory():
            continue
        values[item.name] = value
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False)


_SHARED = ("branch", "order")
_NAMES = {cls: frozenset(item.name for item in fields(cls)) for cls in KINDS.values()}


def _row(cls: type[Row], branch: str, order: int, body: dict[str, Any]) -> Row:
    known = {name: value for name, value in body.items() if name in _NAMES[cls]}
    for name in ("tables", "commits"):
        if isinstance(known.get(name), list):
            known[name] = tuple(known[name])
    return cls(branch=branch, order=order, **known)


def stamp_time(moment: datetime) -> str:
    """A moment as rows keep it: UTC, sortable as text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
