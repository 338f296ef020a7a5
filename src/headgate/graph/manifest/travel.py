"""The manifest at an earlier commit, or at a time: live rows and history together.

Publish orders make the past a filter over the newest rows, so no old version of the manifest's own table is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from headgate.errors import NotFound
from headgate.graph.manifest.rows import Commit, stamp_time
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import Manifest
from headgate.graph.storage.lookup import quoted


def find_commit(manifest: Manifest, state: ManifestState, commit: str) -> Commit | None:
    return state.find_commit(commit) or manifest.history.find_commit(commit)


def commit_at(manifest: Manifest, state: ManifestState, commit: str) -> Commit:
    """A commit by its id, however old."""
    found = find_commit(manifest, state, commit)
    if found is None:
        raise NotFound(
            message=f"there is no commit {commit}", kind="commit", name=commit, hint="headgate log lists the commits"
        )
    return found


def state_at(manifest: Manifest, state: ManifestState, commit: Commit) -> ManifestState:
    """A state that also holds the rows that were shown at a commit."""
    head = state.find_head(commit.branch)
    if head is not None and head.order == commit.order:
        return state
    branches = ",".join(quoted(name) for name, _ in state.lineage(commit.branch, commit.order))
    where = f"kind IN ('pin','tombstone','schema') AND branch IN ({branches}) AND `order` <= {_limit(state, commit)}"
    past = {row.object_id: row for row in manifest.history.rows(where)}
    return ManifestState(state.version, {**past, **state.rows})


def _limit(state: ManifestState, commit: Commit) -> int:
    return max(order for _, order in state.lineage(commit.branch, commit.order))


def commit_at_time(manifest: Manifest, state: ManifestState, branch: str, moment: datetime) -> Commit:
    """The commit that a branch showed at a time."""
    wanted = stamp_time(moment)
    for commit in history_of(manifest, state, branch):
        if commit.created_at <= wanted:
            return commit
    raise NotFound(
        message=f"branch {branch} has no commit as old as {moment.isoformat()}",
        kind="commit",
        name=branch,
        hint="headgate log shows when the first commit was made",
    )


def history_of(manifest: Manifest, state: ManifestState, branch: str) -> Iterator[Commit]:
    """The commits of a branch from its head on, each followed by its parent."""
    yield from ancestors(manifest, state, state.head(branch).commit)


def ancestors(manifest: Manifest, state: ManifestState, commit: str) -> Iterator[Commit]:
    """A commit and what it was made on, parent by parent."""
    past: dict[str, Commit] | None = None
    name = commit
    while name:
        found = state.find_commit(name)
        if found is None:
            if past is None:
                rows = manifest.history.rows("kind = 'commit'")
                past = {row.id: row for row in rows if isinstance(row, Commit)}
            found = past.get(name)
        if found is None:
            return
        yield found
        name = found.parent
