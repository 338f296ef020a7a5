"""What is owed to the attempt of an executor that is gone: revoke what it may have sent, then report it.

The order is that of every publish whose answer is lost: a request still on its way must not take effect after the
orchestrator was told that the attempt failed. The lease is kept until then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from headgate.attempts.fence import IN_PROGRESS
from headgate.attempts.names import StagingName
from headgate.attempts.records import AttemptRecords
from headgate.attempts.reporting import insist
from headgate.clock import Clock
from headgate.errors import HeadgateError, OrchestratorStatus, StaleAttemptError
from headgate.lake.interface import Lake
from headgate.orchestrators.executors.running import Running, Why
from headgate.tasks.protocols import Orchestrator

log = logging.getLogger(__name__)


class Burial:
    """Ends the attempts of dead executors. Safe to use from several threads."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        lake_of: Callable[[str], Lake],
        records: AttemptRecords | None,
        *,
        clock: Clock,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """`lake_of` finds the lake of a repository; `wait` is between two tries."""
        self._orchestrator, self._lake_of, self._records = orchestrator, lake_of, records
        self._clock, self._wait = clock, wait

    def bury(self, running: Running, why: Why, told: str) -> str | None:
        """Revoke, report, record: the status that was reported, None if none was. Raises nothing."""
        reason = _reason(running, why, told)
        log.warning("attempt %s of task %s: %s", running.execution, running.attempt.id.task_id, reason)
        self._revoke(running)
        status = self._report(running, why, reason)
        if self._records is not None and running.execution:
            self._records.died(
                running.execution, status=status, phase=running.phase, reason=reason, at=self._clock.now()
            )
        return status

    def _revoke(self, running: Running) -> None:
        """Delete its staging branch and have updates in flight decide again; a graph decides in its manifest alone."""
        block = running.attempt.input.get("workspace")
        staged_nothing = running.in_body and not running.facts.stages_in_body
        if running.facts.writes != "workspace" or staged_nothing or not isinstance(block, Mapping):
            return
        try:
            repository, target = str(block["repository"]), str(block["branch"])
            name = str(StagingName.of(running.attempt, running.execution))
            insist(
                lambda: self._lake_of(repository).revoke(repository, name, target=target),
                within=running.facts.publish_seconds,
                publish_id=running.execution,
                clock=self._clock,
                wait=self._wait,
                silence="the lake did not answer",
            )
        except (HeadgateError, KeyError) as error:
            # The store's own decision still stands between that request and the branch.
            log.warning("what execution %s had staged could not be revoked: %s", running.execution, error)

    def _report(self, running: Running, why: Why, reason: str) -> str | None:
        if running.cancelled_at is not None or (why is Why.LIMIT and running.facts.limit_ends_workflow):
            return None
        attempt = running.attempt.id

        def fail() -> None:
            now = self._orchestrator.current(attempt)
            # The server would take a failure by an older poll for that of the one that is current.
            if now.status != IN_PROGRESS or now.id != attempt:
                raise StaleAttemptError(
                    message="the attempt is over, or another one is current",
                    workflow=attempt.workflow,
                    task_id=attempt.task_id,
                    status=now.status,
                )
            self._orchestrator.fail(attempt, reason=reason, terminal=False)

        try:
            insist(
                fail,
                within=running.facts.completion_seconds,
                publish_id=running.execution,
                clock=self._clock,
                wait=self._wait,
            )
        except StaleAttemptError as over:
            log.info("nothing is reported for attempt %s: %s", running.execution, over.summary)
            return None
        except HeadgateError as error:
            log.warning("attempt %s could not be reported as failed: %s; its lease runs out", running.execution, error)
            return None
        return OrchestratorStatus.FAILED


def _reason(running: Running, why: Why, told: str) -> str:
    phase = f"{running.phase}: " if running.phase else ""
    match why:
        case Why.LIMIT:
            return f"{phase}the time limit of {running.facts.limit_seconds:g} s has passed, and the body was ended"
        case Why.DIED:
            return f"{phase}{why}: {told}"
    return f"{phase}{why}"
