"""The arithmetic of the publish budget: a bound on time, not a quota."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BudgetTimes:
    """The times of a publish budget, in seconds."""

    publish_timeout: float
    completion_timeout: float
    shutdown_grace: float
    heartbeat_interval: float
    observed_p99: float | None = None
    safety_margin: float = 0.0


@dataclass(frozen=True, kw_only=True)
class BudgetProblem:
    """One way in which a budget does not add up, with the fix."""

    field: str
    reason: str
    fix: str


def derived_lease(times: BudgetTimes) -> float:
    """The shortest lease under which a publish, its completion and a drain fit between two heartbeats."""
    return times.publish_timeout + times.completion_timeout + times.shutdown_grace + times.heartbeat_interval


def problems(times: BudgetTimes) -> list[BudgetProblem]:
    """Everything about the budget that makes it unusable; empty if it holds."""
    found = []
    timeout, needed = times.publish_timeout, (times.observed_p99 or 0.0) + times.safety_margin
    if times.observed_p99 is not None and _shorter(timeout, needed):
        found.append(
            BudgetProblem(
                field="publish_timeout_seconds",
                reason=f"{_told(timeout)} s is shorter than the observed p99 plus the margin, {_told(needed)} s",
                fix=f"set publish_timeout_seconds to at least {_told(needed)}",
            )
        )
    return found


def lease_warning(times: BudgetTimes, *, response_seconds: float) -> str | None:
    """Why a lease is too short for the budget; None if it is long enough. The lease itself is never changed."""
    lease = derived_lease(times)
    if not _shorter(response_seconds, lease):
        return None
    return (
        f"response_seconds is {_told(response_seconds)}, shorter than the {_told(lease)} s that publish, completion, "
        "shutdown grace and one heartbeat add up to: the orchestrator may hand the task out again while it publishes"
    )


def percentile(values: Sequence[float], q: float) -> float:
    """The nearest-rank percentile of `values`; `q` from 0 to 100."""
    if not values:
        raise ValueError("no values")
    if not 0 <= q <= 100:
        raise ValueError(f"q must be from 0 to 100, not {q}")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered) / 100) - 1)]


def observed(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p99 of past publishes."""
    return percentile(seconds, 50), percentile(seconds, 99)


def _shorter(seconds: float, needed: float) -> bool:
    """Whether `seconds` falls short by more than the rounding of a sum: 0.1 + 0.2 needs 0.3, not a bit more."""
    return seconds < needed and not math.isclose(seconds, needed, rel_tol=1e-9)


def _told(seconds: float) -> str:
    return f"{seconds:.15g}"
