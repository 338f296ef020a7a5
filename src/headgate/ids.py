"""Identifiers as a part that is handed in: sortable by time of making, unique across processes."""

from __future__ import annotations

from typing import Protocol


class IdSource(Protocol):
    def new(self) -> str:
        """A fresh id, in the 26 characters of a ULID."""
        ...


class UlidSource:
    def new(self) -> str:
        from ulid import ULID

        return str(ULID())


ULIDS = UlidSource()
