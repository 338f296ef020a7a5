"""What a body did to a workspace: the baseline it was given, and the changes since.

Only files that may have changed are read. A file whose size, times and inode are as recorded is unchanged, unless it
was written so late in the download that a change within the same tick of the file system's clock could hide: those are
read again. What has no place in a lake (symlinks, devices, odd names, files outside the selection) is refused by name,
all of it at once, before anything is staged. Empty folders and file modes are not kept: a lake knows objects only.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from headgate.errors import HeadgateError, InvalidInput, Problem
from headgate.lake.disk import disk_faults
from headgate.lake.files import changed_meanwhile, digest_of, in_parallel
from headgate.lake.interface import Change, ChangeKind, Changes, FileStat, LakeObject, LocalFile, Source
from headgate.lake.paths import key_problem, normal_prefix
from headgate.publication import Ref

Selects: TypeAlias = Callable[[str], bool]
"""Whether a path, relative to the workspace, is one the task reads and may write."""

_SHOWN_PROBLEMS = 50
_EFFECTIVE = os.access in os.supports_effective_ids


class Recorded(NamedTuple):
    """A file as it was handed to the body."""

    stat: FileStat
    digest: str


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A workspace as it was handed to the body: the objects of `ref` under `prefix`, by their path in the workspace."""

    ref: Ref
    prefix: str
    files: Mapping[str, Recorded]
    settled_ns: int
    """A time of the file system's own clock after the last file was written and before the body began."""
    bytes: int = 0
    """What its files hold in all."""
    cached_bytes: int = 0
    """How much of that this machine had already."""

    def key(self, path: str) -> str:
        """The key in the lake of a path in the workspace."""
        return f"{self.prefix}/{path}" if self.prefix else path

    def trusted(self, recorded: Recorded) -> bool:
        """Whether an unchanged stat proves unchanged bytes: any later write has a later time."""
        return recorded.stat.ctime_ns < self.settled_ns and recorded.stat.mtime_ns < self.settled_ns


@dataclass(frozen=True, kw_only=True)
class WorkspaceChanges:
    """What the body changed: for the lake, and for people."""

    changes: Changes
    differences: tuple[Change, ...]
    read: int = 0
    """How many files had to be read to find out."""

    def __bool__(self) -> bool:
        return bool(self.differences)


def detect_changes(root: Path, baseline: Baseline, *, selects: Selects | None = None) -> WorkspaceChanges:
    """Everything in which the workspace differs from its baseline."""
    found = dict(_files_of(root, baseline, selects))
    suspects = [
        path
        for path, stat in found.items()
        if (recorded := baseline.files.get(path)) is not None
        and stat.size == recorded.stat.size
        and not (stat == recorded.stat and baseline.trusted(recorded))
    ]
    digests = dict(zip(suspects, in_parallel(lambda path: digest_of(root / path), suspects), strict=True))
    puts: dict[str, Source] = {}
    differences: list[Change] = []
    for path, stat in found.items():
        recorded = baseline.files.get(path)
        if recorded is not None and recorded.stat.size == stat.size and digests.get(path) in (None, recorded.digest):
            continue
        key = baseline.key(path)
        puts[key] = LocalFile(root / path, stat)
        kind = ChangeKind.ADDED if recorded is None else ChangeKind.CHANGED
        differences.append(Change(path=key, kind=kind, size=stat.size))
    refuse([problem for path in puts if (problem := _unreadable(path, puts[path])) is not None])
    deletes = tuple(baseline.key(path) for path in baseline.files if path not in found)
    differences += [Change(path=path, kind=ChangeKind.REMOVED) for path in deletes]
    return WorkspaceChanges(
        changes=Changes(puts=puts, deletes=deletes),
        differences=tuple(sorted(differences, key=lambda change: change.path.encode())),
        read=len(suspects),
    )


