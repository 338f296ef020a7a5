"""Workflows at a Conductor server: started, looked at, ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headgate.orchestrators.conductor.client import Client

OPEN = ("SCHEDULED", "IN_PROGRESS")
MOST_RUNNING = 100
"""Running workflows that are looked into when all of them are asked for."""
OVER = ("COMPLETED", "FAILED", "TIMED_OUT", "TERMINATED")


@dataclass(frozen=True, kw_only=True)
class ServerTask:
    """A task of a workflow as the server shows it."""

    id: str
    workflow: str
    name: str
    reference: str
    kind: str
    status: str
    retry_count: int
    poll_count: int
    iteration: int
    worker_id: str
    reason: str
    input: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ServerWorkflow:
    """A workflow as the server shows it."""

    id: str
    name: str
    status: str
    reason: str
    created_at: datetime
    input: Mapping[str, Any]
    output: Mapping[str, Any]
    tasks: tuple[ServerTask, ...]

    @property
    def over(self) -> bool:
        return self.status in OVER


def start_workflow(
    client: Client, definition: Mapping[str, Any], given: Mapping[str, Any], *, domain: str | None = None
) -> str:
    """Start a workflow from a definition that need not be registered; its id.

    With a `domain`, its tasks are handed out to the workers of that domain alone.
    """
    version = int(definition.get("version") or 1)
    whole = {"schemaVersion": 2, "timeoutPolicy": "ALERT_ONLY", "timeoutSeconds": 0, **definition, "version": version}
    asked: dict[str, Any] = {"name": whole["name"], "version": version, "input": dict(given), "workflowDef": whole}
    if domain is not None:
        asked["taskToDomain"] = {"*": domain}
    return str(
        client.call(
            *("POST", "workflow"),
            payload=asked,
            doing=f"start the workflow {whole['name']}",
            kind="workflow definition",
            name=str(whole["name"]),
        )
    )


def workflow(client: Client, workflow_id: str) -> ServerWorkflow:
    """A workflow with its tasks, in the order in which they were scheduled. `NotFound` if the server has none."""
    found = client.call(
        *("GET", "workflow", workflow_id),
        query={"includeTasks": "true"},
        repeat=True,
        doing=f"show the workflow {workflow_id}",
        kind="workflow",
        name=workflow_id,
    )
    return ServerWorkflow(
        id=str(found["workflowId"]),
        name=str(found.get("workflowName") or ""),
        status=str(found["status"]),
        reason=str(found.get("reasonForIncompletion") or ""),
        created_at=datetime.fromtimestamp(int(found.get("createTime") or 0) / 1000, UTC),
        input=found.get("input") or {},
        output=found.get("output") or {},
        tasks=tuple(_task(task) for task in found.get("tasks") or ()),
    )


def running_tasks(client: Client) -> list[ServerTask]:
    """What workers have to do or do, in the newest workflows that run."""
    found = client.call(
        *("GET", "workflow", "search"),
        query={"query": "status=RUNNING", "sort": "startTime:DESC", "size": MOST_RUNNING},
        doing="list the workflows that run",
    )
    shown = [workflow(client, str(one["workflowId"])) for one in found.get("results") or ()]
    return [task for one in reversed(shown) for task in one.tasks if task.status in OPEN and task.kind == task.name]


def end_workflow(client: Client, workflow_id: str, *, reason: str) -> None:
    """Terminate a workflow; what its workers still do for it is not accepted any more."""
    client.call(
        *("DELETE", "workflow", workflow_id),
        query={"reason": reason},
        doing=f"end the workflow {workflow_id}",
        kind="workflow",
        name=workflow_id,
    )


def task_log(client: Client, task_id: str) -> list[str]:
    """The lines of a task's log, oldest first."""
    found = client.call("GET", "tasks", task_id, "log", doing=f"show the log of the task {task_id}")
    return [str(line["log"]) for line in sorted(found or (), key=lambda line: int(line.get("createdTime") or 0))]


def _task(found: Mapping[str, Any]) -> ServerTask:
    return ServerTask(
        id=str(found["taskId"]),
        workflow=str(found.get("workflowInstanceId") or ""),
        name=str(found.get("taskDefName") or found.get("taskType") or ""),
        reference=str(found["referenceTaskName"]),
        kind=str(found.get("taskType") or ""),
        status=str(found["status"]),
        retry_count=int(found.get("retryCount") or 0),
        poll_count=int(found.get("pollCount") or 0),
        iteration=int(found.get("iteration") or 0),
        worker_id=str(found.get("workerId") or ""),
        reason=str(found.get("reasonForIncompletion") or ""),
        input=found.get("inputData") or {},
        output=found.get("outputData") or {},
    )
