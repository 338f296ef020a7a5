import pytest

from headgate.errors import (
    RESPONSES,
    AccessDenied,
    Conflict,
    GuardrailFailed,
    HeadgateError,
    InvalidInput,
    InvalidResult,
    InvalidSettings,
    MissingExtra,
    NotFound,
    OutcomeUnknown,
    PublishFenceError,
    ResultTooLarge,
    StaleAttemptError,
    Transient,
)
from headgate.tasks import TaskCancelled, TaskFailed, TaskTerminalError
from headgate.tasks.failures import FAILURES, Cause, Ending, Output, Phase, classify, reason_of


@pytest.mark.parametrize(
    ("phase", "error", "cause", "ending"),
    [
        (Phase.INPUT, InvalidInput(message="x"), Cause.INVALID_INPUT, Ending.TERMINAL),
        (Phase.INPUT, Transient(message="x"), Cause.WORKER_FAULT, Ending.FAILED),
        (Phase.DOWNLOAD, NotFound(message="x"), Cause.MISSING_REF, Ending.TERMINAL),
        (Phase.DOWNLOAD, InvalidInput(message="x"), Cause.UNUSABLE_OBJECTS, Ending.TERMINAL),
        (Phase.DOWNLOAD, Transient(message="x"), Cause.DOWNLOAD_FAILED, Ending.FAILED),
        (Phase.DOWNLOAD, OSError("disk"), Cause.DOWNLOAD_FAILED, Ending.FAILED),
        (Phase.DOWNLOAD, InvalidSettings(message="x"), Cause.WORKER_FAULT, Ending.FAILED),
        (Phase.PRE, GuardrailFailed(message="x"), Cause.PRE_GUARDRAIL, Ending.TERMINAL),
        (Phase.PRE, ValueError("a callable's own"), Cause.PRE_GUARDRAIL, Ending.TERMINAL),
        (Phase.PRE, MissingExtra(message="x"), Cause.WORKER_FAULT, Ending.FAILED),
        (Phase.PRE, Transient(message="x"), Cause.WORKER_FAULT, Ending.FAILED),
        (Phase.BODY, ValueError("x"), Cause.BODY_RAISED, Ending.FAILED),
        (Phase.BODY, SystemExit(3), Cause.BODY_RAISED, Ending.FAILED),
        (Phase.BODY, TaskFailed("x"), Cause.BODY_RAISED, Ending.FAILED),
        (Phase.BODY, InvalidInput(message="x"), Cause.BODY_RAISED, Ending.FAILED),
        (Phase.BODY, InvalidResult(message="x"), Cause.BODY_RAISED, Ending.FAILED),
        (Phase.BODY, TaskTerminalError("x"), Cause.TERMINAL_ERROR, Ending.TERMINAL),
        (Phase.BODY, ResultTooLarge(message="x"), Cause.RESULT_TOO_LARGE, Ending.TERMINAL),
        (Phase.BODY, TaskCancelled(), Cause.CANCELLED, Ending.NOT_REPORTED),
        (Phase.POST, GuardrailFailed(message="x"), Cause.POST_GUARDRAIL, Ending.FAILED),
        (Phase.ATTEMPT_FENCE, StaleAttemptError(message="x"), Cause.STALE_ATTEMPT, Ending.FAILED),
        (Phase.ATTEMPT_FENCE, Transient(message="no answer"), Cause.STALE_ATTEMPT, Ending.FAILED),
        (Phase.STAGE, InvalidInput(message="symlink"), Cause.STAGE_FAILED, Ending.FAILED),
        (Phase.STAGE, StaleAttemptError(message="x"), Cause.STALE_ATTEMPT, Ending.FAILED),
        (Phase.PUBLISH_FENCE, PublishFenceError(message="x"), Cause.HEAD_NOT_ALLOWED, Ending.FAILED),
        (Phase.PUBLISH_FENCE, Transient(message="x"), Cause.PUBLISH_FAILED, Ending.FAILED),
        (Phase.PUBLISH, Conflict(message="x"), Cause.PUBLISH_FAILED, Ending.FAILED),
        (Phase.PUBLISH, OutcomeUnknown(message="x"), Cause.ANSWER_LOST_UNKNOWN, Ending.FAILED),
        (Phase.PUBLISH, AccessDenied(message="x", right="fs:Merge"), Cause.ACCESS_DENIED, Ending.FAILED),
        (Phase.CLEANUP, AccessDenied(message="x"), Cause.CLEANUP_FAILED, Ending.UNCHANGED),
        (Phase.CLEANUP, OSError("busy"), Cause.CLEANUP_FAILED, Ending.UNCHANGED),
    ],
)
def test_the_row_of_an_error(phase: Phase, error: BaseException, cause: Cause, ending: Ending) -> None:
    row = classify(phase, error)
    assert (row.cause, row.ending) == (cause, ending)
    assert row.terminal is (ending is Ending.TERMINAL)


def test_every_error_has_a_row_in_every_phase() -> None:
    """Invariant 2: whatever goes wrong, no success is reported."""
    errors = [cls(message="x") for cls in RESPONSES] + [Exception("x"), KeyboardInterrupt()]
    for phase in Phase:
        for error in errors:
            row = classify(phase, error)
            assert row.ending is not Ending.COMPLETED
            assert row.output is not Output.PUBLISHED


def test_every_cause_has_one_row_and_every_phase_at_least_one() -> None:
    assert set(FAILURES) == set(Cause)
    assert {phase for row in FAILURES.values() for phase in row.phases} == set(Phase)


def test_only_a_publication_that_was_read_back_completes() -> None:
    """Invariant 4: an outcome that cannot be known is never a success."""
    completing = [row.cause for row in FAILURES.values() if row.ending is Ending.COMPLETED]
    assert completing == [Cause.ANSWER_LOST_PUBLISHED]


def test_cleanup_never_changes_a_result() -> None:
    """Invariant 7: cleanup never changes a result that has been decided."""
    for cls in RESPONSES:
        assert classify(Phase.CLEANUP, cls(message="x")).ending is Ending.UNCHANGED


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TaskFailed("no songs today"), "no songs today"),
        (ValueError("bad\n value"), "ValueError: bad value"),
        (ValueError(), "ValueError"),
        (HeadgateError(message="it broke", hint="mend it"), "it broke; mend it"),
        (AccessDenied(message="refused", right="fs:Merge"), "refused (right=fs:Merge)"),
    ],
)
def test_a_reason_is_one_short_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_long_reason_is_cut_and_names_its_phase() -> None:
    reason = reason_of(ValueError("x" * 5000), phase=Phase.PRE)
    assert reason.startswith("pre guardrail: ValueError: xxx")
    assert reason.endswith("…")
    assert len(reason) == 500
