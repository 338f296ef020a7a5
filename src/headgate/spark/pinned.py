"""One type at one commit, as plain values: all that is needed to plan a read of it, and to read it elsewhere.

Spark plans a read in processes that live for that alone. This module imports nothing heavy, so that they start fast.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple

SPLIT_ROWS = 1 << 19
"""Fragments with more rows are read by several tasks."""


class Column(NamedTuple):
    """A column as Spark reads it, and what it was declared as: empty for a list, which no condition is asked of."""

    name: str
    spark_type: str
    kind: str


class Fragment(NamedTuple):
    number: int
    rows: int


class Split(NamedTuple):
    """Some rows of one fragment."""

    fragment: int
    start: int
    rows: int


@dataclass(frozen=True)
class Pinned:
    graph: str
    path: str
    fork: str
    version: int
    commit: str
    type: str
    columns: tuple[Column, ...]
    wanted: tuple[str, ...]
    """The names of the columns that are read, in their order."""
    fragments: tuple[Fragment, ...]

    @property
    def ddl(self) -> str:
        known = {column.name: column.spark_type for column in self.columns}
        return ", ".join(f"`{name}` {known[name]}" for name in self.wanted)

    @property
    def kinds(self) -> dict[str, str]:
        return {column.name: column.kind for column in self.columns}

    def splits(self, *, whole: bool) -> list[Split]:
        """What tasks read: fragments, those with many rows in several pieces unless they are wanted whole."""
        found = []
        for fragment in self.fragments:
            step = fragment.rows if whole else SPLIT_ROWS
            found += [Split(fragment.number, start, step) for start in range(0, fragment.rows, step or 1)]
        return found

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Pinned:
        told = json.loads(text)
        told["columns"] = tuple(Column(*column) for column in told["columns"])
        told["fragments"] = tuple(Fragment(*fragment) for fragment in told["fragments"])
        return cls(**{**told, "wanted": tuple(told["wanted"])})
