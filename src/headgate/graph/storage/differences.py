"""In which rows two versions of a table can differ, told from their fragments: what both share is never read.

A fragment's files have names that are used once, on whatever fork they lie. Where both versions have a fragment with
the same rows taken out it is the same; where other rows were taken out of it, only those count.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.graph.storage.forks import folder
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.lookup import ADDRESS
from headgate.graph.storage.objects import SmallObjects
from headgate.graph.storage.snapshots import TableSnapshot

Offsets = NDArray[np.uint32]
Addresses = NDArray[np.uint64]


@dataclass(frozen=True)
class Piece:
    """Live rows of one fragment: those at these offsets, or all of them."""

    number: int
    offsets: Offsets | None = None


def differing(objects: SmallObjects, before: TableSnapshot, after: TableSnapshot) -> tuple[list[Piece], list[Piece]]:
    """The rows of each version that the other may not have; everything else is in both, unchanged."""
    if (before.path, before.fork, before.version) == (after.path, after.fork, after.version):
        return [], []
    old, new = _fragments(before), _fragments(after)
    gone = [Piece(fragment.fragment_id) for key, fragment in old.items() if key not in new]
    come = [Piece(fragment.fragment_id) for key, fragment in new.items() if key not in old]
    for key in old.keys() & new.keys():
        was, now = old[key], new[key]
        if _deletion(was) == _deletion(now):
            continue
        taken, kept = _taken_out(objects, before, was), _taken_out(objects, after, now)
        for pieces, number, offsets in (
            (gone, was.fragment_id, np.setdiff1d(kept, taken, assume_unique=True)),
            (come, now.fragment_id, np.setdiff1d(taken, kept, assume_unique=True)),
        ):
            if len(offsets):
                pieces.append(Piece(number, offsets))
    return gone, come


def differing_fragments(before: TableSnapshot, after: TableSnapshot) -> tuple[set[int], set[int]]:
    """The numbers of each version's fragments outside of which both have the same rows."""
    old, new = _fragments(before), _fragments(after)
    both = [key for key in old.keys() & new.keys() if _deletion(old[key]) != _deletion(new[key])]
    gone, come = [*(old.keys() - new.keys()), *both], [*(new.keys() - old.keys()), *both]
    return {old[key].fragment_id for key in gone}, {new[key].fragment_id for key in come}


def ids_in(objects: SmallObjects, at: TableSnapshot, pieces: Sequence[Piece], column: str) -> pa.Table:
    """One column of all the rows of pieces, each with its address."""
    parts = [at.dataset.schema.empty_table().select([column]).append_column(ADDRESS, pa.array([], pa.uint64()))]
    whole = [piece.number for piece in pieces if piece.offsets is None]
    try:
        if whole:
            fragments = [at.dataset.get_fragment(number) for number in whole]
            parts.append(at.dataset.scanner(columns=[column], fragments=fragments, with_row_address=True).to_table())
    except Exception as error:
        raise as_error(error, doing=f"read table {at.path}") from error
    some = [piece for piece in pieces if piece.offsets is not None]
    if some:
        addresses = np.concatenate([_addresses(piece) for piece in some])
        found = rows_at(objects, at, addresses, [column])
        parts.append(found.append_column(ADDRESS, pa.array(addresses)))
    return pa.concat_tables(parts)


def _addresses(piece: Piece) -> Addresses:
    assert piece.offsets is not None
    return piece.offsets.astype(np.uint64) | np.uint64(piece.number << 32)


def rows_at(objects: SmallObjects, at: TableSnapshot, addresses: Addresses, columns: Sequence[str]) -> pa.Table:
    """Live rows by their addresses, in that order."""
    if not len(addresses):
        return at.dataset.schema.empty_table().select(list(columns))
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    parts = []
    try:
        for number in np.unique(ordered >> np.uint64(32)):
            offsets = (ordered[(ordered >> np.uint64(32)) == number] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
            fragment = at.dataset.get_fragment(int(number))
            # Lance counts the rows that are left.
            left = offsets - np.searchsorted(_taken_out(objects, at, fragment), offsets).astype(np.uint32)
            parts.append(fragment.take(left.tolist(), columns=list(columns)))
    except Exception as error:
        raise as_error(error, doing=f"read rows of table {at.path}") from error
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(parts).take(pa.array(back))


def moved_addresses(before: TableSnapshot, after: TableSnapshot, addresses: Addresses) -> Addresses:
    """Where rows are that lie in fragments both versions have."""
    numbers = {key: fragment.fragment_id for key, fragment in _fragments(after).items()}
    there = {fragment.fragment_id: numbers.get(key, -1) for key, fragment in _fragments(before).items()}
    out = np.empty(len(addresses), np.uint64)
    owners = addresses >> np.uint64(32)
    for number in np.unique(owners):
        mask = owners == number
        out[mask] = (addresses[mask] & np.uint64(0xFFFFFFFF)) | np.uint64(there[int(number)] << 32)
    return out


def _fragments(at: TableSnapshot) -> dict[tuple[str, ...], Any]:
    return {tuple(file.path for file in found.metadata.files): found for found in at.dataset.get_fragments()}


def _deletion(fragment: Any) -> tuple[int, int] | None:
    """What tells the rows that were taken out of a fragment from any other choice of them."""
    found = fragment.metadata.deletion_file
    return None if found is None else (found.read_version, found.id)


def _taken_out(objects: SmallObjects, at: TableSnapshot, fragment: Any) -> Offsets:
    """The offsets of rows that were taken out of a fragment, in order."""
    found = fragment.metadata.deletion_file
    if found is None:
        return np.empty(0, np.uint32)
    if found.file_type == "array":
        fork = at.fork if found.base_id is None else at.dataset.base_paths()[found.base_id].name or ""
        offsets = _listed(objects, f"{folder(at.path, fork)}/{found.path(fragment.fragment_id)}")
        if offsets is not None:
            return offsets
    # Many rows are gone: told by those that are left, which needs no column to be read.
    left = at.dataset.scanner(columns=[], fragments=[fragment], with_row_address=True).to_table()
    offsets = (left[ADDRESS].to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    gone = np.ones(fragment.physical_rows, bool)
    gone[offsets] = False
    return np.flatnonzero(gone).astype(np.uint32)


@lru_cache(maxsize=64)
def _listed(objects: SmallObjects, name: str) -> Offsets | None:
    """The offsets that a deletion file lists. Such files never change, and their names are used once."""
    data = objects.get(name)
    if data is None:
        return None
    offsets: Offsets = np.sort(pa.ipc.open_file(io.BytesIO(data)).read_all().column(0).to_numpy())
    return offsets
