from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import InvalidTask
from headgate.tasks import ExecutionLimits, PublishBudget, RetryPolicy, TaskControls, TimeoutPolicy


def test_the_defaults() -> None:
    controls, budget = TaskControls(), PublishBudget()
    assert (controls.retry.count, controls.retry.logic, controls.retry.delay_seconds) == (3, "FIXED", 60)
    assert controls.timeout.response_seconds == 600
    assert (budget.publish_timeout_seconds, budget.completion_timeout_seconds) == (30, 10)
    assert (budget.shutdown_grace_seconds, budget.heartbeat_interval_seconds) == (30, 10)
    assert budget.derived_lease_seconds == 80
    assert controls.publish is None


@pytest.mark.parametrize(
    ("kind", "values", "told", "fix"),
    [
        (RetryPolicy, {"count": 11}, "RetryPolicy.count is 11", "less than or equal to 10"),
        (RetryPolicy, {"count": -1}, "RetryPolicy.count is -1", "greater than or equal to 0"),
        (RetryPolicy, {"count": "3"}, "RetryPolicy.count is '3'", "valid integer"),
        (RetryPolicy, {"count": True}, "RetryPolicy.count is True", "valid integer"),
        (RetryPolicy, {"logic": "SOMETIMES"}, "RetryPolicy.logic is 'SOMETIMES'", "LINEAR_BACKOFF"),
        (RetryPolicy, {"delay_seconds": 2**31}, "RetryPolicy.delay_seconds", "less than or equal to 2147483647"),
        (RetryPolicy, {"backoff_scale": 2}, "a FIXED delay does not grow", "LINEAR_BACKOFF"),
        (
            RetryPolicy,
            {"logic": "LINEAR_BACKOFF", "backoff_scale": 0},
            "backoff_scale is 0",
            "greater than or equal to 1",
        ),
        (RetryPolicy, {"delay_seconds": 60, "max_delay_seconds": 30}, "shorter than delay_seconds, 60", "raise it"),
        (TimeoutPolicy, {"response_seconds": 0}, "response_seconds is 0", "greater than or equal to 1"),
        (TimeoutPolicy, {"seconds": 60}, "longer than seconds, 60", "lower response_seconds"),
        (TimeoutPolicy, {"seconds": 900, "total_seconds": 800}, "shorter than seconds, 900", "raise total_seconds"),
        (TimeoutPolicy, {"poll_seconds": -1}, "poll_seconds is -1", "greater than or equal to 0"),
        (TimeoutPolicy, {"policy": "WAIT"}, "policy is 'WAIT'", "TIME_OUT_WF"),
        (ExecutionLimits, {"concurrent": -1}, "concurrent is -1", "greater than or equal to 0"),
        (ExecutionLimits, {"window_seconds": 0}, "window_seconds is 0", "greater than or equal to 1"),
        (ExecutionLimits, {"concurent": 1}, "concurent is not something it takes", "did you mean 'concurrent'?"),
        (PublishBudget, {"publish_timeout_seconds": 0}, "publish_timeout_seconds is 0", "greater than 0"),
        (PublishBudget, {"heartbeat_interval_seconds": float("inf")}, "heartbeat_interval_seconds is inf", "finite"),
        (
            PublishBudget,
            {"observed_publish_p99_seconds": 28.0},
            "the observed p99 plus the margin, 33 s",
            "at least 33",
        ),
        (TaskControls, {"retry": 3}, "TaskControls.retry is 3", "RetryPolicy"),
    ],
)
def test_what_a_server_would_refuse_is_refused_with_line_and_fix(
    kind: Any, values: dict[str, Any], told: str, fix: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        kind(**values)
    (problem,) = refused.value.problems
    assert told in problem.message
    assert fix in problem.fix
    assert problem.where.rpartition(":")[0] == __file__


def test_all_wrong_fields_are_told_at_once() -> None:
    with pytest.raises(InvalidTask) as refused:
        RetryPolicy(count=11, jitter_ms=-1)
    assert len(refused.value.problems) == 2


def test_controls_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        TaskControls().retry = RetryPolicy()  # type: ignore[misc]


@given(p99=st.integers(1, 100), margin=st.integers(0, 50), timeout=st.integers(1, 200))
def test_a_budget_holds_exactly_if_the_timeout_covers_p99_and_margin(p99: int, margin: int, timeout: int) -> None:
    def budget() -> PublishBudget:
        return PublishBudget(
            observed_publish_p99_seconds=p99, safety_margin_seconds=margin, publish_timeout_seconds=timeout
        )

    if timeout >= p99 + margin:
        made = budget()
        assert made.derived_lease_seconds == pytest.approx(timeout + 10 + 30 + 10)
        assert made.lease_warning(response_seconds=made.derived_lease_seconds) is None
        assert made.lease_warning(response_seconds=made.derived_lease_seconds - 1)
    else:
        with pytest.raises(InvalidTask):
            budget()
