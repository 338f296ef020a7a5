"""Who moves a head: what a lake records of an attempt, and what it asks it while a target is closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headgate.publication import Head


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The attempt a gate record names."""

    orchestrator: str
    workflow: str
    task_id: str
    execution: str
    """Unique: it tells our own record from every other one."""


class Publisher(Protocol):
    """The attempt behind a merge or a move. A lake whose store needs neither answer never asks."""

    @property
    def owner(self) -> Owner: ...

    def still_runs(self, other: Owner) -> bool:
        """Whether the orchestrator says that this attempt is not over. Asked before its gate is released.

        Releasing is safe in any case; a True only avoids a useless fight, so what cannot be told is False.
        """
        ...

    def confirm(self, head: Head) -> None:
        """Raise unless `head` may still be replaced by this attempt.

        Called once the target is closed to everybody else and before its head is moved: the place to find out again
        that the head is abandoned, and then that the attempt is current.
        """
        ...
