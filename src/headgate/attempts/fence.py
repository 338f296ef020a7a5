"""The attempt fence: whether the orchestrator still wants this attempt's result."""

from __future__ import annotations

from headgate.errors import HeadgateError, StaleAttemptError
from headgate.tasks.protocols import AttemptId, Orchestrator

IN_PROGRESS = "IN_PROGRESS"
CANCELLED = ("CANCELED", "CANCELLED")


def check_current(orchestrator: Orchestrator, attempt: AttemptId) -> None:
    """Return only if the task is in progress under exactly this poll; an orchestrator that cannot answer is a no."""
    try:
        now = orchestrator.current(attempt)
    except HeadgateError as error:
        raise StaleAttemptError(
            message=f"the orchestrator could not say whether this attempt is current: {error.summary}",
            hint="the orchestrator hands the task out again; nothing was published",
            workflow=attempt.workflow,
            task_id=attempt.task_id,
        ) from error
    if now.status == IN_PROGRESS and now.id == attempt:
        return
    raise StaleAttemptError(
        message=f"another attempt is current, or none: {_difference(attempt, now.id) or 'the task is over'}",
        hint="this attempt stops here; nothing was published",
        workflow=attempt.workflow,
        task_id=attempt.task_id,
        status=now.status,
    )


def _difference(ours: AttemptId, current: AttemptId) -> str:
    names = ("orchestrator", "workflow", "task_id", "retry_count", "poll_count", "worker_id")
    told = [
        f"{n} {getattr(current, n)}, not {getattr(ours, n)}" for n in names if getattr(current, n) != getattr(ours, n)
    ]
    return "; ".join(told)
