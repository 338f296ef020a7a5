"""What every lake does: the `Lake` protocol and the values it speaks in.

A lake holds repositories; a repository holds branches; a branch points at a commit; a commit is a set of objects with
parents and metadata. `headgate.testing.conformance` holds the suite an implementation must pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol

from headgate.lake.publisher import Publisher
from headgate.publication import Head, Ref, Strength


@dataclass(frozen=True, kw_only=True)
class LakeObject:
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


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a commit is to change: files on disk by the path they get, and paths to remove."""

    puts: Mapping[str, Path] = field(default_factory=dict)
    deletes: Iterable[str] = ()


class Lake(Protocol):
    """Files under versions. Paths are relative POSIX keys; a prefix matches whole segments; "" is everything.

    Missing things raise `NotFound`, taken names `AlreadyExists`, a moved head `ExpectedHeadMismatch`, two sides that
    changed one path `MergeConflict`, a server that does not answer `Transient`; an update whose answer is lost raises
    `OutcomeUnknown`, and is never repeated by the lake itself.
    """

    @property
    def name(self) -> str:
        """Where this lake is, without secrets: for messages and records."""
        ...

    def strength(self, repository: str) -> Strength:
        """Who decides that a head is the expected one when this lake merges or moves it; found out on first use."""
        ...

    # repositories
    def repositories(self) -> list[str]: ...

    def create_repository(self, name: str) -> Ref:
        """A new repository whose branch `main` points at its first, empty commit."""
        ...

    # branches
    def branches(self, repository: str, *, prefix: str = "") -> Iterator[Branch]: ...

    def create_branch(self, repository: str, branch: str, *, at: Ref) -> None: ...

    def delete_branch(self, repository: str, branch: str) -> bool:
        """Whether it was there. Revokes any merge or move from this branch that is still on its way."""
        ...

    def head(self, repository: str, branch: str) -> Head: ...

    # reading
    def commit_at(self, repository: str, ref: Ref) -> LakeCommit: ...

    def log(self, repository: str, ref: Ref, *, first_parent: bool = True) -> Iterator[LakeCommit]:
        """Newest first."""
        ...

    def objects(self, repository: str, ref: Ref, *, prefix: str = "") -> Iterator[LakeObject]:
        """In order of path."""
        ...

    def open(self, repository: str, ref: Ref, path: str) -> AbstractContextManager[BinaryIO]: ...

    def diff(self, repository: str, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[Change]:
        """What turns the objects of `old` into those of `new`, in order of path."""
        ...

    # writing
    def commit(
        self, repository: str, branch: str, changes: Changes, *, message: str, metadata: Mapping[str, str] | None = None
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
        publisher: Publisher | None = None,
        timeout: float | None = None,
    ) -> Ref:
        """Squash-merge the branch `source` into `into`, if its head is `expected_head`: one commit, one parent."""
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

    def revoke(self, repository: str, branch: str, *, target: str) -> None:
        """Make sure that no merge or move from `branch` into `target` can take effect any more."""
        ...
