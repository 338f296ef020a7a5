"""Indices of a table, staged throughout: built where nobody reads yet, and committed as one transaction of ours.

An index is a list of segments, each over some fragments. Rows that no segment covers are found by a scan, so a read is
right whatever is indexed. New fragments get a segment of their own; when there are many, or when most of a table is
new, one segment is built over all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from lance import LanceDataset, LanceOperation
from lance.dataset import Index

from headgate.graph.storage.changes import Staged
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.objects import SmallObjects
from headgate.graph.storage.snapshots import TableSnapshot, staged_on

_SEGMENTS = 4
"""An index with more segments is built anew when rows are folded in."""
_ROWS_PER_PARTITION = 4096


class IndexKind(StrEnum):
    """What an index answers, by the name Lance has for it."""

    ORDERED = "BTREE"
    """Equality, ranges, prefixes."""
    WORDS = "INVERTED"
    """Full text."""
    NEAREST = "IVF_FLAT"
    """The vectors nearest to one."""


@dataclass(frozen=True)
class WantedIndex:
    column: str
    kind: IndexKind


@dataclass(frozen=True)
class StoredIndex:
    name: str
    column: str
    kind: IndexKind
    segments: tuple[Index, ...]

    @property
    def covered(self) -> set[int]:
        return {number for segment in self.segments for number in segment.fragment_ids}


def stored_indices(at: TableSnapshot) -> list[StoredIndex]:
    """The indices of a table over one column each."""
    numbers = {field.name(): field.id() for field in at.dataset.lance_schema.fields()}
    found = []
    for index in at.dataset.describe_indices():
        kind = _KINDS.get(index.index_type.upper().partition("_")[0])
        if kind is None or len(index.field_names) != 1:
            continue
        segments = tuple(
            Index(
                uuid=str(segment.uuid),
                name=index.name,
                fields=[numbers[index.field_names[0]]],
                dataset_version=segment.dataset_version_at_last_update,
                fragment_ids=set(segment.fragment_ids),
                index_version=segment.index_version,
            )
            for segment in index.segments
        )
        found.append(StoredIndex(index.name, index.field_names[0], kind, segments))
    return found


_KINDS = {"BTREE": IndexKind.ORDERED, "INVERTED": IndexKind.WORDS, "IVF": IndexKind.NEAREST}


def stage_indices(
    at: TableSnapshot, wanted: Iterable[WantedIndex], objects: SmallObjects, *, fold: bool = False
) -> Staged | None:
    """Build the indices that are missing and, to fold, those that do not cover every row; None if none is due."""
    stored = {(index.column, index.kind): index for index in stored_indices(at)}
    names = {index.name for index in stored.values()}
    fragments = {int(fragment.fragment_id): fragment.count_rows() for fragment in at.dataset.get_fragments()}
    new: list[Index] = []
    removed: list[Index] = []
    try:
        for item in wanted:
            there = stored.get((item.column, item.kind))
            over, gone = _due(there, fragments, fold=fold)
            if not over or (item.kind is IndexKind.NEAREST and not _any_value(at.dataset, item.column, over)):
                continue
            name = there.name if there else _free_name(item, names)
            names.add(name)
            new.append(_build(at, item, name, over, objects))
            removed += gone
        operation = LanceOperation.CreateIndex(new_indices=new, removed_indices=removed)
    except Exception as error:
        raise as_error(error, doing=f"index table {at.path}") from error
    return staged_on(at, at.rows, operation) if new else None


def due_indices(at: TableSnapshot, wanted: Iterable[WantedIndex]) -> list[WantedIndex]:
    """The indices that are missing or do not cover every row."""
    stored = {(index.column, index.kind): index for index in stored_indices(at)}
    fragments = {int(fragment.fragment_id): fragment.count_rows() for fragment in at.dataset.get_fragments()}
    return [item for item in wanted if _due(stored.get((item.column, item.kind)), fragments, fold=True)[0]]


def _due(there: StoredIndex | None, fragments: dict[int, int], *, fold: bool) -> tuple[list[int], Sequence[Index]]:
    """The fragments to build a segment over, and the segments it takes the place of."""
    everything = sorted(number for number, rows in fragments.items() if rows)
    if there is None:
        return everything, ()
    missing = [number for number in everything if number not in there.covered]
    if not fold or not missing:
        return [], ()
    most = sum(fragments[number] for number in missing) * 2 > sum(fragments.values())
    if most or len(there.segments) >= _SEGMENTS:
        return everything, there.segments
    return missing, ()


def _free_name(item: WantedIndex, taken: set[str]) -> str:
    """A name for an index. A renamed column keeps its index, so the obvious one may be another column's."""
    suffix = {IndexKind.ORDERED: "idx", IndexKind.WORDS: "words", IndexKind.NEAREST: "nearest"}[item.kind]
    name, number = f"{item.column}_{suffix}", 2
    while name in taken:
        name, number = f"{item.column}_{suffix}_{number}", number + 1
    return name


def _any_value(dataset: LanceDataset, column: str, over: list[int]) -> bool:
    fragments = [dataset.get_fragment(number) for number in over]
    found = dataset.scanner(columns=[column], filter=f"`{column}` IS NOT NULL", fragments=fragments, limit=1)
    return bool(found.to_table().num_rows)


def _build(at: TableSnapshot, item: WantedIndex, name: str, over: list[int], objects: SmallObjects) -> Index:
    options: dict[str, Any] = {}
    if item.kind is IndexKind.NEAREST:
        rows = sum(at.dataset.get_fragment(number).count_rows() for number in over)
        options["num_partitions"] = min(1024, max(1, rows // _ROWS_PER_PARTITION))
    made = at.dataset.create_index_uncommitted(
        item.column, str(item.kind), name=name, fragment_ids=over, replace=True, **options
    )
    if item.kind is not IndexKind.WORDS:
        return made
    # The parts of a full text index are readable once they are merged; what they were made from is then of no use.
    at.dataset.merge_index_metadata(made.uuid, str(item.kind))
    for left in objects.list(f"{at.folder}/_indices/{made.uuid}/staging"):
        objects.delete(left.name)
    return replace(made, files=None)
