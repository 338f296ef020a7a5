"""The publish table: what an attempt does with the target branch. The one place that knows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headgate.publication.abandonment import Abandonment
from headgate.publication.values import Head, Ref


class Move(StrEnum):
    MERGE = "merge"
    """Merge the staging branch into the target: input ref -> published."""
    REPLACE = "replace"
    """Move the target from an abandoned publication to the staged commit."""
    COMPLETE = "complete"
    """Nothing changed and nothing to undo: complete with the input ref."""
    RELOCATE = "relocate"
    """Nothing changed: move the target from an abandoned publication back to the input ref."""
    FENCED = "fenced"
    """The target is in a state this attempt may not touch."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The move, the head it is conditional on, and why."""

    move: Move
    expected_head: Ref
    reason: str

    @property
    def updates_head(self) -> bool:
        return self.move in (Move.MERGE, Move.REPLACE, Move.RELOCATE)


def decide(head: Head, *, input_ref: Ref, abandonment: Abandonment, changed: bool) -> Decision:
    """What to do with a target whose head is `head`, for an attempt that read `input_ref`.

    `abandonment` is only looked at where the head is the one commit on top of the input ref. The answer holds for
    exactly this head: the update is made conditional on `expected_head`, and is never decided a second time.
    """
    if head.ref == input_ref:
        move = Move.MERGE if changed else Move.COMPLETE
        return Decision(move=move, expected_head=head.ref, reason="the head is the input ref")
    if head.only_parent != input_ref:
        if len(head.parents) > 1:
            reason = "the head is a merge commit, which no attempt publishes"
        else:
            reason = "the head is neither the input ref nor its child: the branch has moved on"
        return Decision(move=Move.FENCED, expected_head=head.ref, reason=reason)
    if not abandonment.abandoned:
        return Decision(move=Move.FENCED, expected_head=head.ref, reason=abandonment.reason)
    move = Move.REPLACE if changed else Move.RELOCATE
    return Decision(move=move, expected_head=head.ref, reason=abandonment.reason)
