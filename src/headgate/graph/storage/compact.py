"""Rewrite small and thinned-out fragments of a table as few large ones, as one staged transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lance import LanceOperation
from lance.fragment import write_fragments

from headgate.graph.storage.changes import Staged
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.snapshots import TableSnapshot, staged_on

TARGET_ROWS = 1 << 20
SMALL_ROWS = 1 << 17
SMALL_BYTES = 64 << 20
"""A fragment below both is small. A table grows by whole ones, so that each row is rewritten a few times at most."""
THINNED = 0.1
"""A fragment with more than this part of its rows deleted is rewritten without them."""


def stage_compaction(at: TableSnapshot) -> Staged | None:
    """The same rows in fewer fragments; None if nothing is to be gained. Rows are streamed, never held at once."""
    try:
        chosen = due_fragments(at)
        if not chosen:
            return None
        rows = at.dataset.scanner(fragments=chosen, scan_in_order=True).to_reader()
        new = write_fragments(rows, at.dataset, schema=rows.schema, mode="append", max_rows_per_file=TARGET_ROWS)
        operation = LanceOperation.Update(
            removed_fragment_ids=[fragment.fragment_id for fragment in chosen],
            new_fragments=[fragment for fragment in new if fragment.num_rows],
        )
    except Exception as error:
        raise as_error(error, doing=f"compact table {at.path}") from error
    return staged_on(at, at.rows, operation)


def due_fragments(at: TableSnapshot) -> list[Any]:
    """The fragments that are better rewritten, in their order."""
    fragments = at.dataset.get_fragments()
    chosen = [fragment for fragment in fragments if _is_thinned(fragment)]
    small = [fragment for fragment in fragments if _is_small(fragment) and not _is_thinned(fragment)]
    if len(small) + len(chosen) > 1:
        chosen += small
    return sorted(chosen, key=lambda fragment: int(fragment.fragment_id))


def _is_small(fragment: Any) -> bool:
    return bool(fragment.physical_rows < SMALL_ROWS and _bytes(fragment.metadata.files) < SMALL_BYTES)


def _is_thinned(fragment: Any) -> bool:
    return bool(fragment.num_deletions > THINNED * fragment.physical_rows)


def _bytes(files: Iterable[Any]) -> int:
    return sum(file.file_size_bytes or 0 for file in files)
