"""What every orchestrator must do, as tests: subclass `OrchestratorConformance` and give it an `orchestrated` fixture.

The suite holds what attempts rely on and no more. An orchestrator may be stricter (refuse the completion of an older
poll, say); what it may never do is accept two results for one task id, or change a finished one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import pytest

from headgate.errors import NotFound
from headgate.publication import Ref, TaskState
from headgate.tasks.protocols import AttemptId, Orchestrator, PolledAttempt

TASK = "conformance_task"
BLOCK = {"repository": "r", "branch": "main", "ref_type": "commit", "ref": "a1"}
OUTPUT = {"workspace": {**BLOCK, "ref": "c1"}, "result": {"n": 1}}


class Orchestrated(Protocol):
    """The orchestrator under test, with what a suite needs and an attempt never does."""

    @property
    def orchestrator(self) -> Orchestrator: ...

    def submit(self, task: str, task_input: Mapping[str, Any], *, retries: int = 1) -> str:
        """Start a workflow of one task that is retried at once; its id."""
        ...

    def let_leases_run_out(self, *, extended: AttemptId | None = None) -> None:
        """Let the time of a lease pass; `extended` gets its heartbeats meanwhile."""
        ...

    def end_workflow(self, workflow: str) -> None:
        """As a person does who terminates it."""
        ...


class OrchestratorConformance:
    """Inherit in a test class; `orchestrated` gives a fresh queue for each test."""

    @pytest.fixture
    def orchestrated(self) -> Orchestrated:
        raise NotImplementedError("override the fixture `orchestrated`")

    def poll(self, orchestrated: Orchestrated) -> PolledAttempt:
        attempt = orchestrated.orchestrator.poll(TASK)
        assert attempt is not None
        return attempt

    def started(self, orchestrated: Orchestrated, *, retries: int = 1) -> PolledAttempt:
        orchestrated.submit(TASK, {"workspace": BLOCK, "params": {"x": [1, "ü"]}}, retries=retries)
        return self.poll(orchestrated)

    def test_nothing_waits_at_first(self, orchestrated: Orchestrated) -> None:
        assert orchestrated.orchestrator.poll(TASK) is None

    def test_a_poll_hands_out_the_input_and_an_identity(self, orchestrated: Orchestrated) -> None:
        workflow = orchestrated.submit(TASK, {"workspace": BLOCK, "params": {"x": [1, "ü"]}})
        attempt = self.poll(orchestrated)
        assert attempt.input == {"workspace": BLOCK, "params": {"x": [1, "ü"]}}
        assert attempt.task_name == TASK
        assert attempt.id.orchestrator == orchestrated.orchestrator.id
        assert attempt.id.workflow == workflow
        assert (attempt.id.retry_count, attempt.id.poll_count) == (0, 1)
        assert attempt.id.worker_id

    def test_what_was_polled_is_current_and_not_handed_out_twice(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        snapshot = orchestrated.orchestrator.current(attempt.id)
        assert (snapshot.id, snapshot.status) == (attempt.id, "IN_PROGRESS")
        assert orchestrated.orchestrator.poll(TASK) is None

    def test_every_poll_has_its_own_worker_id(self, orchestrated: Orchestrated) -> None:
        first, second = self.started(orchestrated), self.started(orchestrated)
        assert first.id.worker_id != second.id.worker_id
        assert first.id.task_id != second.id.task_id

    def test_a_completed_task_is_accepted_with_its_ref(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        orchestrated.orchestrator.complete(attempt.id, OUTPUT)
        snapshot = orchestrated.orchestrator.current(attempt.id)
        assert (snapshot.status, snapshot.output) == ("COMPLETED", OUTPUT)
        fate = orchestrated.orchestrator.fate(attempt.id.workflow, attempt.id.task_id, store="workspace")
        assert (fate.state, fate.accepted_ref) == (TaskState.COMPLETED, Ref("c1"))
        assert orchestrated.orchestrator.poll(TASK) is None

    def test_a_finished_task_takes_no_second_result(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        orchestrated.orchestrator.complete(attempt.id, OUTPUT)
        orchestrated.orchestrator.complete(attempt.id, {**OUTPUT, "workspace": {**BLOCK, "ref": "c2"}})
        orchestrated.orchestrator.fail(attempt.id, reason="too late", terminal=True)
        snapshot = orchestrated.orchestrator.current(attempt.id)
        assert (snapshot.status, snapshot.output) == ("COMPLETED", OUTPUT)

    def test_a_failure_is_tried_again_under_a_new_task_id(self, orchestrated: Orchestrated) -> None:
        first = self.started(orchestrated)
        orchestrated.orchestrator.fail(first.id, reason="no luck", terminal=False)
        second = self.poll(orchestrated)
        assert second.id.task_id != first.id.task_id
        assert (second.id.workflow, second.id.retry_count) == (first.id.workflow, 1)
        assert second.input == first.input
        assert self.state(orchestrated, first) is TaskState.ENDED
        assert self.state(orchestrated, second) is TaskState.RUNNING

    def test_what_is_said_of_a_task_id_that_was_tried_again_changes_nothing(self, orchestrated: Orchestrated) -> None:
        first = self.started(orchestrated)
        orchestrated.orchestrator.fail(first.id, reason="no luck", terminal=False)
        second = self.poll(orchestrated)
        orchestrated.orchestrator.complete(first.id, OUTPUT)
        assert self.state(orchestrated, first) is TaskState.ENDED
        assert orchestrated.orchestrator.current(second.id).status == "IN_PROGRESS"
        orchestrated.orchestrator.complete(second.id, OUTPUT)
        assert self.state(orchestrated, second) is TaskState.COMPLETED

    def test_retries_are_counted(self, orchestrated: Orchestrated) -> None:
        first = self.started(orchestrated, retries=1)
        orchestrated.orchestrator.fail(first.id, reason="no luck", terminal=False)
        orchestrated.orchestrator.fail(self.poll(orchestrated).id, reason="no luck", terminal=False)
        assert orchestrated.orchestrator.poll(TASK) is None

    def test_a_terminal_failure_is_not_tried_again(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        orchestrated.orchestrator.fail(attempt.id, reason="never", terminal=True)
        assert orchestrated.orchestrator.poll(TASK) is None
        assert self.state(orchestrated, attempt) is TaskState.ENDED

    def test_a_lease_that_runs_out_hands_out_a_new_task_id(self, orchestrated: Orchestrated) -> None:
        first = self.started(orchestrated)
        orchestrated.let_leases_run_out()
        second = self.poll(orchestrated)
        assert second.id.task_id != first.id.task_id
        orchestrated.orchestrator.complete(first.id, OUTPUT)
        assert self.state(orchestrated, first) is TaskState.ENDED
        assert orchestrated.orchestrator.current(first.id).status != "IN_PROGRESS"

    def test_an_extended_lease_does_not_run_out(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        orchestrated.let_leases_run_out(extended=attempt.id)
        assert orchestrated.orchestrator.poll(TASK) is None
        assert orchestrated.orchestrator.current(attempt.id).status == "IN_PROGRESS"

    def test_an_attempt_of_an_ended_workflow_is_not_current(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        orchestrated.end_workflow(attempt.id.workflow)
        assert orchestrated.orchestrator.current(attempt.id).status != "IN_PROGRESS"
        assert self.state(orchestrated, attempt) is TaskState.ENDED
        assert orchestrated.orchestrator.poll(TASK) is None

    def test_what_nobody_knows_is_not_found(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        fate = orchestrated.orchestrator.fate(attempt.id.workflow, "01NOSUCHTASK", store="workspace")
        assert fate.state is TaskState.NOT_FOUND
        with pytest.raises(NotFound):
            orchestrated.orchestrator.current(replace(attempt.id, task_id="01NOSUCHTASK"))

    def test_a_completion_without_a_store_has_no_accepted_ref(self, orchestrated: Orchestrated) -> None:
        attempt = self.started(orchestrated)
        orchestrated.orchestrator.complete(attempt.id, {"result": {"n": 1}})
        fate = orchestrated.orchestrator.fate(attempt.id.workflow, attempt.id.task_id, store="workspace")
        assert (fate.state, fate.accepted_ref) == (TaskState.COMPLETED, None)

    def test_a_line_can_be_logged(self, orchestrated: Orchestrated) -> None:
        orchestrated.orchestrator.log(self.started(orchestrated).id, "half way")

    def state(self, orchestrated: Orchestrated, attempt: PolledAttempt) -> TaskState:
        return orchestrated.orchestrator.fate(attempt.id.workflow, attempt.id.task_id, store="workspace").state
