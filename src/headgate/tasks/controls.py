"""How often a task is tried again, how long it may take, how many may run, and the time bound of its publish.

What an orchestrator would refuse when the TaskDef is registered is refused here, with the reason.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headgate.publication import BudgetTimes, derived_lease
from headgate.publication import budget as arithmetic
from headgate.tasks.declaring import Declared

_JAVA_INT_MAX = 2**31 - 1

Count = Annotated[int, Field(ge=0, le=_JAVA_INT_MAX)]
"""A whole number the server keeps in 32 bits."""
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RetryPolicy(Declared, frozen=True):
    """How often, and after which wait, a failed attempt is followed by another."""

    count: Annotated[int, Field(ge=0, le=10)] = 3
    """Attempts after the first one; servers take no more than 10."""
    logic: Literal["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"] = "FIXED"
    delay_seconds: Count = 60
    max_delay_seconds: Count = 0
    """The longest wait a backoff may grow to; 0 for no bound."""
    jitter_ms: Count = 0
    """Each wait gets up to this much more, at random, so that tasks that failed together do not come back together."""
    backoff_scale: Annotated[int, Field(ge=1, le=_JAVA_INT_MAX)] = 1
    """How steeply a linear or exponential backoff grows."""

    @model_validator(mode="after")
    def _adds_up(self) -> RetryPolicy:
        if self.logic == "FIXED" and self.backoff_scale != 1:
            raise ValueError(
                f"backoff_scale is {self.backoff_scale}, but a FIXED delay does not grow; "
                "set logic to LINEAR_BACKOFF or EXPONENTIAL_BACKOFF, or leave backoff_scale out"
            )
        if 0 < self.max_delay_seconds < self.delay_seconds:
            raise ValueError(
                f"max_delay_seconds is {self.max_delay_seconds}, shorter than delay_seconds, {self.delay_seconds}; "
                "every wait would be cut: raise it or lower delay_seconds"
            )
        return self


class TimeoutPolicy(Declared, frozen=True):
    """How long an attempt may take, and what the orchestrator does about one that takes longer."""

    policy: Literal["TIME_OUT_WF", "RETRY", "ALERT_ONLY"] = "TIME_OUT_WF"
    seconds: Count = 0
    """Longest an attempt may take from its start to its end; 0 for no limit."""
    response_seconds: Annotated[int, Field(ge=1, le=_JAVA_INT_MAX)] = 600
    """The lease: without a sign of life for this long, the attempt is given to somebody else."""
    poll_seconds: Count = 0
    """Longest the task may wait for a worker; 0 for no limit."""
    total_seconds: Count = 0
    """Longest all attempts together may take; 0 for no limit."""

    @model_validator(mode="after")
    def _adds_up(self) -> TimeoutPolicy:
        if 0 < self.seconds < self.response_seconds:
            raise ValueError(
                f"response_seconds is {self.response_seconds}, longer than seconds, {self.seconds}; "
                "servers refuse a lease that outlives the attempt: lower response_seconds or raise seconds"
            )
        if 0 < self.total_seconds < self.seconds:
            raise ValueError(
                f"total_seconds is {self.total_seconds}, shorter than seconds, {self.seconds}; "
                "all attempts together cannot have less time than one: raise total_seconds"
            )
        return self


class ExecutionLimits(Declared, frozen=True):
    """How many attempts of a task run at once, and how many start in a window of time; 0 for no limit."""

    concurrent: Count = 0
    rate_per_window: Count = 0
    window_seconds: Annotated[int, Field(ge=1, le=_JAVA_INT_MAX)] = 1


class PublishBudget(Declared, frozen=True):
    """The time bound of a publish: how long each step from the staged commit to the reported result may take.

    It bounds time and is no quota. It never changes the lease: `derived_lease_seconds` is the shortest one under which
    everything fits, and `check` warns about a `response_seconds` below it.
    """

    observed_publish_p99_seconds: Seconds | None = None
    """What `headgate budget` printed; filled from recorded publishes when absent."""
    safety_margin_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0
    publish_timeout_seconds: Seconds = 30.0
    """Longest the update of the head may take: at least the observed p99 plus the margin."""
    completion_timeout_seconds: Seconds = 10.0
    """Longest the worker goes on trying to report the result."""
    shutdown_grace_seconds: Seconds = 30.0
    """Longest a draining worker waits for its bodies."""
    heartbeat_interval_seconds: Seconds = 10.0
    """Time between two extensions of the lease."""

    @model_validator(mode="after")
    def _adds_up(self) -> PublishBudget:
        if found := arithmetic.problems(self.times):
            raise ValueError("; ".join(f"{p.field} of {p.reason}; {p.fix}" for p in found))
        return self

    @property
    def times(self) -> BudgetTimes:
        return BudgetTimes(
            publish_timeout=self.publish_timeout_seconds,
            completion_timeout=self.completion_timeout_seconds,
            shutdown_grace=self.shutdown_grace_seconds,
            heartbeat_interval=self.heartbeat_interval_seconds,
            observed_p99=self.observed_publish_p99_seconds,
            safety_margin=self.safety_margin_seconds,
        )

    @property
    def derived_lease_seconds(self) -> float:
        """The shortest lease under which publish, completion and a drain fit between two heartbeats."""
        return derived_lease(self.times)

    def lease_warning(self, *, response_seconds: float) -> str | None:
        """Why a lease is too short for this budget; None if it is long enough."""
        return arithmetic.lease_warning(self.times, response_seconds=response_seconds)


class TaskControls(Declared, frozen=True):
    """Everything about a task that is not its body: retries, timeouts, limits, the publish budget."""

    retry: RetryPolicy = RetryPolicy()
    timeout: TimeoutPolicy = TimeoutPolicy()
    limits: ExecutionLimits = ExecutionLimits()
    publish: PublishBudget | None = None
    """None for the default budget."""
