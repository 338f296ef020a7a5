"""Forks of a table: a Lance branch with a name nobody else uses, made from one version of the table.

A fork starts with the number of the version it is made from. What was staged before it existed lies in the folder of
the table it is made from, so that its files have to be named from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata

from headgate.graph.storage.objects import SmallObjects


def folder(path: str, fork: str) -> str:
    """The folder of a table, or of one of its forks, under the graph's root."""
    return f"{path}/tree/{fork}" if fork else path


class ForkHalfMade(Exception):
    """A maker died between the two steps: the fork is of no use to anybody, and only cleanup removes it."""


def make_fork(
    source: LanceDataset, name: str, objects: SmallObjects, path: str, open_fork: Callable[[], LanceDataset]
) -> LanceDataset:
    """The fork of this name at the version of `source`, made now or by somebody who had the same in mind."""
    try:
        return source.create_branch(name, source.version)
    except Exception:
        # Lance's answer to a fork that is there already is no text to rely on: what counts is what is there.
        try:
            found = open_fork()
        except Exception:
            found = None
        if found is None:
            raise
        if objects.get(f"{path}/_refs/branches/{name}.json") is None:
            # Cleanup of the table it was made from would not know that its files are in use.
            raise ForkHalfMade(name) from None
        return found


def rebased(operation: Any, fork: LanceDataset, source: str) -> Any:
    """An operation staged on `source` (a fork, or empty), as a fork made from there has to name its files."""
    number = next(base.id for base in fork.base_paths().values() if (base.name or "") == source)

    def moved(fragments: Iterable[FragmentMetadata]) -> list[FragmentMetadata]:
        return [_from_base(fragment, number) for fragment in fragments]

    match operation:
        case LanceOperation.Append():
            return replace(operation, fragments=moved(operation.fragments))
        case LanceOperation.Overwrite():
            return replace(operation, fragments=moved(operation.fragments))
        case LanceOperation.Delete():
            return replace(operation, updated_fragments=moved(operation.updated_fragments))
        case LanceOperation.Update():
            return replace(
                operation,
                updated_fragments=moved(operation.updated_fragments),
                new_fragments=moved(operation.new_fragments),
            )
        case LanceOperation.Merge():
            return replace(operation, fragments=moved(operation.fragments))
        case LanceOperation.CreateIndex():
            indices = [replace(index, base_id=number) for index in operation.new_indices]
            return replace(operation, new_indices=indices)
        case _:
            raise TypeError(f"a {type(operation).__name__} cannot be staged before its fork is made")


def _from_base(fragment: FragmentMetadata, number: int) -> FragmentMetadata:
    told = fragment.to_json()
    for file in told["files"]:
        if file["base_id"] is None:
            file["base_id"] = number
    if told["deletion_file"] and told["deletion_file"]["base_id"] is None:
        told["deletion_file"]["base_id"] = number
    return FragmentMetadata.from_json(json.dumps(told))
