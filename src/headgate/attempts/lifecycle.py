"""One attempt, from input ref to published ref, in the order that makes it safe.

The head is read before the second fence: a later attempt's publication is then either seen by the read, and this
attempt is no longer current and the fence fails, or it comes after the read, and the conditional update fails. Every
thing that is made is owned by the cleanup from the moment it exists; cleaning up comes after reporting and has no say
in the result.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

from headgate.attempts.body import body_boundary
from headgate.attempts.cleanup import Cleanup
from headgate.attempts.code import code_version
from headgate.attempts.fence import IN_PROGRESS, check_current
from headgate.attempts.heartbeat import beat_every, heartbeat
from headgate.attempts.judging import decide_on
from headgate.attempts.kept import KeptAttempts
from headgate.attempts.names import StagingName
from headgate.attempts.report import AttemptReport, Run
from headgate.attempts.reporting import note_abandoned, report_completed, report_failed
from headgate.attempts.runtime import Runtime
from headgate.attempts.spark_jobs import spark_for, spark_jobs
from headgate.attempts.stores import AttemptStore, open_stores
from headgate.attempts.task_log import task_log
from headgate.attempts.workspace import LocalWorkspace, Marker, open_workspace
from headgate.errors import InvalidInput, OutcomeUnknown, StaleAttemptError, Transient
from headgate.failpoints import Failpoint, failpoint
from headgate.logs import FactsLogger
from headgate.publication import CommitMetadata, Move, NotPublished, Published, PublishId, Replace
from headgate.publication.budget import lease_warning
from headgate.tasks.context import TaskContext
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.failures import Phase
from headgate.tasks.io import TaskInput, build_output, read_input
from headgate.tasks.protocols import PolledAttempt
from headgate.tasks.signals import TaskCancelled
from headgate.telemetry.metrics import attempt_ended, publish_took

log = logging.getLogger(__name__)


def run_attempt(runtime: Runtime, declaration: TaskDeclaration, attempt: PolledAttempt) -> AttemptReport:
    """Run one attempt to its end and report it. Raises nothing but what stops the process itself."""
    run = Run(
        declaration=declaration,
        attempt=attempt,
        execution=runtime.ids.new(),
        clock=runtime.clock,
        started_at=runtime.clock.now(),
        on_phase=runtime.on_phase,
        on_enter=runtime.on_enter,
        recorder=runtime.recorder,
        traces=runtime.traces,
    )
    if runtime.records is not None:
        runtime.records.began(run.record())
    try:
        with runtime.traces.attempt(declaration.name, _facts(run)) as tell_outcome:
            with Cleanup() as cleanup, _lease(runtime, run):
                try:
                    _work(runtime, run, cleanup)
                except BaseException as error:
                    report_failed(runtime, run, error)
                    if not isinstance(error, Exception):
                        raise
                cleanup_begun = runtime.clock.monotonic()
            run.took(Phase.CLEANUP, runtime.clock.monotonic() - cleanup_begun)
            tell_outcome(run.outcome)
    finally:
        runtime.recorder.record(attempt_ended(declaration.name, run.outcome))
        if runtime.records is not None:
            runtime.records.ended(run.record())
    return run.report()


def _lease(runtime: Runtime, run: Run) -> AbstractContextManager[object]:
    if runtime.keep_lease is not None:
        return runtime.keep_lease(run.attempt, run.cancellation)
    every = beat_every(run.attempt, declared=run.declaration.budget.heartbeat_interval_seconds)
    return heartbeat(
        runtime.orchestrator,
        run.attempt.id,
        every=every,
        cancellation=run.cancellation,
        reporting=lambda: run.output is not None or run.error is not None,
    )


def _facts(run: Run) -> dict[str, str | int]:
    """What a trace says about whose attempt it is."""
    told = run.attempt
    return {
        "task": run.declaration.name,
        "reference_task": told.reference_task,
        "workflow": told.id.workflow,
        "task_id": told.id.task_id,
        "retry_count": told.id.retry_count,
        "execution": run.execution,
    }


def _work(runtime: Runtime, run: Run, cleanup: Cleanup) -> None:
    """The steps of an attempt, top to bottom. Whatever it raises is reported by the caller, before the cleanup."""
    declaration, attempt, orchestrator = run.declaration, run.attempt, runtime.orchestrator
    with run.during(Phase.INPUT):
        _check_first_poll(attempt)
        task_input = read_input(declaration, attempt.input)
        name = StagingName.of(attempt, run.execution)
    with run.during(Phase.DOWNLOAD, "workspace"):
        workspace = _open_workspace(runtime, run, cleanup)
        stores = open_stores(
            runtime.stores,
            task_input,
            declaration=declaration,
            attempt=attempt,
            name=name,
            workspace=workspace,
            orchestrator=orchestrator,
            replace=_replace(runtime, declaration),
        )
    failpoint(Failpoint.ATTEMPT_BEFORE_DOWNLOAD)
    with run.during(Phase.DOWNLOAD):
        arguments: dict[str, Any] = {key: store.open(cleanup) for key, store in stores.items()}
    with run.during(Phase.PRE), _door(run, workspace):
        for store in stores.values():
            store.check_before()
    key = declaration.writes
    if key is not None and stores[key].stages_in_body:
        with run.during(Phase.ATTEMPT_FENCE, "fence before the staging branch"):
            check_current(orchestrator, attempt.id)
        with run.during(Phase.STAGE, "staging branch"):
            stores[key].begin(cleanup)
    with run.during(Phase.BODY):
        result = _run_body(runtime, run, workspace, {**arguments, "params": task_input.params})
        output = build_output(declaration, task_input, result)
    with run.during(Phase.POST), _door(run, workspace):
        for store in stores.values():
            store.check_after()
    _check_wanted(run)
    failpoint(Failpoint.ATTEMPT_AFTER_BODY)

    _warn_of_changes_to_read_only(run, {name: store for name, store in stores.items() if name != key})
    if key is None:
        report_completed(runtime, run, output)
        return
    target, block = stores[key], task_input.blocks[key]
    metadata = _metadata(run, task_input, target)
    _warn_of_tight_budget(runtime, run)

    with run.during(Phase.ATTEMPT_FENCE, "first attempt fence"):
        check_current(orchestrator, attempt.id)
    with run.during(Phase.STAGE):
        run.changes = tuple(target.changes())
        if run.changes:
            target.stage(cleanup, metadata)
        else:
            target.revoke_predecessors()
    failpoint(Failpoint.ATTEMPT_STAGED)
    with run.during(Phase.PUBLISH_FENCE):
        run.strength = target.strength
        run.decision = decide_on(
            target.head(),
            input_ref=block.input_ref,
            changed=bool(run.changes),
            orchestrator=orchestrator,
            store=key,
            replace=_replace(runtime, declaration),
        )
        target.prepare(cleanup, run.decision)
    failpoint(Failpoint.ATTEMPT_HEAD_READ)
    if run.decision.updates_head:
        with run.during(Phase.ATTEMPT_FENCE, "second attempt fence"):
            _check_wanted(run)
            check_current(orchestrator, attempt.id)
        failpoint(Failpoint.ATTEMPT_AFTER_SECOND_FENCE)
        with run.during(Phase.PUBLISH):
            _publish(run, target, metadata)
        cleanup.later("record the publish", _record_publish, runtime, run, run.phases[-1][1], store=key)
        cleanup.later("note an abandoned publication", note_abandoned, runtime, run, block)
        failpoint(Failpoint.ATTEMPT_PUBLISHED)
    else:
        run.published = block.input_ref
    output[key]["ref"] = str(run.published)
    report_completed(runtime, run, output)


def _publish(run: Run, target: AttemptStore, metadata: CommitMetadata) -> None:
    """Make the one update that was decided, once."""
    assert run.decision is not None
    timeout = run.declaration.budget.publish_timeout_seconds
    match target.publish(run.decision, metadata, timeout=timeout):
        case Published(ref=ref, strength=strength):
            run.published, run.strength = ref, strength
            # A move back to the input ref leaves nothing of ours on the branch that could be abandoned.
            run.moved_head = run.decision.move is not Move.RELOCATE
        case NotPublished(reason=reason):
            raise Transient(message=f"not published: {reason}", hint="the orchestrator hands the task out again")
        case unknown:
            raise OutcomeUnknown(
                message=f"it cannot be told whether this attempt was published: {unknown.reason}",
                hint="no success is reported; the retry finds out from the branch",
                publish_id=unknown.publish_id,
            )


def _check_first_poll(attempt: PolledAttempt) -> None:
    """Only the first poll of a task id works: a completion by an older poll of it may still be accepted."""
    if attempt.id.poll_count > 1:
        raise StaleAttemptError(
            message=f"this is poll {attempt.id.poll_count} of task {attempt.id.task_id}, and only the first one works",
            hint="reported as failed, so that the orchestrator hands out a new task id",
            workflow=attempt.id.workflow,
            task_id=attempt.id.task_id,
            status=IN_PROGRESS,
        )


def _replace(runtime: Runtime, declaration: TaskDeclaration) -> Replace:
    return Replace.ANY if runtime.options.replace is Replace.ANY else declaration.replace


def _check_wanted(run: Run) -> None:
    if run.cancellation.is_set():
        raise TaskCancelled()


def _open_workspace(runtime: Runtime, run: Run, cleanup: Cleanup) -> LocalWorkspace:
    kept = KeptAttempts(runtime.options.workspace_root, runtime.options.keep, clock=runtime.clock)

    def dispose(workspace: LocalWorkspace) -> None:
        if run.error is not None and not isinstance(run.error, TaskCancelled | StaleAttemptError):
            run.kept_at = kept.keep(workspace, run.for_keeping())

    marker = Marker.of(run.attempt, execution=run.execution, now=run.started_at)
    return open_workspace(cleanup, runtime.options.workspace_root, marker, dispose=dispose)


def _run_body(runtime: Runtime, run: Run, workspace: LocalWorkspace, arguments: dict[str, Any]) -> Any:
    spark = spark_for(runtime, run.declaration)
    if spark is not None:
        arguments["spark"] = spark.session(jobs=run.execution)
    # A logger of this run alone: what a body logs is kept whatever the process's logging is set to.
    logger = logging.Logger(f"headgate.task.{run.declaration.name}", logging.INFO)
    logger.parent = logging.getLogger("headgate.task")
    arguments["context"] = TaskContext(
        task_name=run.declaration.name,
        attempt=run.attempt.id,
        execution=run.execution,
        logger=FactsLogger(logger),
        on_progress=runtime.on_progress,
        cancellation=run.cancellation,
    )
    told = task_log(logger, runtime.orchestrator, run.attempt.id, redact=runtime.redact)
    with told, spark_jobs(spark, run, arguments["context"]), _door(run, workspace, logger):
        failpoint(Failpoint.ATTEMPT_IN_BODY)
        return run.declaration.call(arguments)


def _door(run: Run, workspace: LocalWorkspace, logger: logging.Logger | None = None) -> AbstractContextManager[None]:
    return body_boundary(task=run.declaration.name, kept_at=workspace.body_log, logger=logger)


def _metadata(run: Run, task_input: TaskInput, target: AttemptStore) -> CommitMetadata:
    declaration, attempt = run.declaration, run.attempt
    assert declaration.writes is not None
    code = code_version(declaration.source.file)
    return CommitMetadata(
        publish_id=PublishId(run.execution),
        expected_head=task_input.refs[declaration.writes],
        orchestrator=attempt.id.orchestrator,
        workflow=attempt.id.workflow,
        reference_task=attempt.reference_task,
        task_id=attempt.id.task_id,
        iteration=attempt.iteration,
        retry_count=attempt.id.retry_count,
        strength=target.strength,
        inputs={f"{key}:{block.store}": str(block.input_ref) for key, block in task_input.blocks.items()},
        task_name=declaration.name,
        code_module=declaration.module,
        code_commit=code.commit,
        code_dirty=code.dirty,
    )


def _warn_of_changes_to_read_only(run: Run, stores: dict[str, AttemptStore]) -> None:
    for key, store in stores.items():
        try:
            changes = store.changes()
        except InvalidInput as error:
            changes = [error.message]
        if changes:
            _warn(run, f"the {key} is read-only, and the body changed it: {', '.join(changes[:5])}; none of it is kept")


def _warn_of_tight_budget(runtime: Runtime, run: Run) -> None:
    """Say that the budget does not fit what was observed; it is never changed for the task."""
    budget = run.declaration.budget
    if warning := lease_warning(budget.times, response_seconds=run.attempt.response_seconds):
        _warn(run, warning)
    if budget.observed_publish_p99_seconds is None and runtime.records is not None:
        times = runtime.records.publish_times(run.declaration.name)
        if times is not None and times.p99 + budget.safety_margin_seconds > budget.publish_timeout_seconds:
            _warn(
                run,
                f"the recorded publishes of {run.declaration.name} have a p99 of {times.p99:.1f} s: "
                f"publish_timeout_seconds of {budget.publish_timeout_seconds:g} is too short; see `headgate budget`",
            )


def _warn(run: Run, warning: str) -> None:
    run.warnings.append(warning)
    log.warning("%s", warning)


def _record_publish(runtime: Runtime, run: Run, seconds: float, *, store: str) -> None:
    if run.decision is None:
        return
    runtime.recorder.record(publish_took(store, str(run.decision.move), str(run.strength), seconds))
    if runtime.records is None:
        return
    runtime.records.published(
        execution=run.execution,
        task=run.declaration.name,
        store=store,
        move=str(run.decision.move),
        strength=str(run.strength),
        seconds=seconds,
        at=runtime.clock.now(),
    )
