"""Every combination of what the tables of an unfinished operation can show."""

from __future__ import annotations

from itertools import product

import pytest

from headgate.graph.recovery.classify import Movement, Observed, Resolution, movement_of, movement_of_all, resolve

M = Movement


@pytest.mark.parametrize(
    ("pin", "newest", "ours", "expected"),
    [
        (5, 4, False, M.INVARIANT_VIOLATION),
        (5, 5, False, M.NO_MOVEMENT),
        (5, 6, True, M.ROLLED_PAST_EXPECTED),
        (5, 6, False, M.UNEXPECTED_AT_P1),
        (5, 7, True, M.UNEXPECTED_MULTISTEP),
        (5, 7, False, M.UNEXPECTED_MULTISTEP),
        (6, 7, True, M.UNEXPECTED_AT_P1),
    ],
)
def test_one_table(pin: int, newest: int, ours: bool, expected: Movement) -> None:
    assert movement_of(Observed(expected=5, pin=pin, newest=newest, ours=ours)) is expected


SINGLE = [movement for movement in Movement if movement is not M.INCOMPLETE_PHASE_B]


@pytest.mark.parametrize("tables", list(product(SINGLE, repeat=2)))
@pytest.mark.parametrize("only_back", [False, True])
@pytest.mark.parametrize("conditions_hold", [False, True])
def test_an_operation_is_rolled_forward_only_if_all_of_it_is_there(
    tables: tuple[Movement, ...], conditions_hold: bool, only_back: bool
) -> None:
    chosen = resolve(tables, conditions_hold=conditions_hold, only_back=only_back)
    if M.INVARIANT_VIOLATION in tables:
        assert chosen is Resolution.ABORT
    elif set(tables) == {M.ROLLED_PAST_EXPECTED} and conditions_hold and not only_back:
        assert chosen is Resolution.ROLL_FORWARD
    else:
        assert chosen is Resolution.ROLL_BACK


def test_half_of_an_operation_has_a_name() -> None:
    assert movement_of_all([M.ROLLED_PAST_EXPECTED, M.NO_MOVEMENT]) is M.INCOMPLETE_PHASE_B
    assert movement_of_all([M.NO_MOVEMENT, M.NO_MOVEMENT]) is M.NO_MOVEMENT
