"""Every combination of what the tables of an unfinished operation can show."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest

from headgate.graph.recovery.classify import (
    Movement,
    Observed,
    Resolution,
    is_settled,
    movement_of,
    movement_of_all,
    resolve,
)

M = Movement
EXPECTED = 5
ONE_TABLE = {
    # pin, newest, ours
    (4, 3, False): M.INVARIANT_VIOLATION,
    (4, 4, False): M.NO_MOVEMENT,
    (4, 5, False): M.UNEXPECTED_AT_P1,
    (4, 5, True): M.UNEXPECTED_AT_P1,
    (4, 6, False): M.UNEXPECTED_MULTISTEP,
    (4, 6, True): M.UNEXPECTED_MULTISTEP,
    (5, 4, False): M.INVARIANT_VIOLATION,
    (5, 5, False): M.NO_MOVEMENT,
    (5, 6, True): M.ROLLED_PAST_EXPECTED,
    (5, 6, False): M.UNEXPECTED_AT_P1,
    (5, 7, True): M.UNEXPECTED_MULTISTEP,
    (5, 7, False): M.UNEXPECTED_MULTISTEP,
    (5, 9, False): M.UNEXPECTED_MULTISTEP,
    (6, 5, False): M.INVARIANT_VIOLATION,
    (6, 6, False): M.NO_MOVEMENT,
    (6, 7, True): M.UNEXPECTED_AT_P1,
    (6, 7, False): M.UNEXPECTED_AT_P1,
    (6, 8, True): M.UNEXPECTED_MULTISTEP,
}


@pytest.mark.parametrize(("seen", "expected"), ONE_TABLE.items())
def test_one_table(seen: tuple[int, int, bool], expected: Movement) -> None:
    pin, newest, ours = seen
    assert movement_of(Observed(expected=EXPECTED, pin=pin, newest=newest, ours=ours)) is expected


SINGLE = [movement for movement in Movement if movement is not M.INCOMPLETE_PHASE_B]
OPERATIONS = [tables for size in range(4) for tables in combinations_with_replacement(SINGLE, size)]
WHOLE = {
    (): M.ROLLED_PAST_EXPECTED,
    (M.NO_MOVEMENT,): M.NO_MOVEMENT,
    (M.ROLLED_PAST_EXPECTED,): M.ROLLED_PAST_EXPECTED,
    (M.NO_MOVEMENT, M.ROLLED_PAST_EXPECTED): M.INCOMPLETE_PHASE_B,
}


@pytest.mark.parametrize("tables", OPERATIONS, ids=lambda tables: "+".join(tables) or "no tables")
def test_a_whole_operation(tables: tuple[Movement, ...]) -> None:
    """The class does not hang on the order or the number of its tables."""
    expected = next(
        (worst for worst in (M.INVARIANT_VIOLATION, M.UNEXPECTED_MULTISTEP, M.UNEXPECTED_AT_P1) if worst in tables),
        WHOLE.get(tuple(sorted(set(tables)))),
    )
    assert movement_of_all(tables) is expected
    assert movement_of_all(tables[::-1]) is expected


@pytest.mark.parametrize("tables", OPERATIONS, ids=lambda tables: "+".join(tables) or "no tables")
@pytest.mark.parametrize(("conditions_hold", "only_back"), list(product([False, True], repeat=2)))
def test_what_is_done_about_it(tables: tuple[Movement, ...], conditions_hold: bool, only_back: bool) -> None:
    """Forward only if all of it is there, back in every other case but one: a table older than its pin."""
    chosen = resolve(tables, conditions_hold=conditions_hold, only_back=only_back)
    if M.INVARIANT_VIOLATION in tables:
        assert chosen is Resolution.ABORT
    elif all(table is M.ROLLED_PAST_EXPECTED for table in tables) and conditions_hold and not only_back:
        assert chosen is Resolution.ROLL_FORWARD
    else:
        assert chosen is Resolution.ROLL_BACK


@pytest.mark.parametrize(
    ("published", "base_is_head", "settled"),
    [(True, True, True), (True, False, True), (False, False, True), (False, True, False)],
)
def test_what_needs_no_decision(published: bool, base_is_head: bool, settled: bool) -> None:
    assert is_settled(published=published, base_is_head=base_is_head) is settled
