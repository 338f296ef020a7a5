"""The rule for lost answers: revoke, read back, then decide.

The caller revokes first, so that the request can no longer take effect; what is read after that is final. A commit
object that merely exists proves nothing: only the target branch's own history does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.publication.values import (
    CommitMetadata,
    Head,
    NotPublished,
    Outcome,
    Published,
    PublishId,
    Ref,
    Strength,
    Unknown,
)


@dataclass(frozen=True, kw_only=True)
class ReadBack:
    """What is known of a publish whose answer was lost: its id, and whether it can still take effect."""

    publish_id: PublishId
    revoked: bool
    strength: Strength = Strength.HARD


def read_back_commit(asked: ReadBack, *, first_parents: Iterable[Head], input_ref: Ref) -> Outcome:
    """Look for our publish id in the target's first-parent history, newest first, down to the input ref.

    A commit of ours on the branch is published whether or not the revoke worked. Its absence means something only
    after the revoke, and only if the walk came down to the input ref.
    """
    for commit in first_parents:
        if commit.ref == input_ref:
            break
        if CommitMetadata.names(commit.metadata, asked.publish_id):
            return Published(ref=commit.ref, strength=asked.strength)
    else:
        return Unknown(publish_id=asked.publish_id, reason="the input ref is not in the target's history")
    if not asked.revoked:
        return Unknown(publish_id=asked.publish_id, reason="not on the branch yet, and it could not be revoked")
    return NotPublished(reason="revoked, and not in the target's history")


def read_back_head(asked: ReadBack, *, head: Head, wanted: Ref, expected_head: Ref) -> Outcome:
    """The outcome of a move that writes no commit: it shows in the head alone.

    A head that is neither where the move started nor where it leads was moved by somebody else, before or after ours:
    that cannot be told, and is no success.
    """
    if head.ref == wanted:
        return Published(ref=wanted, strength=asked.strength)
    if head.ref != expected_head:
        return Unknown(publish_id=asked.publish_id, reason="somebody else moved the head, before or after this move")
    if not asked.revoked:
        return Unknown(
            publish_id=asked.publish_id, reason="the head has not moved yet, and the move could not be revoked"
        )
    return NotPublished(reason="revoked, and the head has not moved")
