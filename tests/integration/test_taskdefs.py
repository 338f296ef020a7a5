"""A real Conductor server takes our TaskDefs whole, and refuses what a declaration refuses."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import urllib3
from examples.songs import tasks as songs
from tools.servers import Server

from headgate.tasks import ExecutionLimits, RetryPolicy, TaskControls, TimeoutPolicy, tasks_in
from headgate.tasks.taskdef import task_def, task_defs

pytestmark = pytest.mark.real


def ask(conductor: Server, method: str, path: str, body: Any = None) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False, timeout=30.0) as pool:
        return pool.request(method, f"{conductor.facts['api']}/{path}", json=body)


def base() -> dict[str, Any]:
    return copy.deepcopy(task_def(tasks_in(songs)[0]))


def test_the_server_keeps_every_field_we_tell_it(conductor: Server) -> None:
    made = task_defs(tasks_in(songs))
    assert all(one["enforceSchema"] for one in made)
    answer = ask(conductor, "POST", "metadata/taskdefs", made)
    assert answer.status == 200, answer.data
    for one in made:
        kept = ask(conductor, "GET", f"metadata/taskdefs/{one['name']}").json()
        assert {key: without_audit(kept.get(key)) for key in one} == one


def without_audit(value: Any) -> Any:
    # The server adds to a schema when it was made and by whom.
    return (
        {key: inner for key, inner in value.items() if key in ("name", "version", "type", "data")}
        if isinstance(value, dict)
        else value
    )


def test_a_second_registration_changes_it(conductor: Server) -> None:
    changed = base() | {"name": "changed"}
    assert ask(conductor, "POST", "metadata/taskdefs", [changed]).status == 200
    assert ask(conductor, "PUT", "metadata/taskdefs", changed | {"retryCount": 7}).status == 200
    assert ask(conductor, "GET", "metadata/taskdefs/changed").json()["retryCount"] == 7


@pytest.mark.parametrize(
    "change",
    [
        {"responseTimeoutSeconds": 0},
        {"timeoutSeconds": 60, "responseTimeoutSeconds": 61},
        {"name": ""},
        {"retryCount": -1},
        {"pollTimeoutSeconds": -1},
        {"backoffScaleFactor": 0},
        {"retryLogic": "SOMETIMES"},
        {"timeoutPolicy": "WAIT"},
        {"retryDelaySeconds": 2**31},
        {"maxRetryDelaySeconds": -1},
        {"backoffJitterMs": -1},
        {"totalTimeoutSeconds": -1},
    ],
    ids=str,
)
def test_the_server_refuses_what_a_declaration_refuses(conductor: Server, change: dict[str, Any]) -> None:
    answer = ask(conductor, "POST", "metadata/taskdefs", [base() | {"name": "refused"} | change])
    assert 400 <= answer.status < 600, "the declaration is stricter than the server here"


EXTREMES = [
    TaskControls(),
    TaskControls(retry=RetryPolicy(count=0, delay_seconds=0)),
    TaskControls(retry=RetryPolicy(count=10, delay_seconds=2**31 - 1, max_delay_seconds=2**31 - 1)),
    TaskControls(retry=RetryPolicy(logic="LINEAR_BACKOFF", backoff_scale=2**31 - 1, jitter_ms=2**31 - 1)),
    TaskControls(retry=RetryPolicy(logic="EXPONENTIAL_BACKOFF", delay_seconds=1, max_delay_seconds=1)),
    TaskControls(timeout=TimeoutPolicy(seconds=1, response_seconds=1, poll_seconds=1, total_seconds=1)),
    TaskControls(timeout=TimeoutPolicy(policy="ALERT_ONLY", seconds=2**31 - 1, response_seconds=2**31 - 1)),
    TaskControls(timeout=TimeoutPolicy(total_seconds=1)),
    TaskControls(limits=ExecutionLimits(concurrent=2**31 - 1, rate_per_window=2**31 - 1, window_seconds=2**31 - 1)),
]


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "9lives", "x" * 255])
@pytest.mark.parametrize("controls", EXTREMES, ids=range(len(EXTREMES)))
def test_the_server_takes_what_a_declaration_takes(conductor: Server, controls: TaskControls, name: str) -> None:
    made = task_def(replace(tasks_in(songs)[0], controls=controls, name=name))
    answer = ask(conductor, "POST", "metadata/taskdefs", [made])
    assert answer.status == 200, answer.data
    kept = ask(conductor, "GET", f"metadata/taskdefs/{name}").json()
    assert {key: without_audit(kept.get(key)) for key in made} == made
