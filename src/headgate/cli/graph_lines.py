"""A history drawn with characters, a commit a line, as people know it from version control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.cli.stores import ShownCommit


def draw(commits: Iterable[ShownCommit]) -> Iterator[tuple[str, ShownCommit | None]]:
    """What stands left of each commit, and the lines between where lanes part or join (those have no commit).

    `commits` come newest first, none before its children. A lane is a line of descent that waits for its next commit.
    """
    lanes: list[str] = []
    for commit in commits:
        if commit.ref not in lanes:
            lanes.append(commit.ref)
        own = lanes.index(commit.ref)
        for other in range(len(lanes) - 1, own, -1):
            if lanes[other] == commit.ref:
                yield _joining(lanes, own, other), None
                del lanes[other]
        yield "".join("* " if lane == own else "| " for lane in range(len(lanes))), commit
        if not commit.parents:
            del lanes[own]
            continue
        lanes[own] = commit.parents[0]
        for parent in commit.parents[1:]:
            if parent not in lanes:
                lanes.insert(own + 1, parent)
                yield _parting(lanes, own), None


def _parting(lanes: list[str], own: int) -> str:
    """A lane more, right of `own`: what stands beyond it moves over."""
    return "| " * own + "|\\" + " \\" * (len(lanes) - own - 2)


def _joining(lanes: list[str], own: int, other: int) -> str:
    """The lane `other` ends in `own`, crossing those between."""
    return "| " * own + "|" + "_|" * (other - own - 1) + "/" + " /" * (len(lanes) - other - 1)
