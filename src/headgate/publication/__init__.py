"""The publication kernel: what may become the head of a branch, and what that did.

Pure and total. It knows no store, no orchestrator, no clock and no disk: a lake, a graph and an orchestrator hand in
small frozen values and act on the answer. `values` holds those, `decision` the publish table, `abandonment` the
question whether a head was ever accepted, `readback` the rule for lost answers, `budget` the time arithmetic.
"""

from headgate.publication.abandonment import Abandonment, HeadStatus, TaskFate, TaskState, judge_head
from headgate.publication.budget import BudgetProblem, BudgetTimes, derived_lease, observed, percentile
from headgate.publication.decision import Decision, Move, decide
from headgate.publication.readback import ReadBack, read_back_commit, read_back_head
from headgate.publication.values import (
    CommitMetadata,
    Head,
    NotPublished,
    Outcome,
    Published,
    PublishId,
    Ref,
    Replace,
    Strength,
    Unknown,
)

__all__ = [
    "Abandonment",
    "BudgetProblem",
    "BudgetTimes",
    "CommitMetadata",
    "Decision",
    "Head",
    "HeadStatus",
    "Move",
    "NotPublished",
    "Outcome",
    "PublishId",
    "Published",
    "ReadBack",
    "Ref",
    "Replace",
    "Strength",
    "TaskFate",
    "TaskState",
    "Unknown",
    "decide",
    "derived_lease",
    "judge_head",
    "observed",
    "percentile",
    "read_back_commit",
    "read_back_head",
]
