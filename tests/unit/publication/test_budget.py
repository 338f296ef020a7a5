"""The publish budget: a bound on time that adds up."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.publication import BudgetTimes, derived_lease, observed, percentile
from headgate.publication.budget import lease_warning, problems

times_of_a_person = st.integers(min_value=1, max_value=10**9).map(lambda ms: ms / 1000)
budgets = st.builds(
    BudgetTimes,
    publish_timeout=times_of_a_person,
    completion_timeout=times_of_a_person,
    shutdown_grace=times_of_a_person,
    heartbeat_interval=times_of_a_person,
    observed_p99=st.none() | times_of_a_person,
    safety_margin=times_of_a_person,
)
DEFAULT = BudgetTimes(publish_timeout=30, completion_timeout=10, shutdown_grace=30, heartbeat_interval=10)


def test_the_lease_is_publish_completion_grace_and_one_heartbeat() -> None:
    assert derived_lease(DEFAULT) == 80


@given(budgets)
def test_a_budget_that_is_told_its_fix_and_takes_it_adds_up(times: BudgetTimes) -> None:
    for problem in problems(times):
        assert problem.field == "publish_timeout_seconds"
        assert problems(replace(times, publish_timeout=float(problem.fix.rsplit(" ", 1)[1]))) == []


@given(budgets)
def test_a_budget_is_refused_exactly_if_the_timeout_is_shorter_than_p99_and_margin(times: BudgetTimes) -> None:
    in_ms = [round(1000 * s) for s in (times.publish_timeout, times.observed_p99 or 0, times.safety_margin)]
    assert bool(problems(times)) == (times.observed_p99 is not None and in_ms[0] < in_ms[1] + in_ms[2])


def test_rounding_of_a_sum_is_no_reason_to_refuse_a_budget() -> None:
    exact = replace(DEFAULT, publish_timeout=0.3, observed_p99=0.1, safety_margin=0.2)
    assert problems(exact) == []


def test_a_budget_without_an_observation_has_nothing_to_fall_short_of() -> None:
    assert problems(replace(DEFAULT, publish_timeout=0.001, safety_margin=1000)) == []


@given(budgets)
def test_a_lease_as_long_as_derived_is_long_enough_and_one_millisecond_less_is_not(times: BudgetTimes) -> None:
    lease = derived_lease(times)
    assert lease_warning(times, response_seconds=lease) is None
    assert lease_warning(times, response_seconds=lease * 1.5) is None
    warning = lease_warning(times, response_seconds=lease * 0.99)
    assert warning is not None
    assert "response_seconds" in warning


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(0, 100))
def test_a_percentile_is_the_smallest_value_that_covers_its_share(values: list[float], q: int) -> None:
    found = percentile(values, q)
    assert found in values
    covered = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert covered * 100 >= q * len(values)
    assert below * 100 < q * len(values) or found == min(values)


def test_percentiles_of_a_hundred_values_are_the_values_themselves() -> None:
    """0.07 * 100 is a little more than 7: the rank must not be."""
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, q) for q in range(1, 101)] == values


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_observed_gives_the_median_from_below_and_the_p99(values: list[float]) -> None:
    p50, p99 = observed(values)
    assert p50 == statistics.median_low(values)
    assert p50 <= p99 <= max(values)


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@pytest.mark.parametrize("q", [-1, 100.5, float("nan")])
def test_a_percentile_outside_its_range_is_refused_by_name(q: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100"):
        percentile([1.0], q)
