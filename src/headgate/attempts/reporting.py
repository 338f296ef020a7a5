"""Telling the orchestrator how an attempt ended, within the completion budget, and finding out whether it was taken."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headgate.attempts.fence import CANCELLED, check_current
from headgate.attempts.records import AbandonedRecord
from headgate.attempts.report import Run
from headgate.attempts.runtime import Runtime
from headgate.clock import Clock
from headgate.errors import HeadgateError, OrchestratorStatus, OutcomeUnknown, StaleAttemptError, Transient
from headgate.failpoints import Failpoint, failpoint
from headgate.tasks.failures import Ending, Phase, classify, reason_of
from headgate.tasks.io import StoreBlock
from headgate.telemetry.metrics import fence_refused

log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0


def report_completed(runtime: Runtime, run: Run, output: dict[str, Any]) -> None:
    """Fence, complete, and re-read: only a completion that the orchestrator shows as ours is a success."""
    run.output = output
    with run.during(Phase.ATTEMPT_FENCE, "complete"):
        check_current(runtime.orchestrator, run.attempt.id)
        failpoint(Failpoint.ATTEMPT_AFTER_LAST_FENCE)
        _insist(runtime, run, lambda: runtime.orchestrator.complete(run.attempt.id, output))
        now = _insist(runtime, run, lambda: runtime.orchestrator.current(run.attempt.id))
        if now.status != OrchestratorStatus.COMPLETED or not _same_refs(now.output, output):
            raise StaleAttemptError(
                message="the orchestrator did not accept this attempt's completion",
                hint="the attempt that is current decides what becomes of the branch",
                workflow=run.attempt.id.workflow,
                task_id=run.attempt.id.task_id,
                status=now.status,
            )
        run.status = OrchestratorStatus.COMPLETED
    failpoint(Failpoint.ATTEMPT_COMPLETED)


def report_failed(runtime: Runtime, run: Run, error: BaseException) -> None:
    """Report what the failure table says of this error in this phase; nothing for an attempt nobody wants."""
    undelivered = run.output is not None and isinstance(error, OutcomeUnknown)
    run.error, run.reason, run.output = error, runtime.redact(reason_of(error, phase=run.phase)), None
    unwanted = run.cancellation.is_set() or not isinstance(error, Exception)
    if isinstance(error, StaleAttemptError) and error.status in CANCELLED:
        unwanted = True
    if isinstance(error, HeadgateError) and (refused := fence_refused(error)) is not None:
        runtime.recorder.record(refused)
    failure = classify(run.phase, error)
    # A completion that could not be delivered may have been: reporting a failure on top of it would be a guess.
    if unwanted or undelivered or failure.ending is Ending.NOT_REPORTED:
        log.info("nothing is reported for attempt %s: %s", run.execution, run.reason)
        return
    try:
        if not isinstance(error, HeadgateError):
            trace = "".join(traceback.format_exception(error))
            runtime.orchestrator.log(run.attempt.id, runtime.redact(trace))
        _insist(
            runtime,
            run,
            lambda: runtime.orchestrator.fail(run.attempt.id, reason=run.reason, terminal=failure.terminal),
        )
        run.status = OrchestratorStatus.TERMINAL if failure.terminal else OrchestratorStatus.FAILED
    except HeadgateError as silent:
        log.warning("attempt %s could not be reported as failed: %s; its lease runs out", run.execution, silent)


def note_abandoned(runtime: Runtime, run: Run, block: StoreBlock) -> None:
    """Log a publication that was not accepted, with everything needed to find it. The branch is left alone."""
    if not run.moved_head or run.published is None or run.status == OrchestratorStatus.COMPLETED:
        return
    record = AbandonedRecord(
        execution=run.execution,
        store=block.store,
        branch=block.branch,
        ref=run.published,
        input_ref=block.input_ref,
        reason=run.reason,
        at=runtime.clock.now(),
    )
    log.warning(
        "abandoned publication: %s@%s is at %s, published from %s by execution %s of task %s: %s",
        record.store,
        record.branch,
        record.ref,
        record.input_ref,
        record.execution,
        run.attempt.id.task_id,
        run.reason,
    )
    if runtime.records is not None:
        runtime.records.abandoned(record)


_T = TypeVar("_T")


def _insist(runtime: Runtime, run: Run, call: Callable[[], _T]) -> _T:
    return insist(
        call,
        within=run.declaration.budget.completion_timeout_seconds,
        publish_id=run.execution,
        clock=runtime.clock,
        wait=runtime.wait,
    )


def insist(
    call: Callable[[], _T],
    *,
    within: float,
    publish_id: str,
    clock: Clock,
    wait: Callable[[float], object],
    silence: str = "the orchestrator did not say whether it took the result",
) -> _T:
    """Try again until there is an answer or so many seconds are used up.

    For what may be repeated safely: a finished task id takes no second report.
    """
    deadline = clock.monotonic() + within
    pause = _FIRST_WAIT
    while True:
        try:
            return call()
        except (Transient, OutcomeUnknown) as error:
            if clock.monotonic() + pause > deadline:
                raise OutcomeUnknown(
                    message=f"{silence}: {error.summary}",
                    hint="if it did not, the lease runs out and the task is handed out again",
                    publish_id=publish_id,
                ) from error
            wait(pause)
            pause = min(pause * 2, _LONGEST_WAIT)


def _same_refs(accepted: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    stores = [key for key in ours if key != "result"]
    return all(accepted.get(key) == ours[key] for key in stores)
