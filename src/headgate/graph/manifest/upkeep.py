"""Bounded work that keeps publishing flat: fold small fragments, move old rows to the history, drop old versions.

Done by a publisher now and then, right after its own publish. Nothing here changes what the manifest says, and a
lost race only leaves the work to the next publisher.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

from headgate.graph.manifest.rows import Barrier, Commit, PublishRow, Row, stamp_time
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import Manifest

_log = logging.getLogger(__name__)
FRAGMENTS = 8
"""Each publish adds a fragment; past this many they are folded."""
MOVED_AT_ONCE = 128
"""Rows are moved to the history in at least this many, so that it has few fragments."""
COMMITS_KEPT = 32
"""Commits of each branch that stay in the manifest: a write that took that long to publish looks further."""
VERSIONS_KEPT = 48
"""How far apart barriers are. Versions below the last but one are dropped."""


def drop_old_versions(manifest: Manifest) -> None:
    """Drop every version of the manifest's own table but the newest few: below a barrier that is raised for it."""
    for _ in range(2):
        keep_compact(manifest, manifest.state(), fully=True, barrier=True)


def keep_compact_after(manifest: Manifest, state: ManifestState) -> None:
    """`keep_compact` behind a publish, which is done whatever becomes of this: the next publisher finds it due."""
    try:
        keep_compact(manifest, state)
    except Exception as error:
        _log.warning("the manifest was not folded: %s", error)


def keep_compact(manifest: Manifest, state: ManifestState, *, fully: bool = False, barrier: bool = False) -> None:
    """Fold, move and drop what is due; usually nothing is. Fully: whatever can be, with a barrier on request."""
    if manifest.fragments <= (1 if fully else FRAGMENTS) and not barrier:
        return
    stored = manifest.last_stored()
    if stored is None or stored.version != state.version:
        return
    state = stored
    needed = state.needed(commits=COMMITS_KEPT)
    forget = _forget_before(manifest, state)
    state_rows = {name: row for name, row in state.rows.items() if not _is_forgotten(row, forget)}
    movable = [row for name, row in state_rows.items() if name not in needed]
    if len(movable) < MOVED_AT_ONCE and not fully:
        movable = []
    if movable:
        manifest.history.add(movable, keep=lambda row: not _is_forgotten(row, forget))
    kept = replace(state, rows=state_rows).without(row.object_id for row in movable)
    due = _barrier_due(kept, now=barrier)
    if due is not None:
        kept = kept.with_rows([due], version=kept.version)
    if not manifest.replace_all(state, kept.rows.values()) or due is None:
        return
    # The barrier that is recorded must be the very next version: it is looked at again before it is relied on.
    replaced = manifest.last_stored()
    if replaced is not None and manifest.raise_barrier(replaced):
        _drop_below(manifest, due, everything=barrier)


def _forget_before(manifest: Manifest, state: ManifestState) -> str:
    """Publish ids that were used before this are forgotten: it is told by the newest commit, not by a clock of ours."""
    newest = max((row.created_at for row in state.rows.values() if isinstance(row, Commit)), default="")
    return stamp_time(datetime.fromisoformat(newest) - manifest.publish_ids_kept) if newest else ""


def _is_forgotten(row: Row, before: str) -> bool:
    return isinstance(row, PublishRow) and row.created_at < before


def _barrier_due(state: ManifestState, *, now: bool) -> Barrier | None:
    last = state.barrier
    if last is not None and not now and state.version - last.version < VERSIONS_KEPT:
        return None
    previous = last.version if last else 0
    return Barrier(version=state.version + 2, previous=previous)


def _drop_below(manifest: Manifest, barrier: Barrier, *, everything: bool) -> None:
    """Drop what lies below the previous barrier, if it is one.

    A writer that was stopped for long checks its conflicts against the versions that are left. Above a barrier all
    of them are, and the barrier itself refuses whatever is older.
    """
    if barrier.previous and manifest.is_barrier(barrier.previous):
        oldest = 1 if everything else max(1, barrier.previous - 4 * VERSIONS_KEPT)
        manifest.drop_versions(range(oldest, barrier.previous))
