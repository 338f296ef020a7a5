"""From a lake to a workspace: parallel, bounded in memory, every file verified.

The listing is streamed and handed out in small batches, so neither the number of files nor their sizes decide how much
is held at once. Keys are checked before anything is written for them; objects whose keys end in a slash, which some
tools leave as folder markers, are passed over and left as they are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from headgate.errors import InvalidInput
from headgate.failpoints import Failpoint, failpoint
from headgate.lake.disk import disk_error
from headgate.lake.interface import Fetched, Lake, LakeObject, Progress, Wanted
from headgate.lake.paths import key_problem, normal_prefix
from headgate.lake.workspace import Baseline, Recorded, Selects, settle
from headgate.publication import Ref

_BATCH_FILES = 64
_BATCH_BYTES = 4 << 20


class _Item(NamedTuple):
    item: LakeObject
    path: str
    """Relative to the workspace."""


def download(
    lake: Lake,
    repository: str,
    ref: Ref,
    *,
    into: Path,
    prefix: str = "",
    selects: Selects | None = None,
    progress: Progress | None = None,
) -> Baseline:
    """Write the selected objects of `ref` under `prefix` into the empty folder `into`; what the folder then holds.

    An object's path in the workspace is its key without the prefix. On an error some files may have been written.
    """
    normal = normal_prefix(prefix)
    with lake.reading(repository, ref):
        listing = lake.objects(repository, ref, prefix=normal)
        plan = _Plan(listing, into, normal, selects)
        files: dict[str, Recorded] = {}
        moved: list[tuple[int, int]] = []

        def work() -> None:
            try:
                while batch := plan.next():
                    size, cached = sum(item.size for item, _ in batch), 0
                    for (item, path), fetched in _fetched(lake, repository, ref, batch, into):
                        files[path] = Recorded(fetched.stat, fetched.digest)
                        cached += item.size if fetched.cached else 0
                        failpoint(Failpoint.ATTEMPT_DURING_DOWNLOAD)
                    moved.append((size, cached))
                    if progress is not None:
                        progress(len(batch), size)
            finally:
                plan.stop()

        with ThreadPoolExecutor(lake.fetchers, thread_name_prefix="headgate-download") as pool:
            running = [pool.submit(work) for _ in range(lake.fetchers)]
        for worker in running:
            worker.result()
    return Baseline(
        ref=ref,
        prefix=normal,
        files=files,
        settled_ns=settle(into),
        bytes=sum(size for size, _ in moved),
        cached_bytes=sum(cached for _, cached in moved),
    )


def _fetched(
    lake: Lake, repository: str, ref: Ref, batch: Sequence[_Item], into: Path
) -> Iterator[tuple[_Item, Fetched]]:
    """Each of the batch as soon as its file is written."""
    done = 0
    try:
        for fetched in lake.fetch(repository, ref, [Wanted(item, f"{into}/{path}") for item, path in batch]):
            yield batch[done], fetched
            done += 1
    except FileExistsError:
        raise _collision(batch[done].item.path, into) from None


class _Plan:
    """Hands out what to fetch, in batches, with the folders made."""

    def __init__(self, listing: Iterator[LakeObject], into: Path, prefix: str, selects: Selects | None) -> None:
        self._listing = listing
        self._into = str(into)
        self._cut = len(prefix) + 1 if prefix else 0
        self._selects = selects
        self._guard = threading.Lock()
        self._folders = {""}
        self._files: set[str] = set()
        self._over = False

    def stop(self) -> None:
        self._over = True

    def next(self) -> list[_Item]:
        """The next batch; empty when there is nothing left."""
        with self._guard:
            batch: list[_Item] = []
            size = 0
            while not self._over and len(batch) < _BATCH_FILES and size < _BATCH_BYTES:
                item = next(self._listing, None)
                if item is None:
                    self._over = True
                    break
                path = self._path(item)
                if path is not None:
                    batch.append(_Item(item, path))
                    size += item.size
            return batch

    def _path(self, item: LakeObject) -> str | None:
        """Where an object goes; None for one that is not selected."""
        path = item.path[self._cut :]
        if path.endswith("/") or (not path and item.path.endswith("/")):
            return None
        if self._selects is not None and not self._selects(path):
            return None
        problem = key_problem(path) if path else "it is where the workspace's folder must be"
        if problem is not None:
            raise InvalidInput(
                message=f"the object {item.path!r} cannot be a file of a workspace: {problem}",
                hint="rename it in the lake, or leave it out with the task's exclude",
            )
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            self._make(folder, item.path)
        if path in self._folders:
            raise _file_and_folder(item.path)
        self._files.add(path)
        return path

    def _make(self, folder: str, key: str) -> None:
        parent = folder.rpartition("/")[0]
        if parent not in self._folders:
            self._make(parent, key)
        if folder in self._files:
            raise _file_and_folder(key)
        try:
            os.mkdir(f"{self._into}/{folder}")
        except FileExistsError:
            raise _collision(key, self._into) from None
        except OSError as fault:
            raise disk_error(fault, f"{self._into}/{folder}", "make the folder") from fault
        self._folders.add(folder)


def _file_and_folder(key: str) -> InvalidInput:
    return InvalidInput(
        message=f"at {key!r} the lake has both an object and a folder of that name: a workspace cannot hold both",
        hint="rename one of them in the lake, or leave one out with the task's exclude",
    )


def _collision(key: str, into: Path | str) -> InvalidInput:
    return InvalidInput(
        message=f"{key!r} and another key are one name on the disk of {into}: they differ only in case, or in how "
        "their letters are composed",
        hint="use a disk that tells them apart, rename one, or leave one out with the task's exclude",
    )
