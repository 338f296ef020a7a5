"""From a head to a decision: ask the orchestrator after the head's author, then the publish table."""

from __future__ import annotations

import logging

from headgate.errors import PublishFenceError
from headgate.publication import (
    Abandonment,
    CommitMetadata,
    Decision,
    Head,
    HeadStatus,
    Move,
    Ref,
    Replace,
    decide,
    judge_head,
)
from headgate.tasks.protocols import Orchestrator

log = logging.getLogger(__name__)


def judge(head: Head, *, orchestrator: Orchestrator, store: str, replace: Replace) -> Abandonment:
    """Whether a head was ever accepted. An orchestrator that does not answer raises: then nothing is published."""
    made_by = CommitMetadata.from_map(head.metadata)
    if replace is Replace.ANY or made_by is None or made_by.orchestrator != orchestrator.id:
        return judge_head(head, orchestrator=orchestrator.id, fate=None, replace=replace)
    fate = orchestrator.fate(made_by.workflow, made_by.task_id, store=store)
    return judge_head(head, orchestrator=orchestrator.id, fate=fate, replace=replace)


def decide_on(
    head: Head, *, input_ref: Ref, changed: bool, orchestrator: Orchestrator, store: str, replace: Replace
) -> Decision:
    """The move this attempt makes; `PublishFenceError` where it may make none."""
    if head.only_parent == input_ref:
        abandonment = judge(head, orchestrator=orchestrator, store=store, replace=replace)
        log.info("head %s is %s (replace=%s): %s", head.ref, abandonment.status, replace, abandonment.reason)
    else:
        abandonment = Abandonment(status=HeadStatus.FOREIGN, reason="not a child of the input ref")
    decision = decide(head, input_ref=input_ref, abandonment=abandonment, changed=changed)
    if decision.move is Move.FENCED:
        raise fenced(head, input_ref=input_ref, reason=decision.reason, status=abandonment.status)
    return decision


def fenced(head: Head, *, input_ref: Ref, reason: str, status: HeadStatus | None = None) -> PublishFenceError:
    """The refusal, with whose head it is and what to do about it."""
    if status is HeadStatus.UNDECIDED:
        hint = "the retry decides again, once that task is over"
    else:
        hint = (
            f"start a new workflow from the current head of {head.branch}; "
            f"if nobody wants that head, `headgate rewind` first"
        )
    return PublishFenceError(
        message=f"{head.branch} may not be published to: {reason}",
        hint=hint,
        branch=head.branch,
        input_ref=input_ref,
        head=head.ref,
        head_parent=", ".join(head.parents) or "none",
    )


def check_head_to_build_on(head: Head, *, of: str, orchestrator: Orchestrator, store: str) -> None:
    """Refuse to start new work on a head that was never accepted: it would become the parent of a new commit.

    `of` is the name of the store by which a person finds it; `store` is its key in a task's input.
    """
    verdict = judge(head, orchestrator=orchestrator, store=store, replace=Replace.AUTO)
    if verdict.status not in (HeadStatus.ABANDONED, HeadStatus.UNDECIDED):
        return
    made_by = CommitMetadata.from_map(head.metadata)
    workflow = made_by.workflow if made_by is not None else ""
    raise PublishFenceError(
        message=f"{of}@{head.branch} is at a publication that was never accepted: {verdict.reason}",
        hint=f"retry its workflow (`headgate run … --retry {workflow}`), or `headgate rewind` to its parent",
        branch=head.branch,
        head=head.ref,
        head_parent=", ".join(head.parents) or "none",
    )
