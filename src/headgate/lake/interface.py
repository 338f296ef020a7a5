"""What every lake does: the `Lake` protocol and the values it speaks in.

A lake holds repositories; a repository holds branches; a branch points at a commit; a commit is a set of objects with
parents and metadata. `headgate.testing.conformance` holds the suite an implementation must pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias, runtime_checkable

from headgate.lake.publisher import Publisher
from headgate.publication import Head, Ref, Strength

STAGING_PREFIX = "headgate-"
"""Branches whose names start so belong to the runtime: one execution each, and a deleted name never comes back."""

MAIN = "main"
"""The branch a new repository has."""


class LakeObject(NamedTuple):
    """One object at a ref. `checksum` is the store's own: equal checksums and sizes mean equal bytes."""

    path: str
    size: int
    checksum: str


@dataclass(frozen=True, kw_only=True)
class LakeCommit:
    ref: Ref
    parents: tuple[Ref, ...]
    message: str
    committer: str
    created_at: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Branch:
    name: str
    ref: Ref


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, kw_only=True)
class Change:
    path: str
    kind: ChangeKind
    size: int = 0
    """Of the new object; 0 for a removed one."""


class FileStat(NamedTuple):
    """What a change of a local file's bytes cannot leave as it was."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileStat:
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


class Wanted(NamedTuple):
    """An object, and the new file that is to have its bytes."""

    item: LakeObject
    into: str


class Fetched(NamedTuple):
    """A file as it was written: its stat, and the BLAKE3 digest of its bytes."""

    stat: FileStat
    digest: str
    cached: bool = False
    """Whether this machine had the bytes already."""


@dataclass(frozen=True)
class LocalFile:
    """A file on disk to be staged. With `seen`, the lake refuses it if it is no longer the file that was looked at."""

    path: Path
    seen: FileStat | None = None


Source: TypeAlias = LocalFile | bytes
"""Where the bytes of a staged object come from."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a commit is to change: sources by the path they get, and paths to remove."""

    puts: Mapping[str, Source] = field(default_factory=dict)
    deletes: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.puts) or bool(self.deletes)


Progress: TypeAlias = Callable[[int, int], None]
"""Told of work as it is done, from any thread: files and bytes since the last call."""


class Lake(Protocol):
    """Files under versions. Paths are relative POSIX keys; a prefix matches whole segments; "" is everything.

    Missing things raise `NotFound`, taken names `AlreadyExists`, a moved head `ExpectedHeadMismatch`, two sides that
    changed one path `MergeConflict`, a server that does not answer `Transient`; an update whose answer is lost raises
    `OutcomeUnknown`, and is never repeated by the lake itself. Every method may be called from any thread.
    """

    @property
    def name(self) -> str:
        """Where this lake is, without secrets: for messages and records."""
        ...

    def strength(self, repository: str) -> Strength:
        """Who decides that a head is the expected one when this lake merges or moves it; found out on first use."""
        ...

    @property
    def fetchers(self) -> int:
        """How many fetches at once serve this lake best."""
        ...

    # repositories
    def repositories(self) -> list[str]: ...

    def create_repository(self, name: str) -> Ref:
        """A new repository whose branch `main` points at its first, empty commit."""
        ...

    # branches
    def branches(self, repository: str, *, prefix: str = "") -> Iterator[Branch]:
        """In order of name; `prefix` is of the name's characters."""
        ...

    def create_branch(self, repository: str, branch: str, *, at: Ref) -> None: ...

    def delete_branch(self, repository: str, branch: str) -> bool:
        """Whether it was there. Revokes any merge or move from this branch that is still on its way."""
        ...

    def head(self, repository: str, branch: str) -> Head: ...

    # reading
    def resolve(self, repository: str, name: str) -> Ref:
        """The commit that a person means by `name`: a branch, a ref, or the unambiguous beginning of one."""
        ...

    def commit_at(self, repository: str, ref: Ref) -> LakeCommit: ...

    def log(self, repository: str, ref: Ref, *, first_parent: bool = True) -> Iterator[LakeCommit]:
        """Newest first; no commit comes before its children."""
        ...

    def objects(self, repository: str, ref: Ref, *, prefix: str = "") -> Iterator[LakeObject]:
        """In order of the path's UTF-8 bytes."""
        ...

    def open(self, repository: str, ref: Ref, path: str) -> AbstractContextManager[BinaryIO]: ...

    def reading(self, repository: str, ref: Ref) -> AbstractContextManager[None]:
        """While this is open, no upkeep takes away what `ref` refers to."""
        ...

    def fetch(self, repository: str, ref: Ref, wanted: Sequence[Wanted]) -> Iterator[Fetched]:
        """Write the bytes of each wanted object, verified, to its new file, one after the other as it is iterated.

        Bytes that are not those of the checksum raise `StoreDamaged`, and leave no file; a file that is there already
        raises `FileExistsError`, and stays. Nothing the new file's owner does to it can reach the store.
        """
        ...

    def diff(self, repository: str, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[Change]:
        """What turns the objects of `old` into those of `new`, in order of path."""
        ...

    # writing
    def commit(
        self,
        repository: str,
        branch: str,
        changes: Changes,
        *,
        message: str,
        metadata: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Ref:
        """Stage `changes` on the branch and commit them, with what was staged there before.

        The parent is the branch's head. No change at all is `InvalidInput`: nobody makes empty commits.
        """
        ...

    # publishing
    def merge(
        self,
        repository: str,
        source: str,
        into: str,
        *,
        expected_head: Ref,
        message: str,
        metadata: Mapping[str, str] | None = None,
        squash: bool = True,
        publisher: Publisher | None = None,
        timeout: float | None = None,
    ) -> Ref:
        """Merge the branch `source` into `into`, if its head is `expected_head`.

        A squash merge, which is what publishes, makes one commit whose only parent is `expected_head`; the other kind
        has the source's head as its second parent. Nothing to merge is `InvalidInput`.
        """
        ...

    def move_head(
        self,
        repository: str,
        branch: str,
        *,
        to_branch: str,
        expected_head: Ref,
        publisher: Publisher | None = None,
        timeout: float | None = None,
    ) -> Ref:
        """Point `branch` at the head of `to_branch`, if its head is `expected_head` and `publisher` confirms it.

        The new head is named by a branch and not by a commit, so that deleting that branch revokes the move. A move
        that fails may have deleted `to_branch`: that is how it makes sure that it cannot take effect later.
        """
        ...

    def revoke(self, repository: str, *branches: str, target: str) -> None:
        """Make sure that no merge or move from any of `branches` into `target` can take effect any more.

        They are deleted, if they are there. Even with none, an update whose branch was deleted while it was on its way
        cannot take effect after this.
        """
        ...


@runtime_checkable
class SharedLake(Protocol):
    """A lake whose branches the executors of a Spark job read and write themselves, as `s3a://REPOSITORY/REF/PATH`."""

    @property
    def own_prefix(self) -> str:
        """What begins so belongs to the lake itself, and to no workspace."""
        ...

    def s3a_options(self, repository: str) -> Mapping[str, str]:
        """The options of Hadoop with which that address is found; secrets among them."""
        ...

    def staged(self, repository: str, branch: str) -> Iterator[Change]:
        """What was written on a staging branch since its head and is not committed, in order of path."""
        ...

    def restore_staged(self, repository: str, branch: str, changes: Sequence[Change]) -> None:
        """Undo some of it: these paths are again as at the branch's head."""
        ...

    def commit_staged(self, repository: str, branch: str, *, message: str, metadata: Mapping[str, str]) -> Ref:
        """Commit all of it. Nothing at all is `InvalidInput`."""
        ...
