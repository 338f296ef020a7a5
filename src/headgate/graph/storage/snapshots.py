"""One immutable version of a table, and a change that is staged on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from lance import LanceDataset

from headgate.graph.storage.changes import Staged
from headgate.graph.storage.forks import folder


@dataclass(frozen=True)
class TableSnapshot:
    """One immutable version of one table. Opaque: reads go through `lookup` and the read side."""

    path: str
    fork: str
    version: int
    dataset: LanceDataset = field(repr=False, compare=False)

    @property
    def rows(self) -> int:
        return int(self.dataset.count_rows())

    @property
    def folder(self) -> str:
        """Where its files are, below the graph's root."""
        return folder(self.path, self.fork)


def staged_on(at: TableSnapshot, rows: int, operation: Any) -> Staged:
    """A transaction of ours, on a snapshot."""
    return Staged(str(uuid4()), at.version, rows, operation, at.fork)
