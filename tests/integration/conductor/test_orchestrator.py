"""A real Conductor server does what every orchestrator must, and what we know of it beyond that stays so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from tools.servers import Server

from headgate.attempts.fence import check_current
from headgate.errors import InvalidSettings, StaleAttemptError, Transient
from headgate.ids import ULIDS
from headgate.orchestrators.conductor import Client, ConductorOrchestrator, Endpoint
from headgate.orchestrators.conductor.identity import DEFINITION
from headgate.orchestrators.conductor.workflows import end_workflow, start_workflow, task_log, workflow
from headgate.tasks.protocols import AttemptId, PolledAttempt
from headgate.testing.conformance.orchestrator import Orchestrated, OrchestratorConformance

pytestmark = pytest.mark.real

LEASE = 3
TASK = "conductor_task"


def task_def(name: str, *, retries: int = 1, lease: int = 600) -> dict[str, Any]:
    return {
        "name": name,
        "ownerEmail": "tests@example.com",
        "retryCount": retries,
        "retryLogic": "FIXED",
        "retryDelaySeconds": 0,
        "timeoutSeconds": 0,
        "timeoutPolicy": "RETRY",
        "responseTimeoutSeconds": lease,
    }


def one_task(task: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A workflow of one task that carries its own TaskDef."""
    inputs = {key: f"${{workflow.input.{key}}}" for key in given}
    only = {"name": task["name"], "taskReferenceName": "only", "inputParameters": inputs, "taskDefinition": task}
    return {"name": f"one_{task['name']}", "ownerEmail": "tests@example.com", "tasks": [{**only, "type": "SIMPLE"}]}


class ConductorParts:
    def __init__(self, client: Client, domain: str) -> None:
        self.client, self.domain = client, domain
        self.orchestrator = Patient(client, domain=domain)
        self.workflows: list[str] = []

    def submit(self, task: str, task_input: Mapping[str, Any], *, retries: int = 1) -> str:
        made = one_task(task_def(task, retries=retries, lease=LEASE), task_input)
        self.workflows.append(start_workflow(self.client, made, task_input, domain=self.domain))
        return self.workflows[-1]

    def let_leases_run_out(self, *, extended: AttemptId | None = None) -> None:
        if extended is None:
            until(lambda: any(one.status == "TIMED_OUT" for one in workflow(self.client, self.workflows[-1]).tasks))
            return
        for _ in range(4):
            threading.Event().wait(LEASE / 2)
            self.orchestrator.extend(extended)

    def end_workflow(self, workflow: str) -> None:
        end_workflow(self.client, workflow, reason="no longer needed")


class Patient(ConductorOrchestrator):
    """Gives the server the time it takes to schedule a retry."""

    def poll(self, task_name: str, *, wait: float = 1.0) -> PolledAttempt | None:
        return super().poll(task_name, wait=wait)


def until(holds: Callable[[], bool], *, within: float = 60.0) -> None:
    pause = threading.Event()
    for _ in range(int(within / 0.1)):
        if holds():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come to that")


class TestConformance(OrchestratorConformance):
    @pytest.fixture
    def orchestrated(self, client: Client, domain: str) -> Orchestrated:
        return ConductorParts(client, domain)


@pytest.fixture
def parts(client: Client, domain: str) -> ConductorParts:
    return ConductorParts(client, domain)


def started(parts: ConductorParts) -> PolledAttempt:
    parts.workflows.append(start_workflow(parts.client, one_task(task_def(TASK), {}), {}, domain=parts.domain))
    polled = parts.orchestrator.poll(TASK)
    assert polled is not None
    return polled


def test_all_workers_of_a_server_know_it_by_one_name(client: Client, conductor: Server) -> None:
    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(lambda _: ConductorOrchestrator(client).id, range(4)))
    with closing(Client(Endpoint(url=conductor.facts["api"].replace("127.0.0.1", "localhost")))) as elsewhere:
        assert names == {ConductorOrchestrator(elsewhere).id}
    assert client.call("GET", "metadata", "workflow", DEFINITION, doing="look")["description"] in names


def test_an_extension_does_not_put_the_task_back(parts: ConductorParts) -> None:
    attempt = started(parts)
    parts.orchestrator.extend(attempt.id)
    assert parts.orchestrator.poll(TASK) is None
    check_current(parts.orchestrator, attempt.id)


def test_a_task_that_came_back_is_another_attempt_under_the_same_task_id(parts: ConductorParts) -> None:
    first = started(parts)
    parts.orchestrator._update(first.id, "IN_PROGRESS", "give back the task")
    second = parts.orchestrator.poll(TASK)
    assert second is not None
    assert (second.id.task_id, second.id.poll_count) == (first.id.task_id, 2)
    with pytest.raises(StaleAttemptError, match="poll_count 2, not 1"):
        check_current(parts.orchestrator, first.id)
    parts.orchestrator.fail(second.id, reason="not the first poll", terminal=False)
    third = parts.orchestrator.poll(TASK)
    assert third is not None
    assert third.id.task_id != first.id.task_id
    parts.orchestrator.complete(first.id, {"result": {}})
    assert parts.orchestrator.current(first.id).status == "FAILED"


def test_a_rerun_reuses_the_task_id_and_its_counts_and_the_fence_tells_them_apart(parts: ConductorParts) -> None:
    """Invariant 2: the worker id of a poll is what a rerun does not repeat."""
    first = started(parts)
    parts.orchestrator.complete(first.id, {"result": {}})
    parts.client.call(
        *("POST", "workflow", first.id.workflow, "rerun"),
        payload={"reRunFromWorkflowId": first.id.workflow, "reRunFromTaskId": first.id.task_id},
        doing="rerun",
    )
    second = parts.orchestrator.poll(TASK)
    assert second is not None
    assert replace(second.id, worker_id="") == replace(first.id, worker_id="", workflow=second.id.workflow)
    parts.orchestrator.extend(first.id)  # a late heartbeat of the old poll
    check_current(parts.orchestrator, second.id)
    with pytest.raises(StaleAttemptError):
        check_current(parts.orchestrator, first.id)


def test_lines_reach_the_log_of_the_task(parts: ConductorParts) -> None:
    attempt = started(parts)
    parts.orchestrator.log(attempt.id, "half way, 50 % \N{CHECK MARK}\nand on")
    until(lambda: task_log(parts.client, attempt.id.task_id) == ["half way, 50 % \N{CHECK MARK}\nand on"])


def test_a_domain_has_queues_of_its_own(parts: ConductorParts) -> None:
    parts.workflows.append(start_workflow(parts.client, one_task(task_def(TASK), {}), {}, domain=parts.domain))
    assert Patient(parts.client, domain=ULIDS.new()).poll(TASK) is None
    assert parts.orchestrator.poll(TASK) is not None


def test_a_server_that_is_down_is_told_by_its_address() -> None:
    with pytest.raises(Transient, match="no Conductor answers at http://127.0.0.1:9/api"):
        Client(Endpoint(url="http://127.0.0.1:9/api")).version()


def test_an_address_without_the_api_is_told(conductor: Server) -> None:
    with pytest.raises(InvalidSettings, match="there is no Conductor API at"):
        Client(Endpoint(url=f"{conductor.url}/nowhere")).version()
