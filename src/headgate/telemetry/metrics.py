"""The metrics, by name: the one table of what is counted and measured, and how a part reports it.

Names and labels are a contract with dashboards and alerts. No label holds a workflow, a task id, a branch or a
repository: their number would have no bound. An observation is a plain value, so that an executor process can send it
to the process that adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from headgate.errors import HeadgateError, PublishFenceError, StaleAttemptError


class Kind(StrEnum):
    """How observations of a metric become one number."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: its name, what its labels are, and what it tells."""

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    about: str


ATTEMPTS = Metric(
    name="headgate_attempts_total",
    kind=Kind.COUNTER,
    labels=("task", "outcome"),
    about="Attempts that ended: completed, or the cause in the failure table.",
)
PHASE_SECONDS = Metric(
    name="headgate_attempt_phase_seconds",
    kind=Kind.HISTOGRAM,
    labels=("task", "phase"),
    about="How long the phases of attempts took.",
)
PUBLISH_SECONDS = Metric(
    name="headgate_publish_seconds",
    kind=Kind.HISTOGRAM,
    labels=("store", "move", "strength"),
    about="How long publishes took, by kind of store, move and fence strength.",
)
FENCE_REFUSED = Metric(
    name="headgate_fence_refused_total",
    kind=Kind.COUNTER,
    labels=("fence", "reason"),
    about="Attempts that a fence stopped.",
)
LEASE_REMAINING = Metric(
    name="headgate_lease_remaining_seconds",
    kind=Kind.GAUGE,
    about="Seconds until the first lease of the running attempts runs out; not there while none runs.",
)
ABANDONED = Metric(
    name="headgate_abandoned_publications",
    kind=Kind.GAUGE,
    about="Publications of this machine that the orchestrator never accepted.",
)
STAGING_BRANCHES = Metric(
    name="headgate_staging_branches",
    kind=Kind.GAUGE,
    about="Staging branches in the lakes of the settings: of attempts that run, and of those that left them.",
)
TRANSFER_BYTES = Metric(
    name="headgate_transfer_bytes_total",
    kind=Kind.COUNTER,
    labels=("direction", "from"),
    about="Bytes of workspaces: down from the lake or this machine's cache, up from the workspace.",
)

METRICS = (
    ATTEMPTS,
    PHASE_SECONDS,
    PUBLISH_SECONDS,
    FENCE_REFUSED,
    LEASE_REMAINING,
    ABANDONED,
    STAGING_BRANCHES,
    TRANSFER_BYTES,
)


class Observation(NamedTuple):
    """One thing that was seen: added to a counter or a gauge, or put into a histogram."""

    metric: str
    value: float
    labels: tuple[str, ...] = ()
    """Their values, in the order of the metric's labels."""


class Recorder(Protocol):
    """Takes observations; never fails and never waits."""

    def record(self, seen: Observation) -> None: ...


class _Silent:
    def record(self, seen: Observation) -> None:
        return None


SILENT: Recorder = _Silent()
"""Keeps nothing: for attempts that nobody measures."""


COMPLETED = "completed"


def attempt_ended(task: str, outcome: str) -> Observation:
    """`outcome` is `completed`, or the cause as the failure table names it."""
    return Observation(ATTEMPTS.name, 1, (task, outcome))


def phase_took(task: str, phase: str, seconds: float) -> Observation:
    return Observation(PHASE_SECONDS.name, seconds, (task, phase))


def publish_took(store: str, move: str, strength: str, seconds: float) -> Observation:
    """`store` is the kind of store: `workspace` or `graph`."""
    return Observation(PUBLISH_SECONDS.name, seconds, (store, move, strength))


def transferred(direction: str, source: str, size: int) -> Observation:
    return Observation(TRANSFER_BYTES.name, size, (direction, source))


def fence_refused(error: HeadgateError) -> Observation | None:
    """What a refusal counts as; None for an error that is none."""
    match error:
        case StaleAttemptError():
            return Observation(FENCE_REFUSED.name, 1, ("attempt", _why_stale(error)))
        case PublishFenceError():
            is_child = error.head_parent == error.input_ref
            return Observation(FENCE_REFUSED.name, 1, ("publish", "head_not_abandoned" if is_child else "head_moved"))
        case _:
            return None


def _why_stale(error: StaleAttemptError) -> str:
    if not error.status:
        return "no_answer"
    if error.status == "IN_PROGRESS":
        return "other_attempt"
    return "cancelled" if error.status.startswith("CANCEL") else "task_over"
