"""Whether the commit on top of the input ref is abandoned: published, but never accepted by the orchestrator.

It is found out, not guessed. A head whose author cannot be asked after is somebody's work, and the fence holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headgate.publication.values import CommitMetadata, Head, Ref, Replace


class TaskState(StrEnum):
    """What the orchestrator says of a task id."""

    RUNNING = "running"
    """Scheduled or in progress: a completion can still be accepted, also one by an older poll."""
    COMPLETED = "completed"
    ENDED = "ended"
    """Final and not completed: failed, timed out, cancelled. A later completion changes nothing."""
    NOT_FOUND = "not found"


@dataclass(frozen=True, kw_only=True)
class TaskFate:
    """The state of a task id, and the ref it was accepted with."""

    state: TaskState
    accepted_ref: Ref | None = None


class HeadStatus(StrEnum):
    ABANDONED = "abandoned"
    ACCEPTED = "accepted"
    UNDECIDED = "undecided"
    """Its task id still runs: the completion may yet be accepted. A retry decides again."""
    FOREIGN = "foreign"
    """A person's, another system's, or another orchestrator's."""


@dataclass(frozen=True, kw_only=True)
class Abandonment:
    status: HeadStatus
    reason: str

    @property
    def abandoned(self) -> bool:
        return self.status is HeadStatus.ABANDONED


def judge_head(head: Head, *, orchestrator: str, fate: TaskFate | None, replace: Replace = Replace.AUTO) -> Abandonment:
    """Whether `head` may be replaced by an attempt whose input ref is its parent.

    `fate` is what this orchestrator answers about the task id in the head's metadata; None where there was nothing
    to ask. A COMPLETED task's ref stays accepted, also when its workflow fails later.
    """
    if replace is Replace.ANY:
        return Abandonment(
            status=HeadStatus.ABANDONED, reason='replace="any": every child of the input ref is abandoned'
        )
    made_by = CommitMetadata.from_map(head.metadata)
    if made_by is None:
        return _foreign("the head carries no metadata of ours: a person or another system committed it")
    if made_by.orchestrator != orchestrator:
        return _foreign(f"the head was published under another orchestrator, {made_by.orchestrator!r}")
    task = f"task {made_by.task_id} of workflow {made_by.workflow}"
    if fate is None or fate.state is TaskState.NOT_FOUND:
        return _foreign(f"the head was published by {task}, which the orchestrator does not know")
    if fate.state is TaskState.RUNNING:
        return Abandonment(status=HeadStatus.UNDECIDED, reason=f"the head was published by {task}, which still runs")
    if fate.state is TaskState.COMPLETED and fate.accepted_ref == head.ref:
        return Abandonment(status=HeadStatus.ACCEPTED, reason=f"the head is the accepted result of {task}")
    if fate.state is TaskState.COMPLETED:
        if fate.accepted_ref is None:
            return _foreign(f"the head was published by {task}, whose accepted ref cannot be told")
        accepted = f"completed with {fate.accepted_ref}"
        return Abandonment(status=HeadStatus.ABANDONED, reason=f"the head was published by {task}, which {accepted}")
    return Abandonment(
        status=HeadStatus.ABANDONED, reason=f"the head was published by {task}, which was never accepted"
    )


def _foreign(reason: str) -> Abandonment:
    return Abandonment(status=HeadStatus.FOREIGN, reason=reason)
