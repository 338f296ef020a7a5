"""One attempt in an executor, as seen from outside."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from headgate.attempts.heartbeat import Heartbeat
from headgate.orchestrators.executors.messages import TaskFacts
from headgate.tasks.context import Progress
from headgate.tasks.failures import Cause, Phase
from headgate.tasks.protocols import PolledAttempt

_BEFORE_STAGING = frozenset({"", Phase.INPUT, Phase.DOWNLOAD, Phase.PRE, Phase.BODY, Phase.POST})


REPORTING = frozenset({Phase.ATTEMPT_FENCE, Phase.CLEANUP})
"""The phases in which an attempt ends its own task, and those after."""


class Why(StrEnum):
    """Why an executor was ended under its attempt."""

    DIED = "the executor died"
    LIMIT = "the time limit"
    UNWANTED = "the attempt is no longer wanted, and its body went on"
    STOPPED = "the worker was told to stop"


CAUSES = {
    Why.DIED: Cause.EXECUTOR_DIED,
    Why.LIMIT: Cause.TIME_LIMIT,
    Why.UNWANTED: Cause.CANCELLED,
    Why.STOPPED: Cause.EXECUTOR_DIED,
}


@dataclass(kw_only=True)
class Running:
    """Changed by the pool alone."""

    attempt: PolledAttempt
    facts: TaskFacts
    began: float
    """On the monotonic clock."""
    began_at: datetime
    cancellation: threading.Event
    heartbeat: Heartbeat
    execution: str = ""
    phase: str = ""
    progress: Progress | None = None
    cancelled_at: float | None = None
    ended_because: Why | None = None
    steps: list[tuple[str, float]] = field(default_factory=list)

    @property
    def in_body(self) -> bool:
        """Whether nothing was staged yet: from then on an attempt has time bounds of its own."""
        return self.phase in _BEFORE_STAGING

    def overdue(self, now: float) -> Why | None:
        """Why this attempt's executor has to be ended now."""
        if self.cancelled_at is not None and now >= self.cancelled_at + self.facts.grace_seconds:
            return Why.UNWANTED
        if self.facts.limit_seconds and self.in_body and now >= self.began + self.facts.limit_seconds:
            return Why.LIMIT
        return None

    def next_look(self, now: float) -> float:
        """Seconds until `overdue` may answer otherwise."""
        ends = [float("inf")]
        if self.cancelled_at is not None:
            ends.append(self.cancelled_at + self.facts.grace_seconds)
        if self.facts.limit_seconds:
            ends.append(self.began + self.facts.limit_seconds)
        return max(0.0, min(ends) - now)

    def lease_remaining(self, now: float) -> float:
        return self.heartbeat.extended_at + self.attempt.response_seconds - now