def changes_against(folder: Path, present: Iterable[LakeObject], *, prefix: str = "", delete: bool = False) -> Changes:
    """What makes the objects under a prefix those of a folder; with `delete`, without those the folder lacks."""
    normal = normal_prefix(prefix)
    nothing = Baseline(ref=Ref(""), prefix=normal, files={}, settled_ns=0)
    wanted = {nothing.key(path): LocalFile(folder / path, stat) for path, stat in _files_of(folder, nothing, None)}
    there = {item.path: item for item in present}
    suspects = [key for key, file in wanted.items() if key in there and file.seen and file.seen.size == there[key].size]
    digests = dict(zip(suspects, in_parallel(lambda key: digest_of(wanted[key].path), suspects), strict=True))
    puts = {key: file for key, file in wanted.items() if key not in there or digests.get(key) != there[key].checksum}
    return Changes(puts=puts, deletes=tuple(key for key in there if key not in wanted) if delete else ())


def _files_of(root: Path, baseline: Baseline, selects: Selects | None) -> Iterator[tuple[str, FileStat]]:
    """Every file under `root` by its relative path; whatever cannot be staged is refused once all has been seen."""
    problems: list[Problem] = []
    known = baseline.files  # their names have been checked
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(f"{root}/{folder}" if folder else root) as scanned:
                entries = list(scanned)
        except FileNotFoundError:
            raise _gone(folder) from None
        except PermissionError:
            problems.append(Problem(where=_shown(folder), message="the folder cannot be read", fix="make it readable"))
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                raise _gone(path) from None
            if modes.S_ISDIR(stat.st_mode):
                waiting.append(path)
            elif path in known and modes.S_ISREG(stat.st_mode):
                yield path, FileStat.of(stat)
            elif (problem := _problem(path, stat, selects)) is not None:
                problems.append(problem)
            else:
                yield path, FileStat.of(stat)
    refuse(problems)


def _gone(path: str) -> HeadgateError:
    """What it means that something vanished while the workspace was looked through."""
    if path:
        return changed_meanwhile(_shown(path))
    return InvalidInput(
        message="the workspace's folder is gone", hint="let the task delete files in it, and leave the folder itself"
    )


def _problem(path: str, stat: os.stat_result, selects: Selects | None) -> Problem | None:
    """Why a file cannot be staged."""
    if modes.S_ISLNK(stat.st_mode):
        return Problem(where=_shown(path), message="it is a symbolic link", fix="write a file of its own")
    if not modes.S_ISREG(stat.st_mode):
        kind = {modes.S_IFIFO: "a FIFO", modes.S_IFSOCK: "a socket"}.get(modes.S_IFMT(stat.st_mode), "a device")
        return Problem(where=_shown(path), message=f"it is {kind}", fix="remove it before the task returns")
    if (problem := key_problem(path)) is not None:
        return unusable(path, problem)
    return unselected(path) if selects is not None and not selects(path) else None


def unusable(path: str, problem: str) -> Problem:
    """What is said of a path that no lake takes."""
    return Problem(where=_shown(path), message=f"it cannot be an object: {problem}", fix="rename it")


def unselected(path: str) -> Problem:
    """What is said of a path that a task must not write."""
    return Problem(
        where=_shown(path),
        message="it is outside what the task's include and exclude select",
        fix="write it elsewhere, or widen them",
    )


def _unreadable(path: str, source: Source) -> Problem | None:
    if isinstance(source, LocalFile) and not os.access(source.path, os.R_OK, effective_ids=_EFFECTIVE):
        return Problem(where=_shown(path), message="it cannot be read", fix="make it readable before the task returns")
    return None


def refuse(problems: list[Problem]) -> None:
    """`InvalidInput` that names everything a workspace must not hold, if there is anything."""
    if not problems:
        return
    ordered = sorted(problems, key=lambda problem: problem.where)
    shown = ordered[:_SHOWN_PROBLEMS]
    if len(ordered) > len(shown):
        shown.append(Problem(where="", message=f"… and {len(ordered) - len(shown)} more"))
    first = ordered[0]
    raise InvalidInput(
        message=f"the workspace holds what cannot be published: {first.where}: {first.message}",
        hint=first.fix,
        problems=tuple(shown),
    )


def _shown(path: str) -> str:
    """A path as a person can read it, whatever bytes it has."""
    return path if key_problem(path) is None else ascii(path)


def settle(root: Path) -> int:
    """A time of the clock that `root`'s file system stamps files with: now."""
    with disk_faults(root, "write in"):
        os.utime(root)
        return os.stat(root).st_ctime_ns
