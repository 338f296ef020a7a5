"""One way for the command line to look at any store: lakes now, whatever else has branches and commits later.

To make commands like `log` and `branch` work for another kind of store, write a class with the methods of
`VersionedStore` and add it to `_OPENERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from headgate.cli import invocation
from headgate.errors import Unsupported
from headgate.settings import StoreAddress

if TYPE_CHECKING:
    from headgate.lake.interface import Lake
    from headgate.publication import Ref
    from headgate.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ShownCommit:
    ref: str
    parents: tuple[str, ...]
    message: str
    committer: str
    created_at: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ShownChange:
    """One thing in which two commits differ: an object, a table."""

    kind: str
    """`added`, `changed` or `removed`."""
    what: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class ShownBranch:
    name: str
    ref: str


@dataclass(frozen=True, kw_only=True)
class ShownMerge:
    """What a merge did, or would do."""

    ref: str
    """The commit that was made, or the head it would be made on."""
    source: str
    outcome: str = "merged"
    changes: tuple[ShownChange, ...] = ()
    conflicts: tuple[Any, ...] = ()


class VersionedStore(Protocol):
    """What the commands that work on every store need of one."""

    def resolve(self, name: str) -> Ref:
        """The commit meant by a branch, a ref, or the beginning of one."""
        ...

    def branches(self) -> Iterator[ShownBranch]: ...

    def create_branch(self, name: str, *, at: Ref) -> None: ...

    def delete_branch(self, name: str) -> bool: ...

    def merge(
        self, source: str, into: str, *, message: str, squash: bool, resolve: Mapping[str, str] | None = None
    ) -> ShownMerge: ...

    def plan_merge(self, source: str, into: str, *, resolve: Mapping[str, str] | None = None) -> ShownMerge:
        """What a merge would do, with nothing done."""
        ...

    def log(self, ref: Ref, *, first_parent: bool) -> Iterator[ShownCommit]: ...

    def diff(self, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[ShownChange]: ...


class LakeStore:
    """A repository of a lake."""

    def __init__(self, lake: Lake, repository: str) -> None:
        self._lake, self._repository = lake, repository

    def resolve(self, name: str) -> Ref:
        return self._lake.resolve(self._repository, name)

    def branches(self) -> Iterator[ShownBranch]:
        for branch in self._lake.branches(self._repository):
            yield ShownBranch(name=branch.name, ref=branch.ref)

    def create_branch(self, name: str, *, at: Ref) -> None:
        self._lake.create_branch(self._repository, name, at=at)

    def delete_branch(self, name: str) -> bool:
        return self._lake.delete_branch(self._repository, name)

    def merge(
        self, source: str, into: str, *, message: str, squash: bool, resolve: Mapping[str, str] | None = None
    ) -> ShownMerge:
        planned = self.plan_merge(source, into, resolve=resolve)
        expected = self._lake.head(self._repository, into).ref
        ref = self._lake.merge(self._repository, source, into, expected_head=expected, message=message, squash=squash)
        return replace(planned, ref=ref)

    def plan_merge(self, source: str, into: str, *, resolve: Mapping[str, str] | None = None) -> ShownMerge:
        if resolve:
            raise Unsupported(message="a lake has no types to resolve conflicts by", hint="leave --resolve out")
        return ShownMerge(ref=self.resolve(into), source=self.resolve(source))

    def log(self, ref: Ref, *, first_parent: bool) -> Iterator[ShownCommit]:
        for commit in self._lake.log(self._repository, ref, first_parent=first_parent):
            yield ShownCommit(
                ref=commit.ref,
                parents=tuple(commit.parents),
                message=commit.message,
                committer=commit.committer,
                created_at=commit.created_at,
                metadata=commit.metadata,
            )

    def diff(self, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[ShownChange]:
        for change in self._lake.diff(self._repository, old, new, prefix=prefix):
            detail = "" if change.kind == "removed" else f"{change.size} bytes"
            yield ShownChange(kind=change.kind.value, what=change.path, detail=detail)


@contextmanager
def _open_lake_store(settings: Settings, name: str, change: bool) -> Iterator[VersionedStore]:
    with open_repository(name, settings=settings) as (lake, repository):
        yield LakeStore(lake, repository)


@contextmanager
def _open_graph_store(settings: Settings, name: str, change: bool) -> Iterator[VersionedStore]:
    from headgate.cli.graph_input import open_graph
    from headgate.cli.graph_store import GraphVersions

    with open_graph(name, mode="rw" if change else "ro") as graph:
        yield GraphVersions(graph)


_OPENERS: dict[str, Callable[[Settings, str, bool], object]] = {"lake": _open_lake_store, "graph": _open_graph_store}


@contextmanager
def open_store(name: str, *, change: bool = False) -> Iterator[VersionedStore]:
    """The store of that name in the settings, or the graph at that address, closed when the block ends.

    A graph that is opened for a change first settles what dead writers left.
    """
    settings = invocation.current().settings
    kind = "graph" if is_graph(name) else settings.store(name).kind
    opener = _OPENERS.get(kind)
    if opener is None:
        raise Unsupported(message=f"the store {name!r} is a {kind}, which this command does not do", hint="name a lake")
    with opener(settings, name, change) as store:  # type: ignore[attr-defined]
        yield store


@contextmanager
def open_repository(name: str, *, settings: Settings | None = None) -> Iterator[tuple[Lake, str]]:
    """The lake of a store and its repository there, closed when the block ends."""
    from headgate.lake.opening import open_lake

    lake, repository = open_lake(settings or invocation.current().settings, name)
    try:
        yield lake, repository
    finally:
        lake.close()


def refuse_running(name: str, branch: str) -> None:
    """Raise while an attempt on a branch of a store of the settings runs."""
    from headgate.attempts.rewind import refuse_running as refuse
    from headgate.orchestrators.machine import Machine

    settings = invocation.current().settings
    if name not in settings.stores:
        return  # only stores that have a name are handed to tasks
    with Machine(settings) as machine:
        kind = settings.store(name).kind
        refuse(machine.running_tasks(), machine.lakes.store(name).repository if kind == "lake" else name, branch)


def is_graph(name: str) -> bool:
    """Whether a graph is meant: by its name in the settings, or by its address."""
    settings = invocation.current().settings
    return "/" in name if name not in settings.stores else settings.store(name).kind == "graph"


def address(text: str) -> StoreAddress:
    """`NAME[@BRANCH|@REF]`; the main branch where nothing is said."""
    return StoreAddress.parse(text, default_at="main")


def named(text: str) -> tuple[str, str]:
    """The store and what stands after the `@`, main if nothing does."""
    parsed = address(text)
    return parsed.store, parsed.at or "main"
