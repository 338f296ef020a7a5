"""A change to one table that has been written and not committed: its files are there, nobody reads them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Staged:
    """One uncommitted change. Opaque: only the table store looks inside `operation`."""

    uuid: str
    """Of its transaction: how a version is known to be its work, after a lost answer and to recovery."""
    read_version: int
    rows: int
    """How many rows the table has once this has landed on `read_version`."""
    operation: Any = field(repr=False)
    fork: str = ""
    """The fork it was staged on: its files are there."""

    def retargeted(self, version: int) -> Staged:
        """The same change on a version with the same content as the one it was staged on."""
        return replace(self, read_version=version)


@dataclass(frozen=True)
class Part:
    """Rows that have been written for a later transaction. Opaque: only the table store looks inside."""

    fragments: tuple[Any, ...] = field(repr=False)

    @property
    def rows(self) -> int:
        return sum(fragment.num_rows for fragment in self.fragments)
