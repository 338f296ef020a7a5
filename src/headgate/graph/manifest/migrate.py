"""Bring the stored rows of a branch to the current format, one step at a time.

The rows of a step, the stamp and a rewrite of the head row are one merge: a writer of the old format that is about to
publish loses its race for the head row, and its next try reads the stamp. A runner that is stopped has stored a whole
step or nothing of it; of several at once one stores it, and the others read that it is there.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.errors import Contention
from headgate.graph.manifest.rows import Head, Row
from headgate.graph.manifest.table import Manifest, MergeContended, MergeUnknown

_TRIES = 50


def migrate_heads(manifest: Manifest, rows: Iterable[Row]) -> int:
    """Bring the branches whose head rows are about to be written to the current format; how many steps that took."""
    return sum(migrate(manifest, row.branch) for row in rows if isinstance(row, Head))


def migrate(manifest: Manifest, branch: str) -> int:
    """Store the steps that a branch lacks; how many this call has stored."""
    stored = 0
    for _ in range(_TRIES):
        state = manifest.stored()
        manifest.formats.check(state)
        rows = manifest.formats.step_rows(state, branch)
        if not rows:
            return stored
        try:
            manifest.merge(state, rows)
        except (MergeContended, MergeUnknown):
            # Whatever became of it, the next scan shows.
            continue
        stored += 1
    raise Contention(
        message=f"other writers were first in all tries to migrate branch {branch}",
        tries=_TRIES,
        hint="try again later",
    )
