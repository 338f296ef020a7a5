"""Conductor as an `Orchestrator`: attempts polled from its queues, results reported to it.

The server takes updates and lease extensions of finished tasks without a word, and completions of an older poll: its
answers prove nothing, and who wants to know reads the task again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import HeadgateError, NotFound, OrchestratorStatus, Unsupported
from headgate.ids import ULIDS, IdSource
from headgate.orchestrators.conductor.client import Client
from headgate.orchestrators.conductor.identity import server_id
from headgate.orchestrators.conductor.workflows import OPEN
from headgate.publication import Ref, TaskFate, TaskState
from headgate.tasks.protocols import AttemptId, AttemptSnapshot, PolledAttempt

_EXTRA_SECONDS = 5.0
"""How much longer than the server waits for a task we wait for its answer."""


class ConductorOrchestrator:
    """Implements `Orchestrator` on a Conductor server; safe to use from several threads."""

    def __init__(
        self, client: Client, *, domain: str | None = None, clock: Clock = SYSTEM_CLOCK, ids: IdSource = ULIDS
    ) -> None:
        self.client, self._domain, self._clock, self._ids = client, domain, clock, ids

    @cached_property
    def id(self) -> str:
        return server_id(self.client, self._ids)

    def id_now(self) -> str:
        """The server's id, asked for again: one that lost its database has another."""
        return server_id(self.client, self._ids)

    def close(self) -> None:
        self.client.close()

    # handing out
    def poll(self, task_name: str, *, wait: float = 0.1) -> PolledAttempt | None:
        """The next attempt of that task under a fresh worker id; the server waits so many seconds for one to come.

        An answer that is lost may have handed out an attempt: nobody works on it, and its lease runs out.
        """
        worker_id, orchestrator = self._ids.new(), self.id
        query: dict[str, str | int] = {"workerid": worker_id, "count": 1, "timeout": int(wait * 1000)}
        if self._domain is not None:
            query["domain"] = self._domain
        handed_out = self.client.call(
            *("GET", "tasks", "poll", "batch", task_name),
            query=query,
            doing=f"hand out the task {task_name}",
            timeout=wait + _EXTRA_SECONDS,
        )
        if not handed_out:
            return None
        task = handed_out[0]
        return PolledAttempt(
            id=_identity(task, orchestrator),
            task_name=task_name,
            reference_task=_reference(task),
            input=task.get("inputData") or {},
            seq=int(task.get("seq") or 0),
            iteration=int(task.get("iteration") or 0),
            response_seconds=float(task.get("responseTimeoutSeconds") or 0) or 600.0,
            polled_at=self._clock.now(),
        )

    def extend(self, attempt: AttemptId) -> None:
        # Without `extendLease` the server would put the task back into its queue.
        self._update(attempt, "IN_PROGRESS", "extend the lease of the task", extendLease=True)

    # asking
    def current(self, attempt: AttemptId) -> AttemptSnapshot:
        task = self._task(attempt.task_id)
        return AttemptSnapshot(id=_identity(task, self.id), status=str(task["status"]), output=_output(task))

    def fate(self, workflow: str, task_id: str, *, store: str) -> TaskFate:
        task: dict[str, Any] | None
        try:
            task = self._task(task_id)
        except NotFound:
            task = self._archived(workflow, task_id)
        if task is None or task.get("workflowInstanceId") != workflow:
            return TaskFate(state=TaskState.NOT_FOUND)
        if task["status"] in OPEN:
            return TaskFate(state=TaskState.RUNNING)
        if task["status"] != OrchestratorStatus.COMPLETED:
            return TaskFate(state=TaskState.ENDED)
        block = _output(task).get(store)
        ref = block.get("ref") if isinstance(block, dict) else None
        return TaskFate(state=TaskState.COMPLETED, accepted_ref=Ref(ref) if isinstance(ref, str) else None)

    # ending
    def complete(self, attempt: AttemptId, output: Mapping[str, Any]) -> None:
        self._update(attempt, OrchestratorStatus.COMPLETED, "take the completion of the task", outputData=dict(output))

    def fail(self, attempt: AttemptId, *, reason: str, terminal: bool) -> None:
        status = OrchestratorStatus.TERMINAL if terminal else OrchestratorStatus.FAILED
        self._update(attempt, status, "take the failure of the task", reasonForIncompletion=reason)

    def log(self, attempt: AttemptId, line: str) -> None:
        self.client.call(
            *("POST", "tasks", attempt.task_id, "log"),
            text=line,
            doing=f"keep a line of the log of the task {attempt.task_id}",
        )

    # the wire
    def _update(self, attempt: AttemptId, status: str, doing: str, **fields: Any) -> None:
        told = {
            "taskId": attempt.task_id,
            "workflowInstanceId": attempt.workflow,
            "workerId": attempt.worker_id,
            "status": status,
            **fields,
        }
        self.client.call(
            *("POST", "tasks"), payload=told, doing=f"{doing} {attempt.task_id}", kind="task", name=attempt.task_id
        )

    def _task(self, task_id: str) -> dict[str, Any]:
        found = self.client.call(
            *("GET", "tasks", task_id), doing=f"show the task {task_id}", kind="task", name=task_id, repeat=True
        )
        if not isinstance(found, dict):
            raise NotFound(
                message=f"Conductor shows no task {task_id}",
                hint=f"look for it at {self.client.name}",
                kind="task",
                name=task_id,
            )
        return found

    def _archived(self, workflow: str, task_id: str) -> dict[str, Any] | None:
        """A task of a workflow that the server has moved to its archive, where single tasks are not found."""
        try:
            found = self.client.call(
                *("GET", "workflow", workflow),
                query={"includeTasks": "true"},
                repeat=True,
                doing=f"show the workflow {workflow}",
                kind="workflow",
                name=workflow,
            )
        except NotFound:
            return None
        tasks = found.get("tasks", []) if isinstance(found, dict) else []
        return next((task for task in tasks if task.get("taskId") == task_id), None)


def _identity(task: Mapping[str, Any], orchestrator: str) -> AttemptId:
    return AttemptId(
        orchestrator=orchestrator,
        workflow=str(task["workflowInstanceId"]),
        task_id=str(task["taskId"]),
        retry_count=int(task.get("retryCount") or 0),
        poll_count=int(task.get("pollCount") or 0),
        worker_id=str(task.get("workerId") or ""),
    )


def _reference(task: Mapping[str, Any]) -> str:
    """The name in the workflow definition; the server adds the iteration to it in a loop."""
    name, iteration = str(task["referenceTaskName"]), int(task.get("iteration") or 0)
    return name.removesuffix(f"__{iteration}") if iteration else name


def _output(task: Mapping[str, Any]) -> dict[str, Any]:
    if task.get("externalOutputPayloadStoragePath"):
        raise _elsewhere(str(task.get("taskId")))
    return dict(task.get("outputData") or {})


def _elsewhere(task_id: str) -> HeadgateError:
    return Unsupported(
        message=f"the server keeps the output of the task {task_id} in its external payload storage",
        hint="raise conductor.app.taskOutputPayloadSizeThreshold: what a task was accepted with must be readable",
    )
