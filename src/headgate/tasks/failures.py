"""How an attempt ends when something goes wrong: one table from phase and cause to what the orchestrator is told.

`classify` finds the row of an error raised in a phase. Causes that are no exception (a time limit, a dead executor, an
answer that was lost) are looked up by name in `FAILURES`. The page docs/reference/failure-table.md is made from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headgate.errors import (
    AccessDenied,
    HeadgateError,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    NotFound,
    OrchestratorStatus,
    OutcomeUnknown,
    PublishFenceError,
    ResultTooLarge,
    StaleAttemptError,
    Transient,
)
from headgate.tasks.signals import TaskCancelled, TaskSignal, TaskTerminalError


class Phase(StrEnum):
    """Where in its life an attempt is."""

    INPUT = "input"
    DOWNLOAD = "download"
    PRE = "pre guardrail"
    BODY = "body"
    POST = "post guardrail"
    ATTEMPT_FENCE = "attempt fence"
    STAGE = "stage"
    PUBLISH_FENCE = "publish fence"
    PUBLISH = "publish"
    CLEANUP = "cleanup"
    ANY = "any"


class Cause(StrEnum):
    """What went wrong, as a row of the table is called in code, logs and metrics."""

    INVALID_INPUT = "invalid_input"
    MISSING_REF = "missing_ref"
    UNUSABLE_OBJECTS = "unusable_objects"
    DOWNLOAD_FAILED = "download_failed"
    PRE_GUARDRAIL = "pre_guardrail"
    BODY_RAISED = "body_raised"
    TERMINAL_ERROR = "terminal_error"
    TIME_LIMIT = "time_limit"
    RESULT_TOO_LARGE = "result_too_large"
    READ_ONLY_CHANGED = "read_only_changed"
    POST_GUARDRAIL = "post_guardrail"
    STALE_ATTEMPT = "stale_attempt"
    STAGE_FAILED = "stage_failed"
    HEAD_NOT_ALLOWED = "head_not_allowed"
    PUBLISH_FAILED = "publish_failed"
    ANSWER_LOST_PUBLISHED = "answer_lost_published"
    ANSWER_LOST_NOT_PUBLISHED = "answer_lost_not_published"
    ANSWER_LOST_UNKNOWN = "answer_lost_unknown"
    EXECUTOR_DIED = "executor_died"
    ACCESS_DENIED = "access_denied"
    WORKER_FAULT = "worker_fault"
    CANCELLED = "cancelled"
    CLEANUP_FAILED = "cleanup_failed"


class Ending(StrEnum):
    """What the orchestrator is told."""

    COMPLETED = OrchestratorStatus.COMPLETED
    FAILED = OrchestratorStatus.FAILED
    TERMINAL = OrchestratorStatus.TERMINAL
    NOT_REPORTED = "nothing is reported"
    UNCHANGED = "unchanged"


class Output(StrEnum):
    """What output goes with it."""

    NONE = "none"
    PUBLISHED = "the published ref and the result"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One row: in which phase, why, and how the attempt ends."""

    phases: tuple[Phase, ...]
    cause: Cause
    told: str
    """The cause in words."""
    ending: Ending
    output: Output = Output.NONE
    note: str = ""

    @property
    def terminal(self) -> bool:
        return self.ending is Ending.TERMINAL


