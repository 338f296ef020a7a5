"""What stands in the way of a merge, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from headgate.errors import InvalidInput

Choice = Literal["ours", "theirs"]
EVERY_TYPE = "*"
_CHOICES: dict[str, Choice] = {"ours": "ours", "theirs": "theirs"}


class ConflictKind(StrEnum):
    DIVERGENT_INSERT = "divergent_insert"
    """Both sides added a row of this id, with other values."""
    DIVERGENT_UPDATE = "divergent_update"
    """Both sides changed the same columns of a row, in different ways."""
    DELETE_VERSUS_UPDATE = "delete_versus_update"
    """One side removed a row that the other changed."""
    ORPHAN_EDGE = "orphan_edge"
    """One side has an edge at a node that the other removed."""
    UNIQUE = "unique"
    CARDINALITY = "cardinality"
    VALUE = "value"
    """A value of one side does not fit the other's schema."""
    SCHEMA = "schema"
    """Both sides changed the schema, in different ways."""


@dataclass(frozen=True)
class RowConflict:
    """One row that cannot be merged, with what it was and what each side has; None where there is no such row."""

    kind: ConflictKind
    type: str
    id: str
    message: str
    columns: tuple[str, ...] = ()
    base: Mapping[str, Any] | None = None
    ours: Mapping[str, Any] | None = None
    theirs: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        held = [
            f"{name} was {self._value('base', name)}, ours {self._value('ours', name)}, "
            f"theirs {self._value('theirs', name)}"
            for name in self.columns
        ]
        return f"{self.kind}: {self.message}" + (f" ({'; '.join(held)})" if held else "")

    def _value(self, side: str, column: str) -> str:
        row: Mapping[str, Any] | None = getattr(self, side)
        return "nothing" if row is None or row[column] is None else repr(row[column])


class Choices:
    """Which side is right where both cannot be, by type."""

    def __init__(self, given: Mapping[str, str] | str | None = None) -> None:
        self._wanted: dict[str, Choice] = {}
        for name, choice in ({EVERY_TYPE: given} if isinstance(given, str) else dict(given or {})).items():
            if choice not in _CHOICES:
                raise InvalidInput(
                    message=f"conflicts cannot be resolved with {choice!r}", hint="choose ours or theirs"
                )
            self._wanted[name] = _CHOICES[choice]

    def types(self) -> set[str]:
        return {name for name in self._wanted if name != EVERY_TYPE}

    def of(self, type_name: str) -> Choice | None:
        return self._wanted.get(type_name) or self._wanted.get(EVERY_TYPE)

    def __bool__(self) -> bool:
        return bool(self._wanted)
