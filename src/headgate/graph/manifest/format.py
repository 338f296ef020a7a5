"""The format stamp: which stored shapes this version opens, and how one shape becomes the next.

A step is a pure function from the rows of a branch to rows in the next shape. A reader applies it in memory and
writes nothing; a writer stores its result, with the stamp, before the branch's first publish (`migrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headgate.errors import Unsupported
from headgate.graph.manifest.rows import Format, Head, Row
from headgate.graph.manifest.state import ManifestState


@dataclass(frozen=True)
class Step:
    """From one format to the next. Both functions may meet rows that are in the next shape already."""

    rows: Callable[[ManifestState, str], Iterable[Row]]
    """The rows of a branch that change or are new, by the state and the name of the branch."""
    past: Callable[[Row], Row] = field(default=lambda row: row)
    """A row of the history, which stays stored as it was, in the next shape."""


@dataclass(frozen=True)
class Formats:
    """The formats a version of Headgate knows."""

    current: int
    oldest: int
    """The oldest format that is still opened. Raising it is how steps are given up."""
    steps: Mapping[int, Step] = field(default_factory=dict)
    """By the format that each starts from."""

    def __post_init__(self) -> None:
        if set(self.steps) != set(range(self.oldest, self.current)):
            raise ValueError(f"formats {self.oldest} to {self.current} need a step between each two")

    def check(self, state: ManifestState) -> None:
        """Refuse a graph that a newer version has written, or one too old to be read."""
        stamp = state.format_stamp
        if stamp > self.current:
            raise Unsupported(
                message=f"the graph has format {stamp}, and Headgate knows formats up to {self.current} here",
                hint="install a newer version of Headgate",
            )
        if stamp < self.oldest:
            raise Unsupported(
                message=f"the graph has format {stamp}, and Headgate opens formats from {self.oldest} on here",
                hint="open it once with an older version that can migrate it",
            )

    def is_current(self, state: ManifestState, branch: str) -> bool:
        if self.oldest == self.current:
            return True
        head = state.find_head(branch)
        return head is None or max(head.format, self.oldest) >= self.current

    def step_rows(self, state: ManifestState, branch: str) -> list[Row]:
        """The rows of one step of a branch, the stamp and the rewritten head among them; none if it is current."""
        head = state.find_head(branch)
        if head is None or self.is_current(state, branch):
            return []
        at = max(head.format, self.oldest)
        rows = [row for row in self.steps[at].rows(state, branch) if not isinstance(row, Head | Format)]
        stamp = max(state.format_stamp, at + 1)
        return [*rows, replace(head, format=at + 1), Format(stamp=stamp)]

    def upgraded(self, state: ManifestState) -> ManifestState:
        """The state in the current shape, whatever is stored; the state itself where nothing is older."""
        if self.oldest == self.current:
            return state
        for branch in [row.branch for row in state.rows.values() if isinstance(row, Head)]:
            while rows := self.step_rows(state, branch):
                state = state.with_rows(rows, version=state.version)
        return state

    def upgraded_row(self, row: Row) -> Row:
        """A row of the history in the current shape."""
        for start in range(self.oldest, self.current):
            row = self.steps[start].past(row)
        return row


FORMATS = Formats(current=1, oldest=1)


def known_formats() -> Formats:
    """What this version knows."""
    return FORMATS
