"""Follow a branch commit by commit, from a cursor on.

The cursor is the last commit that was seen. If the branch no longer comes from it, because it was replaced or moved
back, what it had done is taken back first, and marked; then the changes go on from where both were one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from headgate.graph.changes.between import Changes, changes_between
from headgate.graph.manifest.rows import Commit
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import ancestors, commit_at
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base


@dataclass(frozen=True)
class FeedEntry:
    """The changes of one commit, or their reverse where the commit was replaced."""

    commit: Commit
    changes: Changes = field(repr=False)
    cursor: str
    """Where to go on once this entry has been dealt with."""
    reverses: bool = False
    """The commit is no longer in the branch's history: these changes take it back."""


def feed(
    store: GraphStore,
    state: ManifestState,
    branch: str,
    *,
    after: str | None = None,
    types: Collection[str] | None = None,
    base_of: Callable[[str], Base],
) -> Iterator[FeedEntry]:
    """The commits of a branch that changed rows, oldest first, after a cursor or from the beginning."""
    seen = list(ancestors(store.manifest, state, state.head(branch).commit))
    shown = {commit.id for commit in seen}
    reached = after
    if after is not None:
        commit_at(store.manifest, state, after)
        for commit in ancestors(store.manifest, state, after):
            if commit.id in shown:
                reached = commit.id
                break
            if commit.parent and commit.content:
                back = _between(base_of(commit.id), base_of(commit.parent), types)
                yield FeedEntry(commit, back, commit.parent, reverses=True)
            reached = commit.parent
    coming: list[Commit] = []
    for commit in seen:
        if commit.id == reached:
            break
        coming.append(commit)
    for commit in reversed(coming):
        if commit.parent and commit.content:
            yield FeedEntry(commit, _between(base_of(commit.parent), base_of(commit.id), types), commit.id)


def _between(before: Base, after: Base, types: Collection[str] | None) -> Changes:
    # A type that came later, or is gone, has no changes in this commit.
    known = None if types is None else [n for n in types if before.schema.find(n) or after.schema.find(n)]
    return changes_between(before, after, known)
