"""The paths that a Spark workspace hands to a body, and the notes that Spark leaves beside what it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from headgate.errors import InvalidInput, Unsupported
from headgate.tasks.paths import Selection, check_path, glob_matches

_SUCCESS = "_SUCCESS"
_GLOB = "*?[{"


@dataclass(frozen=True, kw_only=True)
class SparkPaths:
    """A workspace as Spark sees it: one place to read the input ref, and another one to write."""

    read: str
    """Below it are the files of the input ref, which no write changes."""
    write: str | None
    """Below it is what becomes the published ref; None for a workspace that is only read."""
    selection: Selection
    listed: Callable[[str], Iterable[str]] | None = None
    """The paths of the input ref below a folder, where more lies below `read` than the task selects."""

    def read_path(self, path: str) -> str:
        """Where Spark reads `path` of the input ref: a file, a folder, or a glob of Spark's."""
        _check(path)
        if (other := next(self._left_out(path), None)) is not None:
            raise InvalidInput(
                message=f"read_path({path!r}) would also read {other}, which the task leaves out: "
                f"{self.selection.why_not(other)}",
                hint="name a narrower path, such as songs/*.json, or widen the task's include",
            )
        return f"{self.read}/{path}"

    def write_path(self, path: str) -> str:
        """Where Spark writes `path`; what is there already is the input ref's, to append to or to overwrite."""
        if self.write is None:
            raise Unsupported(
                message=f"write_path({path!r}): the workspace is read-only", hint="declare it without ReadOnly"
            )
        _check(path)
        if not f"{path.removesuffix('/')}/".startswith(self.selection.prefix):
            raise InvalidInput(
                message=f"write_path({path!r}) is outside the task's prefix {self.selection.prefix!r}",
                hint="paths are the same in the repository and in the workspace, with the prefix at their start",
            )
        return f"{self.write}/{path}"

    def _left_out(self, path: str) -> Iterator[str]:
        """What Spark would read at `path` although the task does not select it."""
        wanted, selection = path.removesuffix("/"), self.selection
        unfiltered = selection.include is None and not selection.exclude
        if self.listed is None or (unfiltered and f"{wanted}/".startswith(selection.prefix)):
            return
        folder = _folder_without_globs(wanted)
        for found in self.listed(folder):
            if _unread(found) or selection.takes(found):
                continue
            if "{" in wanted or _covers(wanted, found):
                yield found


def _covers(wanted: str, found: str) -> bool:
    return found == wanted or found.startswith(f"{wanted}/") or _matches(wanted, found)


def _matches(pattern: str, found: str) -> bool:
    if not any(character in pattern for character in _GLOB):
        return False
    return glob_matches(pattern, found) or glob_matches(f"{pattern}/**", found)


def _folder_without_globs(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/"):
        if any(character in segment for character in _GLOB):
            break
        kept.append(segment)
    return "/".join(kept)


def _unread(path: str) -> bool:
    """Whether Spark passes over it: names that begin with a dot or an underscore are notes to it."""
    return path.endswith("/") or any(segment.startswith((".", "_")) for segment in path.split("/"))


def _check(path: str) -> None:
    try:
        check_path(path.removesuffix("/"))
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        raise InvalidInput(message=f"a path of the workspace is wrong: {message}", hint=hint) from error


def is_note(path: str) -> bool:
    """Whether a path is one that Spark and Hadoop leave for themselves: unfinished work, markers, checksums."""
    at = PurePosixPath(path)
    return (
        path.endswith("/")
        or any(segment == "_temporary" or segment.startswith(".spark-staging-") for segment in at.parts)
        or (at.name.startswith(".") and at.name.endswith(".crc"))
        or at.name == _SUCCESS
    )


def is_dropped(path: str, selection: Selection) -> bool:
    """Whether a note is not published. `_SUCCESS` is, where the task selects it: other tools look for it."""
    return is_note(path) and not (PurePosixPath(path).name == _SUCCESS and selection.takes(path))
