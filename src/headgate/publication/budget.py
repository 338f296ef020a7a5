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
    if times.observed_p99 is not None and times.publish_timeout < times.observed_p99 + times.safety_margin:
        needed = times.observed_p99 + times.safety_margin
        found.append(
            BudgetProblem(
                field="publish_timeout_seconds",
                reason=f"{times.publish_timeout:g} s is shorter than the observed p99 plus the margin, {needed:g} s",
                fix=f"set publish_timeout_seconds to at least {needed:g}",
            )
        )
    return found


def lease_warning(times: BudgetTimes, *, response_seconds: float) -> str | None:
    """Why a lease is too short for the budget; None if it is long enough. The lease itself is never changed."""
    lease = derived_lease(times)
    if response_seconds >= lease:
        return None
    return (
        f"response_seconds is {response_seconds:g}, shorter than the {lease:g} s that publish, completion, shutdown "
        "grace and one heartbeat add up to: the orchestrator may hand the task out again while it publishes"
    )


def percentile(values: Sequence[float], q: float) -> float:
    """The nearest-rank percentile of `values`; `q` from 0 to 100."""
    if not values:
        raise ValueError("no values")
    if not 0 <= q <= 100:
        raise ValueError(f"q must be from 0 to 100, not {q}")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q / 100 * len(ordered)) - 1)]


def observed(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p99 of past publishes."""
    return percentile(seconds, 50), percentile(seconds, 99)
