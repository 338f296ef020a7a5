"""Remove what nothing needs any more: versions of a table, forks, whole tables. Only cleanup asks for this."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from lance import LanceDataset

from headgate.graph.storage.forks import folder
from headgate.graph.storage.objects import SmallObjects


def stored_versions(dataset: LanceDataset) -> list[int]:
    return [int(item["version"]) for item in dataset.versions()]


def drop_versions(dataset: LanceDataset, versions: Collection[int]) -> int:
    """Remove exactly these versions, with the files that no other version and no fork names; how many bytes.

    Files that no version names are left: they may belong to a writer at work.
    """
    if not versions:
        return 0
    done = dataset.cleanup_old_versions(versions=sorted(versions), error_if_tagged_old_versions=False)
    return int(done.bytes_removed)


def stored_forks(dataset: LanceDataset) -> dict[str, datetime]:
    """The forks of a table, and when each was made."""
    return {name: datetime.fromtimestamp(told["create_at"], UTC) for name, told in dataset.branches.list().items()}


def drop_fork(dataset: LanceDataset, name: str) -> None:
    dataset.branches.delete(name)


def drop_folder(objects: SmallObjects, path: str, fork: str = "") -> int:
    """Remove every file of a table or of a fork; how many there were."""
    found = objects.list(folder(path, fork))
    for item in found:
        objects.delete(item.name)
    return len(found)
