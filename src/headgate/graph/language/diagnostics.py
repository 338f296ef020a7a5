"""Where in a text something is wrong, and how that is shown to a person: line, column, caret, suggestion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property

from headgate.errors import InvalidInput, Problem

_WIDEST_EXCERPT = 120
_MOST_PROBLEMS = 50
_MOST_COMPARED = 500
"""Names that are held against a wrong one: comparing is slow, and those of another length are not near."""


@dataclass(frozen=True)
class Span:
    """A stretch of one line; lines and columns count from 1."""

    line: int = 1
    column: int = 1
    width: int = 1


NOWHERE = Span(0, 0, 0)


@dataclass(frozen=True)
class LocatedProblem(Problem):
    """A problem with its place in a text, and the line with a caret under it."""

    line: int = 0
    column: int = 0
    excerpt: str = ""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.excerpt}" if self.excerpt else super().__str__()


@dataclass(frozen=True)
class Source:
    """A text and the name a person knows it by."""

    text: str
    name: str

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def excerpt(self, span: Span) -> str:
        """The line of a span with carets under it, cut to a readable width."""
        if not 1 <= span.line <= len(self._lines):
            return ""
        start = max(0, span.column - 1 - _WIDEST_EXCERPT // 2)
        shown = self._lines[span.line - 1][start : start + _WIDEST_EXCERPT].rstrip("\r").replace("\t", " ")
        at = span.column - 1 - start
        carets = "^" * max(1, min(span.width, len(shown) - at))
        gutter = f"{span.line:>5} | "
        return f"{gutter}{shown}\n{' ' * (len(gutter) - 2)}| {' ' * at}{carets}"


@dataclass
class Diagnostics:
    """All the problems of one text, collected so that they are told together."""

    source: Source
    problems: list[LocatedProblem] = field(default_factory=list)
    more: int = 0
    """Problems beyond those a person would read."""

    def add(self, span: Span, message: str, fix: str = "") -> None:
        if len(self.problems) >= _MOST_PROBLEMS:
            self.more += 1
            return
        where = f"{self.source.name}:{span.line}:{span.column}" if span.line else self.source.name
        problem = LocatedProblem(where, message, fix, span.line, span.column, self.source.excerpt(span))
        if problem not in self.problems:
            self.problems.append(problem)

    def raise_if_any(self) -> None:
        """Raise `InvalidInput` with every problem, in the order of the text."""
        if not self.problems:
            return
        ordered = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
        count = len(ordered) + self.more
        raise InvalidInput(
            message=f"{self.source.name} has {'a problem' if count == 1 else f'{count} problems'}",
            hint=f"the first {len(ordered)} are shown" if self.more else "",
            problems=tuple(ordered),
        )


@contextmanager
def diagnosing(source: Source) -> Iterator[Diagnostics]:
    """Collect the problems found in the block, and raise them all at its end."""
    diagnostics = Diagnostics(source)
    yield diagnostics
    diagnostics.raise_if_any()


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean X?` for the closest known name, the list of a few known ones, or nothing."""
    names = sorted(set(known))
    folded: dict[str, str] = {}
    for candidate in sorted(names, key=lambda item: abs(len(item) - len(name)))[:_MOST_COMPARED]:
        folded.setdefault(candidate.casefold(), candidate)
    close = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]}?"
    if 0 < len(names) <= 12:
        return f"known: {', '.join(names)}"
    return ""
