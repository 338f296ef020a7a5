"""The local orchestrator: the conformance suite, and what it does beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import InvalidInput
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import TaskState
from headgate.tasks.protocols import AttemptId
from headgate.testing.conformance.orchestrator import Orchestrated, OrchestratorConformance


class HandClock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def pass_seconds(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class LocalParts:
    def __init__(self, path: Path) -> None:
        self.clock = HandClock()
        self.orchestrator = LocalOrchestrator(path, clock=self.clock)

    def submit(self, task: str, task_input: Mapping[str, Any], *, retries: int = 1) -> str:
        rule = TaskRule(count=retries, delay_seconds=0, response_seconds=60)
        return self.orchestrator.submit(task, task_input, retry=rule).workflow

    def let_leases_run_out(self, *, extended: AttemptId | None = None) -> None:
        for _ in range(3):
            self.clock.pass_seconds(30)
            if extended is not None:
                self.orchestrator.extend(extended)

    def end_workflow(self, workflow: str) -> None:
        self.orchestrator.cancel(workflow, reason="no longer needed")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[LocalParts]:
    parts = LocalParts(tmp_path / "orchestrator.db")
    yield parts
    parts.orchestrator.close()


class TestConformance(OrchestratorConformance):
    @pytest.fixture
    def orchestrated(self, parts: LocalParts) -> Orchestrated:
        return parts


def test_the_id_is_the_same_for_all_that_open_the_file(parts: LocalParts, tmp_path: Path) -> None:
    again = LocalOrchestrator(tmp_path / "orchestrator.db")
    other = LocalOrchestrator(tmp_path / "other.db")
    assert again.id == parts.orchestrator.id
    assert other.id != parts.orchestrator.id
    again.close()
    other.close()


def test_the_completion_of_an_older_poll_is_not_taken(parts: LocalParts) -> None:
    parts.submit("t", {})
    first = parts.orchestrator.poll("t")
    assert first is not None
    parts.orchestrator.give_back(first.id)
    second = parts.orchestrator.poll("t")
    assert second is not None
    assert second.id.task_id == first.id.task_id
    assert (second.id.poll_count, second.id.worker_id != first.id.worker_id) == (2, True)
    parts.orchestrator.complete(first.id, {"result": {}})
    assert parts.orchestrator.current(second.id).status == "IN_PROGRESS"
    parts.orchestrator.complete(second.id, {"result": {}})
    assert parts.orchestrator.task(second.id.task_id).workflow_status == "COMPLETED"


def test_a_retry_waits_for_its_delay(parts: LocalParts) -> None:
    parts.orchestrator.submit("t", {}, retry=TaskRule(count=1, delay_seconds=5))
    first = parts.orchestrator.poll("t")
    assert first is not None
    parts.orchestrator.fail(first.id, reason="no", terminal=False)
    assert parts.orchestrator.poll("t") is None
    parts.clock.pass_seconds(5)
    assert parts.orchestrator.poll("t") is not None


def test_a_poll_can_ask_for_one_workflow(parts: LocalParts) -> None:
    parts.submit("t", {"n": 1})
    second = parts.submit("t", {"n": 2})
    polled = parts.orchestrator.poll("t", workflow=second)
    assert polled is not None
    assert polled.input == {"n": 2}


def test_a_person_s_retry_ends_the_lease_and_hands_out_at_once(parts: LocalParts) -> None:
    workflow = parts.submit("t", {}, retries=0)
    first = parts.orchestrator.poll("t")
    assert first is not None
    again = parts.orchestrator.retry(first.id.task_id, reason="its worker was killed")
    assert (again.workflow, again.retry_count, again.status) == (workflow, 1, "SCHEDULED")
    assert parts.orchestrator.fate(workflow, first.id.task_id, store="workspace").state is TaskState.ENDED
    second = parts.orchestrator.poll("t")
    assert second is not None
    parts.orchestrator.fail(second.id, reason="no", terminal=True)
    assert parts.orchestrator.task(second.id.task_id).workflow_status == "FAILED"
    third = parts.orchestrator.retry(second.id.task_id, reason="the code is mended")
    assert (third.workflow_status, third.retry_count) == ("RUNNING", 2)


def test_a_person_s_retry_leaves_completed_work_alone(parts: LocalParts) -> None:
    parts.submit("t", {})
    first = parts.orchestrator.poll("t")
    assert first is not None
    parts.orchestrator.complete(first.id, {"result": {}})
    assert parts.orchestrator.retry(first.id.task_id, reason="again").status == "COMPLETED"
    assert parts.orchestrator.poll("t") is None


def test_input_that_is_not_json_is_refused(parts: LocalParts) -> None:
    with pytest.raises(InvalidInput, match="not JSON"):
        parts.orchestrator.submit("t", {"x": {1, 2}})
    with pytest.raises(InvalidInput, match="not JSON"):
        parts.orchestrator.submit("t", {"x": float("nan")})


def test_running_tasks_and_logs_are_listed(parts: LocalParts) -> None:
    parts.submit("t", {})
    done = parts.orchestrator.poll("t")
    assert done is not None
    parts.orchestrator.log(done.id, "half way")
    parts.orchestrator.complete(done.id, {"result": {}})
    waiting = parts.submit("t", {})
    assert [task.workflow for task in parts.orchestrator.tasks(running=True)] == [waiting]
    assert len(parts.orchestrator.tasks()) == 2
    assert parts.orchestrator.logs(done.id.task_id) == ["half way"]
