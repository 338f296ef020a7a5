"""Every combination of what the tables of an unfinished operation can show."""

from __future__ import annotations

from itertools import product

import pytest

from headgate.graph.recovery.classify import Movement, Observed, Resolution, movement_of, movement_of_all, resolve

OURS, OTHER = "ours", "other"
M = Movement


@pytest.mark.parametrize(
    ("pin", "newest", "uuid", "expected"),
    [
        (5, 4, None, M.INVARIANT_VIOLATION),
        (5, 5, None, M.NO_MOVEMENT),
        (5, 6, OURS, M.ROLLED_PAST_EXPECTED),
        (5, 6, OTHER, M.UNEXPECTED_AT_P1),
        (5, 6, None, M.UNEXPECTED_AT_P1),
        (5, 7, OURS, M.UNEXPECTED_MULTISTEP),
        (6, 7, OURS, M.UNEXPECTED_AT_P1),
    ],
)
def test_one_table(pin: int, newest: int, uuid: str | None, expected: Movement) -> None:
    assert movement_of(Observed(expected=5, uuid=OURS, pin=pin, newest=newest, newest_uuid=uuid)) is expected


SINGLE = [movement for movement in Movement if movement is not M.INCOMPLETE_PHASE_B]


@pytest.mark.parametrize("tables", list(product(SINGLE, repeat=2)))
@pytest.mark.parametrize("task", [False, True])
@pytest.mark.parametrize("conditions_hold", [False, True])
def test_an_operation_is_rolled_forward_only_if_all_of_it_is_there(
    tables: tuple[Movement, ...], conditions_hold: bool, task: bool
) -> None:
    chosen = resolve(tables, conditions_hold=conditions_hold, task=task)
    if M.INVARIANT_VIOLATION in tables:
        assert chosen is Resolution.ABORT
    elif set(tables) == {M.ROLLED_PAST_EXPECTED} and conditions_hold and not task:
        assert chosen is Resolution.ROLL_FORWARD
    else:
        assert chosen is Resolution.ROLL_BACK


def test_half_of_an_operation_has_a_name() -> None:
    assert movement_of_all([M.ROLLED_PAST_EXPECTED, M.NO_MOVEMENT]) is M.INCOMPLETE_PHASE_B
    assert movement_of_all([M.NO_MOVEMENT, M.NO_MOVEMENT]) is M.NO_MOVEMENT
