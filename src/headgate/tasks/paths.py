"""Paths, prefixes and globs of a repository: how they are written, and what they match.

A path is relative POSIX and means the same everywhere: in the repository, below the workspace, in a guardrail, in
`include` and `exclude`. Globs are translated here, once, so that they match the same on every Python version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

_DRIVE = re.compile(r"^[A-Za-z]:")


def check_path(path: str, *, what: str = "path") -> str:
    """`path` as it is, if it is relative POSIX without tricks; `ValueError` with the reason and the fix otherwise."""
    if not path:
        raise ValueError(f"the {what} is empty; name something below the workspace")
    if "\\" in path:
        raise ValueError(f"{path!r} has a backslash; separate segments with '/'")
    if path.startswith("/") or _DRIVE.match(path):
        raise ValueError(f"{path!r} is absolute; write it relative to the workspace")
    _check_segments(path, path.split("/"))
    return path


def _check_segments(path: str, segments: Sequence[str]) -> None:
    for segment in segments:
        if segment == "":
            raise ValueError(f"{path!r} has an empty segment; write single slashes, and none at the end")
        if segment in (".", ".."):
            raise ValueError(f"{path!r} has the segment {segment!r}; name the place itself")
        if any(ord(character) < 32 or ord(character) == 127 for character in segment):
            raise ValueError(f"{path!r} has a control character; take it out")


def normalise_prefix(prefix: str) -> str:
    """The one spelling of a prefix: `songs/` for `songs`, `/songs` and `/songs/`; empty for the whole repository.

    `ValueError` for empty segments, `.`, `..`, backslashes and control characters.
    """
    if "\\" in prefix:
        raise ValueError(f"the prefix {prefix!r} has a backslash; separate segments with '/'")
    inner = prefix.removeprefix("/").removesuffix("/")
    if not inner:
        if prefix in ("", "/"):
            return ""
        raise ValueError(f"the prefix {prefix!r} has an empty segment; write single slashes")
    if _DRIVE.match(inner):
        raise ValueError(f"the prefix {prefix!r} names a drive; write it relative to the repository")
    _check_segments(prefix, inner.split("/"))
    return inner + "/"


def under_prefix(path: str, prefix: str) -> bool:
    """Whether `path` lies below a normalised prefix, by whole segments."""
    return path.startswith(prefix)


def check_glob(pattern: str) -> str:
    """`pattern` as it is, if it is one our globs understand; `ValueError` with the reason and the fix otherwise."""
    if pattern.endswith("/") and len(pattern) > 1:
        raise ValueError(f"{pattern!r} names a folder, and globs match files; write {pattern + '**'!r}")
    check_path(pattern, what="glob")
    for segment in pattern.split("/"):
        if "**" in segment and segment != "**":
            raise ValueError(f"{pattern!r} has '**' inside a segment; '**' stands for whole segments")
    try:
        _compiled(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a glob ({error}); write [[] for a literal bracket") from error
    return pattern


def glob_matches(pattern: str, path: str) -> bool:
    """Whether a path matches: `*`, `?` and `[…]` within a segment, `**` for any number of segments; case counts."""
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    segments = pattern.split("/")
    parts = []
    for position, segment in enumerate(segments):
        last = position == len(segments) - 1
        if segment == "**":
            parts.append("(?:[^/]+/)*[^/]+" if last else "(?:[^/]+/)*")
        else:
            parts.append(_segment_regex(segment) + ("" if last else "/"))
    return re.compile("".join(parts), re.DOTALL)


def _segment_regex(segment: str) -> str:
    out, position = [], 0
    while position < len(segment):
        character = segment[position]
        position += 1
        if character == "*":
            out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[":
            # A bracket right after the opening one (or its negation) is a member of the set, not its end.
            end = segment.find("]", position + (2 if segment[position : position + 1] == "!" else 1))
            if end < 0:
                out.append(re.escape(character))
                continue
            members, position = segment[position:end], end + 1
            negated, members = members.startswith("!"), members.removeprefix("!")
            out.append(f"[{'^/' if negated else ''}{_set_regex(members)}]")
        else:
            out.append(re.escape(character))
    return "".join(out)


_SET_MEMBER = re.compile(r"(.)-(.)|(.)", re.DOTALL)


def _set_regex(members: str) -> str:
    def escaped(member: re.Match[str]) -> str:
        first, last, single = member.groups()
        return re.escape(single) if single else f"{re.escape(first)}-{re.escape(last)}"

    return _SET_MEMBER.sub(escaped, members)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which paths of a repository a task has to do with; all others are never read, changed or deleted."""

    prefix: str = ""
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()

    def takes(self, path: str) -> bool:
        """Whether `path` is selected: below the prefix, in `include` where there is one, and not in `exclude`."""
        return self.why_not(path) is None

    def why_not(self, path: str) -> str | None:
        """Why `path` is left out, for a person; None if it is selected."""
        if not under_prefix(path, self.prefix):
            return f"it is outside the prefix {self.prefix!r}"
        if self.include is not None and not any(glob_matches(pattern, path) for pattern in self.include):
            return f"no pattern of include={list(self.include)} matches it"
        for pattern in self.exclude:
            if glob_matches(pattern, path):
                return f"exclude has {pattern!r}"
        return None


def files_below(root: Path) -> Iterator[str]:
    """The paths of all files below `root`, in order; links to files count, links to folders are not followed."""
    found: list[str] = []
    for folder, _, names in os.walk(root):
        base = PurePosixPath(Path(folder).relative_to(root).as_posix())
        found.extend(str(base / name) for name in names if Path(folder, name).is_file())
    yield from sorted(found)
