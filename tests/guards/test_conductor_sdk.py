"""Our calls to Conductor are those of the official SDK: same method, same path, no parameter or field it does not know.

The SDK sets the start method of multiprocessing when it is imported, so it is asked in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from headgate.orchestrators.conductor import Client, ConductorOrchestrator, Endpoint
from headgate.orchestrators.conductor.taskdefs import Standing, register, server_task_def
from headgate.orchestrators.conductor.workflows import end_workflow, start_workflow, task_log, workflow
from headgate.tasks.protocols import AttemptId

ASK_THE_SDK = """
import json, sys, multiprocessing
before = multiprocessing.get_start_method(allow_none=True)
from conductor.client.configuration.configuration import Configuration
from conductor.client.http.api.metadata_resource_api import MetadataResourceApi
from conductor.client.http.api.task_resource_api import TaskResourceApi
from conductor.client.http.api.workflow_resource_api import WorkflowResourceApi
from conductor.client.http.api_client import ApiClient
from conductor.client.http.models import StartWorkflowRequest, Task, TaskDef, TaskResult

calls = {}
def record(self, path, method, path_params=None, query=None, *args, **kwargs):
    for name, value in (path_params or {}).items():
        path = path.replace("{" + name + "}", str(value))
    calls[now] = [method, path, sorted(name for name, _ in query or ())]
ApiClient.call_api = record
client = ApiClient(Configuration(server_api_url="http://127.0.0.1:1/api"))
tasks, metadata, workflows = TaskResourceApi(client), MetadataResourceApi(client), WorkflowResourceApi(client)
for now, call in {
    "poll": lambda: tasks.batch_poll("t", workerid="w", domain="d", count=1, timeout=100),
    "current": lambda: tasks.get_task("i"),
    "complete": lambda: tasks.update_task(TaskResult("f", "i")),
    "log": lambda: tasks.log("line", "i"),
    "logs": lambda: tasks.get_task_logs("i"),
    "start": lambda: workflows.start_workflow(StartWorkflowRequest(name="f")),
    "workflow": lambda: workflows.get_execution_status("f", include_tasks=True),
    "end": lambda: workflows.terminate("f", reason="r"),
    "task def": lambda: metadata.get_task_def("t"),
    "register": lambda: metadata.register_task_def([TaskDef(name="t")]),
    "change": lambda: metadata.update_task_def(TaskDef(name="t")),
}.items():
    call()
print(json.dumps({
    "calls": calls,
    "result fields": sorted(TaskResult.attribute_map.values()),
    "start fields": sorted(StartWorkflowRequest.attribute_map.values()),
    "task fields": sorted(Task.attribute_map.values()),
    "start method": [before, multiprocessing.get_start_method(allow_none=True)],
}))
"""
ATTEMPT = AttemptId(orchestrator="o", workflow="f", task_id="i", retry_count=0, poll_count=1, worker_id="w")
WORKFLOW = {"workflowId": "f", "status": "RUNNING", "tasks": []}


class Recorder(Client):
    """Our client with its wire cut: it notes what it would send."""

    def __init__(self) -> None:
        super().__init__(Endpoint(url="http://127.0.0.1:1/api"))
        self.sent: tuple[list[Any], set[str]] = ([], set())

    def call(self, method: str, *path: str, query: Any = None, payload: Any = None, **_: Any) -> Any:
        fields = set(payload) if isinstance(payload, dict) else set()
        self.sent = ([method, "/" + "/".join(path), sorted(query or ())], fields)
        return WORKFLOW if path[0] == "workflow" and method == "GET" else []


@pytest.fixture(scope="module")
def sdk() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", ASK_THE_SDK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def on(client: Client) -> ConductorOrchestrator:
    made = ConductorOrchestrator(client, domain="d")
    made.__dict__["id"] = "o"
    return made


OURS: dict[str, Callable[[Client], object]] = {
    "poll": lambda c: on(c).poll("t"),
    "complete": lambda c: on(c).complete(ATTEMPT, {}),
    "log": lambda c: on(c).log(ATTEMPT, "line"),
    "logs": lambda c: task_log(c, "i"),
    "start": lambda c: start_workflow(c, {"name": "f"}, {}),
    "workflow": lambda c: workflow(c, "f"),
    "end": lambda c: end_workflow(c, "f", reason="r"),
    "task def": lambda c: server_task_def(c, "t"),
    "register": lambda c: register(c, {"name": "t"}, Standing.NEW),
    "change": lambda c: register(c, {"name": "t"}, Standing.CHANGED),
}


@pytest.mark.parametrize("name", OURS)
def test_the_call_is_the_official_one(name: str, sdk: dict[str, Any]) -> None:
    client = Recorder()
    OURS[name](client)
    method, path, query = sdk["calls"][name]
    assert client.sent[0][:2] == [method, path]
    assert set(client.sent[0][2]) <= {*query, "reason"}


def test_the_fields_we_send_and_read_are_official(sdk: dict[str, Any]) -> None:
    client = Recorder()
    orchestrator = on(client)
    for send in (
        lambda: orchestrator.complete(ATTEMPT, {}),
        lambda: orchestrator.fail(ATTEMPT, reason="r", terminal=True),
        lambda: orchestrator.extend(ATTEMPT),
    ):
        send()
        assert client.sent[1] <= set(sdk["result fields"])
    start_workflow(client, {"name": "f"}, {}, domain="d")
    assert client.sent[1] <= set(sdk["start fields"])
    read = ["taskId", "status", "inputData", "outputData", "referenceTaskName", "retryCount", "pollCount", "workerId"]
    read += ["seq", "iteration", "workflowInstanceId", "responseTimeoutSeconds", "externalOutputPayloadStoragePath"]
    assert set(read) <= set(sdk["task fields"])


def test_why_the_sdk_is_kept_out_of_our_processes(sdk: dict[str, Any]) -> None:
    """It sets the process's multiprocessing start method by being imported; once it does not, the reason is gone."""
    before, after = sdk["start method"]
    assert before is None
    assert after is not None
