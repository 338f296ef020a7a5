"""Remove what nothing needs any more: versions of a table, forks, whole tables. Only cleanup asks for this."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from lance import LanceDataset

from headgate.graph.storage.forks import folder
from headgate.graph.storage.objects import SmallObjects, StoredObject


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


def named_files(dataset: LanceDataset) -> set[str]:
    """What one version names, as the last parts of paths: data files, deletion files, folders of indices."""
    names = {str(segment.uuid) for index in dataset.describe_indices() for segment in index.segments}
    for fragment in dataset.get_fragments():
        told = fragment.metadata.to_json()
        names.update(str(file["path"]).rpartition("/")[2] for file in told["files"])
        gone = told["deletion_file"]
        if gone:
            names.add(f"{told['id']}-{gone['read_version']}-{gone['id']}")
    return names


def unnamed_files(objects: SmallObjects, path: str, named: Collection[str]) -> list[StoredObject]:
    """The files of a table and its forks that no version names: staged by somebody, or left."""
    found = []
    for item in objects.list(path):
        parts = item.name.removeprefix(f"{path}/").split("/")
        if parts[0] == "tree":
            parts = parts[2:]
        match parts:
            case ["data", *_, name] if name not in named:
                found.append(item)
            case ["_deletions", name] if name.partition(".")[0] not in named:
                found.append(item)
            case ["_indices", index, *_] if index not in named:
                found.append(item)
    return found


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