_ROWS = (
    Failure(
        phases=(Phase.INPUT,),
        cause=Cause.INVALID_INPUT,
        told="wrong keys, an invalid store block, invalid params",
        ending=Ending.TERMINAL,
        note="found before anything is downloaded",
    ),
    Failure(
        phases=(Phase.DOWNLOAD,),
        cause=Cause.MISSING_REF,
        told="the repository, graph or ref does not exist",
        ending=Ending.TERMINAL,
    ),
    Failure(
        phases=(Phase.DOWNLOAD,),
        cause=Cause.UNUSABLE_OBJECTS,
        told="objects under the prefix cannot be files on this disk",
        ending=Ending.TERMINAL,
        note="the reason names them",
    ),
    Failure(
        phases=(Phase.DOWNLOAD,), cause=Cause.DOWNLOAD_FAILED, told="connection or local disk", ending=Ending.FAILED
    ),
    Failure(
        phases=(Phase.PRE,),
        cause=Cause.PRE_GUARDRAIL,
        told="the input breaks the file contract",
        ending=Ending.TERMINAL,
        note="the same input can never pass",
    ),
    Failure(
        phases=(Phase.BODY,),
        cause=Cause.BODY_RAISED,
        told="an exception, `TaskFailed`, an invalid result",
        ending=Ending.FAILED,
        note="the traceback stays in the log",
    ),
    Failure(phases=(Phase.BODY,), cause=Cause.TERMINAL_ERROR, told="`TaskTerminalError`", ending=Ending.TERMINAL),
    Failure(phases=(Phase.BODY,), cause=Cause.TIME_LIMIT, told="the time limit", ending=Ending.FAILED),
    Failure(
        phases=(Phase.BODY,),
        cause=Cause.RESULT_TOO_LARGE,
        told="a result larger than the server takes",
        ending=Ending.TERMINAL,
        note="the hint says to write a file",
    ),
    Failure(
        phases=(Phase.BODY,),
        cause=Cause.READ_ONLY_CHANGED,
        told="a read-only task changed files",
        ending=Ending.UNCHANGED,
        output=Output.UNCHANGED,
        note="warned about; nothing of it is published",
    ),
    Failure(
        phases=(Phase.POST,), cause=Cause.POST_GUARDRAIL, told="the output breaks the contract", ending=Ending.FAILED
    ),
    Failure(
        phases=(Phase.ATTEMPT_FENCE,),
        cause=Cause.STALE_ATTEMPT,
        told="not the current in-progress attempt",
        ending=Ending.FAILED,
        note="also where the orchestrator cannot answer",
    ),
    Failure(
        phases=(Phase.STAGE,),
        cause=Cause.STAGE_FAILED,
        told="a symlink, a file outside the selection, an upload, delete or commit that failed",
        ending=Ending.FAILED,
    ),
    Failure(
        phases=(Phase.PUBLISH_FENCE,),
        cause=Cause.HEAD_NOT_ALLOWED,
        told="the head is not allowed",
        ending=Ending.FAILED,
    ),
    Failure(
        phases=(Phase.PUBLISH_FENCE, Phase.PUBLISH),
        cause=Cause.PUBLISH_FAILED,
        told="the head cannot be read; a merge or reset was refused or timed out",
        ending=Ending.FAILED,
    ),
    Failure(
        phases=(Phase.PUBLISH,),
        cause=Cause.ANSWER_LOST_PUBLISHED,
        told="the answer was lost; read back by publish id: published by this attempt",
        ending=Ending.COMPLETED,
        output=Output.PUBLISHED,
    ),
    Failure(
        phases=(Phase.PUBLISH,),
        cause=Cause.ANSWER_LOST_NOT_PUBLISHED,
        told="the answer was lost; read back: not published",
        ending=Ending.FAILED,
    ),
    Failure(
        phases=(Phase.PUBLISH,),
        cause=Cause.ANSWER_LOST_UNKNOWN,
        told="the answer was lost and cannot be read back",
        ending=Ending.FAILED,
        note="never a success",
    ),
    Failure(
        phases=(Phase.ANY,),
        cause=Cause.EXECUTOR_DIED,
        told="the executor died: killed, out of memory",
        ending=Ending.FAILED,
        note="reported for it by the supervisor",
    ),
    Failure(
        phases=(Phase.ANY,),
        cause=Cause.ACCESS_DENIED,
        told="401 or 403 from a store",
        ending=Ending.FAILED,
        note="the reason names the missing right",
    ),
    Failure(
        phases=(Phase.ANY,),
        cause=Cause.WORKER_FAULT,
        told="the worker itself: its settings, an extra that is not installed, a server it cannot reach",
        ending=Ending.FAILED,
        note="a retry may land on a worker in order",
    ),
    Failure(
        phases=(Phase.ANY,),
        cause=Cause.CANCELLED,
        told="cancelled, or the workflow is over",
        ending=Ending.NOT_REPORTED,
        note="staging is removed",
    ),
    Failure(
        phases=(Phase.CLEANUP,),
        cause=Cause.CLEANUP_FAILED,
        told="a staging branch or local directory was not removed",
        ending=Ending.UNCHANGED,
        output=Output.UNCHANGED,
        note="logged; `headgate gc` reclaims it",
    ),
)

FAILURES: dict[Cause, Failure] = {row.cause: row for row in _ROWS}
"""Every row by its cause, in the order of an attempt's life."""

_OTHERWISE = {
    Phase.INPUT: Cause.WORKER_FAULT,
    Phase.DOWNLOAD: Cause.DOWNLOAD_FAILED,
    Phase.PRE: Cause.PRE_GUARDRAIL,
    Phase.BODY: Cause.BODY_RAISED,
    Phase.POST: Cause.POST_GUARDRAIL,
    Phase.ATTEMPT_FENCE: Cause.STALE_ATTEMPT,
    Phase.STAGE: Cause.STAGE_FAILED,
    Phase.PUBLISH_FENCE: Cause.PUBLISH_FAILED,
    Phase.PUBLISH: Cause.PUBLISH_FAILED,
    Phase.CLEANUP: Cause.CLEANUP_FAILED,
    Phase.ANY: Cause.WORKER_FAULT,
}

_IN_PHASE: dict[Phase, tuple[tuple[type[BaseException], Cause], ...]] = {
    Phase.INPUT: ((InvalidInput, Cause.INVALID_INPUT),),
    Phase.DOWNLOAD: ((NotFound, Cause.MISSING_REF), (InvalidInput, Cause.UNUSABLE_OBJECTS)),
    Phase.PRE: ((Transient, Cause.WORKER_FAULT),),
    Phase.BODY: ((TaskTerminalError, Cause.TERMINAL_ERROR), (ResultTooLarge, Cause.RESULT_TOO_LARGE)),
    Phase.PUBLISH: ((OutcomeUnknown, Cause.ANSWER_LOST_UNKNOWN),),
}

_IN_ANY_PHASE: tuple[tuple[type[BaseException], Cause], ...] = (
    (TaskCancelled, Cause.CANCELLED),
    (AccessDenied, Cause.ACCESS_DENIED),
    (InvalidSettings, Cause.WORKER_FAULT),
    (MissingExtra, Cause.WORKER_FAULT),
    (StaleAttemptError, Cause.STALE_ATTEMPT),
    (PublishFenceError, Cause.HEAD_NOT_ALLOWED),
)


def classify(phase: Phase, error: BaseException) -> Failure:
    """The row of an error raised in a phase; every error has one."""
    if phase is not Phase.CLEANUP:
        for kind, cause in (*_IN_ANY_PHASE, *_IN_PHASE.get(phase, ())):
            if isinstance(error, kind):
                return FAILURES[cause]
    return FAILURES[_OTHERWISE[phase]]


_LONGEST_REASON = 500


def reason_of(error: BaseException, *, phase: Phase | None = None) -> str:
    """The short reason an orchestrator shows: one line, what happened and what to do; tracebacks stay in the log."""
    if isinstance(error, TaskSignal):
        told = error.reason
    elif isinstance(error, HeadgateError):
        told = str(error)
    else:
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    line = " ".join(told.split())
    if phase is not None:
        line = f"{phase}: {line}"
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"
