"""What happened to an operation that did not end, from what its tables show. Pure: the one place that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Movement(StrEnum):
    ROLLED_PAST_EXPECTED = "rolled_past_expected"
    """The operation's own transaction is the newest version, right above the pin."""
    NO_MOVEMENT = "no_movement"
    UNEXPECTED_AT_P1 = "unexpected_at_p1"
    """Somebody else's transaction is right above the pin."""
    UNEXPECTED_MULTISTEP = "unexpected_multistep"
    """Several versions lie above the pin."""
    INCOMPLETE_PHASE_B = "incomplete_phase_b"
    """Some tables were committed and some not: of the whole operation, never of one table."""
    INVARIANT_VIOLATION = "invariant_violation"
    """The table is older than its pin: something removed what was promised to stay."""


class Resolution(StrEnum):
    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    ABORT = "abort"


@dataclass(frozen=True)
class Observed:
    """One table of an operation: the version it expects, the branch's pin, and the table's newest version."""

    expected: int
    pin: int
    newest: int
    ours: bool
    """Whether the newest version bears the operation's mark."""


def movement_of(seen: Observed) -> Movement:
    """The class of one table."""
    if seen.newest < seen.pin:
        return Movement.INVARIANT_VIOLATION
    if seen.newest == seen.pin:
        return Movement.NO_MOVEMENT
    if seen.newest > seen.pin + 1:
        return Movement.UNEXPECTED_MULTISTEP
    ours = seen.pin == seen.expected and seen.ours
    return Movement.ROLLED_PAST_EXPECTED if ours else Movement.UNEXPECTED_AT_P1


def movement_of_all(tables: Sequence[Movement]) -> Movement:
    """The class of a whole operation: the worst of its tables. One without tables is all there from the start."""
    present = set(tables)
    for worst in (Movement.INVARIANT_VIOLATION, Movement.UNEXPECTED_MULTISTEP, Movement.UNEXPECTED_AT_P1):
        if worst in present:
            return worst
    if present <= {Movement.ROLLED_PAST_EXPECTED}:
        return Movement.ROLLED_PAST_EXPECTED
    if Movement.ROLLED_PAST_EXPECTED in present:
        return Movement.INCOMPLETE_PHASE_B
    return Movement.NO_MOVEMENT


def is_settled(*, published: bool, base_is_head: bool) -> bool:
    """Whether an operation needs no decision: its commit is in the lineage, or the head it was made on has moved."""
    return published or not base_is_head


def resolve(tables: Sequence[Movement], *, conditions_hold: bool, only_back: bool) -> Resolution:
    """What to do about an operation that is not settled; `only_back` for one that is never rolled forward."""
    overall = movement_of_all(tables)
    if overall is Movement.INVARIANT_VIOLATION:
        return Resolution.ABORT
    if overall is Movement.ROLLED_PAST_EXPECTED and conditions_hold and not only_back:
        return Resolution.ROLL_FORWARD
    return Resolution.ROLL_BACK
