"""The store as one simulated process sees it: the real manifest, publisher, recovery and write code, over the disk.

Every call gives way first. Then it is made, or fails before or after it took effect, or lands late, or its process
dies; who decides that is handed in as `calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast

from tests.simulation.graph.disk import Disk, Request

from headgate.clock import Clock
from headgate.errors import Transient
from headgate.graph.manifest import Manifest, ManifestState
from headgate.graph.manifest.history import History
from headgate.graph.manifest.rows import Commit, Pin, Row, SchemaRow, Tombstone
from headgate.graph.storage import (
    CommitRefused,
    CommitUnknown,
    ForkHalfMade,
    Location,
    Staged,
    StoredObject,
    TableSnapshot,
)
from headgate.graph.store import GraphStore, Locks, Patience
from headgate.graph.upkeep.leases import Leases
from headgate.ids import IdSource

T = TypeVar("T")


class Calls(Protocol):
    """Where a call may go wrong."""

    def read(self, what: str, answer: Callable[[], T]) -> T:
        """Look at the disk; `Unreachable` if the answer is lost."""
        ...

    def write(self, what: str, plan: Callable[[], Request[T]]) -> T:
        """Change the disk; `Unreachable` if the answer is lost, `Refused` if somebody else was just first."""
        ...


class Unreachable(Exception):
    """The answer was lost."""


class Refused(Exception):
    """Somebody else was first, by a hair."""


@dataclass(frozen=True)
class Rows:
    """What stands for a dataset: how many rows it has, and which."""

    content: tuple[str, ...]

    def count_rows(self) -> int:
        return len(self.content)


class Tables:
    """Stands for `TableStore`, as far as committing goes: what is staged is made by the simulation."""

    def __init__(self, disk: Disk, calls: Calls) -> None:
        self._disk, self._calls = disk, calls

    def open(self, path: str, version: int, fork: str = "") -> TableSnapshot:
        return TableSnapshot(path, fork, version, cast(Any, Rows(self._disk.content(path, version, fork))))

    def head_version(self, path: str, fork: str = "") -> int:
        return self._read("tables.head_version", lambda: len(self._disk.versions(path, fork)))

    def find_head_version(self, path: str, fork: str = "") -> int | None:
        return self._read("tables.find_head_version", lambda: len(self._disk.tables.get((path, fork), ())) or None)

    def is_made_by(self, path: str, version: int, fork: str, uuid: str) -> bool:
        def answer() -> bool:
            there = self._disk.tables.get((path, fork), [])
            return version <= len(there) and bool(uuid) and there[version - 1].uuid == uuid

        return self._read("tables.is_made_by", answer)

    def fork(self, at: TableSnapshot, name: str) -> TableSnapshot:
        """Two steps, as Lance takes them; one whose maker is between them, or died there, is half made."""
        try:
            made = self._calls.write(
                f"tables.fork {at.path}", lambda: self._disk.fork(at.path, at.fork, at.version, name)
            )
            if made:
                self._calls.write("tables.name_fork", lambda: self._disk.name_fork(at.path, name))
        except (Unreachable, Refused) as error:
            if self.find_head_version(at.path, name) is None:
                raise Transient(message=f"fork {at.path}: the answer was lost") from error
        if self._read("tables.fork_is_half_made", lambda: (at.path, name) in self._disk.half_made):
            raise ForkHalfMade(name)
        return self.open(at.path, at.version, name)

    def commit(self, at: TableSnapshot, staged: Staged) -> int:
        return self._write(
            f"tables.commit {at.path}",
            lambda: self._disk.commit(at.path, at.fork, staged.read_version, staged.uuid, staged.operation),
        )

    def restore(self, at: TableSnapshot) -> int:
        return self._write(f"tables.restore {at.path}", lambda: self._disk.restore(at.path, at.fork, at.version))

    def _read(self, what: str, answer: Callable[[], T]) -> T:
        try:
            return self._calls.read(what, answer)
        except Unreachable as error:
            raise Transient(message=f"{what}: the answer was lost") from error

    def _write(self, what: str, plan: Callable[[], Request[int]]) -> int:
        try:
            return self._calls.write(what, plan)
        except Refused as error:
            raise CommitRefused(what) from error
        except Unreachable as error:
            raise CommitUnknown(what) from error


class Objects:
    def __init__(self, disk: Disk, calls: Calls) -> None:
        self._disk, self._calls = disk, calls

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return self._told(lambda: self._calls.write("objects.put", lambda: self._disk.put(name, data)))

    def get(self, name: str) -> bytes | None:
        return self._told(lambda: self._calls.read("objects.get", lambda: self._disk.contents.get(name)))

    def delete(self, name: str) -> None:
        self._told(lambda: self._calls.write("objects.delete", lambda: self._disk.delete(name)))

    def list(self, prefix: str) -> list[StoredObject]:
        return self._told(lambda: self._calls.read("objects.list", lambda: self._disk.list(prefix)))

    def now(self) -> datetime:
        return self._disk.now()

    @staticmethod
    def _told(call: Callable[[], T]) -> T:
        try:
            return call()
        except (Unreachable, Refused) as error:
            raise Transient(message="the answer was lost") from error


class _Dataset:
    """What stands for the manifest's dataset at one version. What a handle has read stays, whatever is dropped."""

    def __init__(self, disk: Disk, calls: Calls, version: int, rows: Mapping[str, Row] | None = None) -> None:
        self._disk, self._calls, self.version, self.rows = disk, calls, version, rows or {}

    @property
    def latest_version(self) -> int:
        return self._calls.read("manifest.latest_version", lambda: self._disk.newest)

    def checkout_version(self, version: int) -> _Dataset:
        rows = self._calls.read("manifest.checkout", lambda: self._disk.rows(version))
        return _Dataset(self._disk, self._calls, version, rows)


