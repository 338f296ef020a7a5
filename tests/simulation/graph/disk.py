"""What the simulated processes share: tables with Lance's rules of conflict, a manifest with its own, small objects.

Each change is made in two moments, as a real one is: it is planned on what is there, and it lands if that is still
the newest. What is pinned about Lance by `tests/guards` is the rule here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from lance.commit import CommitConflictError

from headgate.graph.manifest.rows import Row
from headgate.graph.storage import CommitRefused, StoredObject

T = TypeVar("T")
Kind = Literal["append", "rewrite", "overwrite", "fold", "restore", "create"]
ALONE: frozenset[Kind] = frozenset({"restore", "overwrite"})
"""Nothing that was staged before these gets past them."""
MOVES_ROWS: frozenset[Kind] = frozenset({"rewrite", "fold"})
"""Two of these meet in a fragment; an append meets neither."""


@dataclass(frozen=True)
class Change:
    """What a transaction does: `tag` names the write, and stands for its rows."""

    kind: Kind
    tag: str = ""

    def on(self, content: tuple[str, ...]) -> tuple[str, ...]:
        if self.kind == "overwrite":
            return (self.tag,)
        return content if self.kind == "fold" else (*content, self.tag)


@dataclass(frozen=True)
class Version:
    uuid: str
    kind: Kind
    content: tuple[str, ...]


@dataclass(frozen=True)
class ManifestVersion:
    rows: Mapping[str, Row]
    replaced: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    stops_all: bool = False
    """A fold of every row, or a barrier."""
    barrier: bool = False


@dataclass(frozen=True)
class Request(Generic[T]):
    """A change on its way: what it does and answers, and whether it can still be done."""

    land: Callable[[], T]
    possible: Callable[[], bool] = lambda: True


TableName = tuple[str, str]
"""The path and the fork."""


@dataclass
class Disk:
    """The one store of a run. Nothing here gives way: a call is one moment."""

    tables: dict[TableName, list[Version]] = field(default_factory=dict)
    half_made: set[TableName] = field(default_factory=set)
    """Forks whose makers have not taken the second of two steps."""
    objects: dict[str, StoredObject] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    manifest: list[ManifestVersion | None] = field(default_factory=list)
    """By version, the first at 0; None where one was dropped."""
    ever: dict[str, Row] = field(default_factory=dict)
    """The last copy of every row there ever was."""
    history: list[Row] = field(default_factory=list)
    staged: list[tuple[str, str]] = field(default_factory=list)
    """Changes that files were written for, each after the record they were staged under."""
    removed: set[str] = field(default_factory=set)
    """What changes cannot bring in any more: the files are gone."""
    seconds: float = 0.0
    damage: str = ""

    # -------- time
    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    # -------- tables
    def versions(self, path: str, fork: str = "") -> list[Version]:
        return self.tables[(path, fork)]

    def content(self, path: str, version: int, fork: str = "") -> tuple[str, ...]:
        return self.version(path, version, fork).content

    def version(self, path: str, version: int, fork: str = "") -> Version:
        """One that was pinned or has been read: it is there, or something is very wrong."""
        there = self.tables.get((path, fork), [])
        if version > len(there):
            self.damage = self.damage or f"version {version} of {path} {fork} is not there"
            raise ValueError(f"Dataset at path {path}: there is no version {version}")
        return there[version - 1]

    def commit(self, path: str, fork: str, read_version: int, uuid: str, change: Change) -> Request[int]:
        """A stale transaction is rebased and lands, unless something newer stops it."""
        there = self.versions(path, fork)
        newer = {version.kind for version in there[read_version:]}
        if newer & ALONE or (change.kind in MOVES_ROWS and newer & MOVES_ROWS):
            raise CommitRefused("a newer version is in the way")
        return self._append(there, Version(uuid, change.kind, change.on(there[-1].content)))

    def restore(self, path: str, fork: str, version: int) -> Request[int]:
        """A Restore lands over anything."""
        old = self.version(path, version, fork)
        return self._append(self.versions(path, fork), Version("", "restore", old.content))

    def fork(self, path: str, source: str, version: int, name: str) -> Request[bool]:
        """The first step of a fork, which starts with the number of the version it is made from; False if taken."""
        there = self.versions(path, source)[:version]

        def land() -> bool:
            if (path, name) in self.tables:
                return False
            self.tables[(path, name)] = there
            self.half_made.add((path, name))
            return True

        return Request(land)

    def name_fork(self, path: str, name: str) -> Request[None]:
        """The second step: the table it was made from knows of it."""
        return Request(lambda: self.half_made.discard((path, name)))

    @staticmethod
    def _append(there: list[Version], made: Version) -> Request[int]:
        number = len(there) + 1

        def land() -> int:
            there.append(made)
            return number

        return Request(land, lambda: len(there) + 1 == number)

    def remove_staged(self, floor: str) -> Request[None]:
        """Remove the files of revoked records that no version of any table names."""

        def land() -> None:
            kept = {at.uuid for versions in self.tables.values() for at in versions}
            self.removed |= {uuid for record, uuid in self.staged if record < floor} - kept

        return Request(land)

    # -------- the manifest
    @property
    def newest(self) -> int:
        return len(self.manifest)

    def rows(self, version: int) -> Mapping[str, Row]:
        found = self.manifest[version - 1]
        if found is None:
            raise ValueError("Dataset at path simulated: there is no such version")
        return found.rows

    def merge(self, base: int, before: Mapping[str, Row], rows: Iterable[Row], *, inline: bool) -> Request[int]:
        """Two merges that replace one row meet; two that add one row meet only inline."""
        given = {row.object_id: row for row in rows}
        replaced = frozenset(given.keys() & before.keys())
        added = frozenset(given.keys() - before.keys())
        for version in self.manifest[base:]:
            if version is None:
                continue  # a version that was dropped is not looked at any more
            if version.stops_all or version.replaced & replaced or (inline and version.added & added):
                raise CommitConflictError("Retryable commit conflict: a newer version is in the way")
        now = self.rows(self.newest)
        made = ManifestVersion({**now, **given}, replaced, added)
        twice = [name for name in given if name in now and now[name] is not before.get(name)]
        return self._extend(made, given, f"rows are there twice: {twice}" if twice else "")

    def fold(self, base: int, rows: Iterable[Row]) -> Request[int]:
        """Rewrite every row; refused once any has moved."""
        if self.newest != base:
            raise CommitConflictError("Retryable commit conflict: a row has moved")
        given = {row.object_id: row for row in rows}
        return self._extend(ManifestVersion(given, stops_all=True), given)

    def raise_barrier(self, base: int) -> Request[int]:
        if self.newest != base:
            raise CommitConflictError("Retryable commit conflict: a row has moved")
        return self._extend(ManifestVersion(self.rows(base), stops_all=True, barrier=True), {})

    def _extend(self, made: ManifestVersion, given: Mapping[str, Row], damage: str = "") -> Request[int]:
        number = self.newest + 1

        def land() -> int:
            self.manifest.append(made)
            self.ever.update(given)
            self.damage = self.damage or damage
            return number

        return Request(land, lambda: self.newest + 1 == number)

    # -------- small objects
    def put(self, name: str, data: bytes) -> Request[bool]:
        def land() -> bool:
            if name in self.objects:
                return False
            self.objects[name] = StoredObject(name, self.now())
            self.contents[name] = data
            return True

        return Request(land)

    def delete(self, name: str) -> Request[None]:
        def land() -> None:
            self.objects.pop(name, None)
            self.contents.pop(name, None)

        return Request(land)

    def list(self, prefix: str) -> list[Any]:
        return [self.objects[name] for name in sorted(self.objects) if name.startswith(f"{prefix}/")]