class SimulatedManifest(Manifest):
    """The real manifest with its calls of Lance replaced; what it makes of their answers is its own."""

    def __init__(self, disk: Disk, calls: Calls) -> None:
        self._disk, self._calls = disk, calls
        super().__init__(_LOCATION, self._dataset_at(disk.newest))
        self.history = _History(disk, calls)

    def _dataset_at(self, version: int) -> Any:
        return _Dataset(self._disk, self._calls, version, self._disk.rows(version))

    def _merge_inline(self, base: Any, rows: list[Row]) -> Any:
        self._merge("manifest.merge inline", base, rows, inline=True)
        return base

    def _merge_staged(self, base: Any, rows: list[Row]) -> Any:
        landed = self._merge("manifest.merge", base, rows, inline=False)
        return self._dataset_at(landed)

    def _merge(self, what: str, base: _Dataset, rows: list[Row], *, inline: bool) -> int:
        return self._write(what, lambda: self._disk.merge(base.version, base.rows, rows, inline=inline))

    def _write(self, what: str, plan: Callable[[], Request[int]]) -> int:
        try:
            return self._calls.write(what, plan)
        except Refused as error:
            raise OSError("Too many concurrent writers") from error

    @staticmethod
    def _places_of_last(dataset: Any, rows: list[Row]) -> dict[str, int]:
        return {}

    def replace_all(self, state: ManifestState, rows: Iterable[Row]) -> bool:
        listed = list(rows)
        landed = self._internal("manifest.fold", lambda: self._disk.fold(state.version, listed))
        self._dataset = self._dataset_at(landed) if landed else self._dataset
        self._state = ManifestState(landed, {row.object_id: row for row in listed}) if landed else None
        return bool(landed)

    def raise_barrier(self, state: ManifestState) -> bool:
        landed = self._internal("manifest.barrier", lambda: self._disk.raise_barrier(state.version))
        self._dataset = self._dataset_at(landed) if landed else self._dataset
        self._state = ManifestState(landed, state.rows) if landed else None
        return bool(landed)

    def _internal(self, what: str, plan: Callable[[], Request[int]]) -> int:
        try:
            return self._calls.write(what, plan)
        except Unreachable as error:
            self._state = None
            raise Transient(message=f"{what}: the answer was lost") from error
        except Exception:
            return 0

    def is_barrier(self, version: int) -> bool:
        found = self._disk.manifest[version - 1] if version <= self._disk.newest else None
        return found is not None and found.barrier

    def drop_versions(self, versions: range) -> None:
        def plan() -> Request[None]:
            def land() -> None:
                for version in versions:
                    self._disk.manifest[version - 1] = None

            return Request(land)

        self._calls.write("manifest.drop_versions", plan)

    @property
    def fragments(self) -> int:
        return next(
            (n for n, found in enumerate(reversed(self._disk.manifest)) if found is None or found.stops_all),
            self._disk.newest,
        )

    def _scan(self, version: int) -> ManifestState:
        self._dataset = self._calls.read("manifest.scan", lambda: self._dataset_at(version))
        return ManifestState(version, cast(Any, self._dataset).rows)


class _History(History):
    def __init__(self, disk: Disk, calls: Calls) -> None:
        super().__init__(_LOCATION)
        self._disk, self._calls = disk, calls

    def add(self, rows: Iterable[Row], *, keep: Callable[[Row], bool] = lambda row: True) -> None:
        listed = list(rows)

        def land() -> None:
            self._disk.history[:] = [row for row in [*self._disk.history, *listed] if keep(row)]

        try:
            self._calls.write("history.add", lambda: Request(land))
        except (Unreachable, Refused) as error:
            raise Transient(message="history.add: the answer was lost") from error

    def rows(self, where: str) -> list[Row]:
        """The few filters there are: of commits, of what a branch shows, of one name."""
        kinds = (Commit,) if where == "kind = 'commit'" else (Pin, Tombstone, SchemaRow)
        return self._read(lambda row: isinstance(row, kinds))

    def find(self, object_id: str) -> Row | None:
        found = self._read(lambda row: row.object_id == object_id)
        return found[0] if found else None

    def _read(self, wanted: Callable[[Row], bool]) -> list[Row]:
        try:
            found = self._calls.read("history.rows", lambda: [row for row in self._disk.history if wanted(row)])
        except Unreachable as error:
            raise Transient(message="history.rows: the answer was lost") from error
        return list({row.object_id: row for row in found}.values())


_LOCATION = Location.parse("/simulated")


def open_store(
    disk: Disk, calls: Calls, *, ids: IdSource, wait: Callable[[float], None], patience: Patience
) -> GraphStore:
    """A process of its own: nothing but the disk is shared with others."""
    objects, clock = Objects(disk, calls), cast(Clock, disk)
    return GraphStore(
        location=_LOCATION,
        manifest=SimulatedManifest(disk, calls),
        tables=cast(Any, Tables(disk, calls)),
        objects=objects,
        leases=Leases(objects, ids, clock, patience.lease_age),
        locks=Locks(),
        clock=clock,
        ids=ids,
        patience=patience,
        wait=wait,
    )
