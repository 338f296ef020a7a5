"""Run a case to its end: on a Conductor server, and on the embedded engine; what there is to see of it afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import urllib3
from tests.integration.differential.cases import NOBODY, Case, Turn

from headgate.orchestrators.engine.rules import TaskRule
from headgate.orchestrators.local import LocalOrchestrator

OWNER = "songs@example.org"
WITHIN = 120.0
AT_A_TIME = 6


@dataclass(frozen=True, order=True)
class Attempt:
    """One attempt at a task, as it ended."""

    reference: str
    iteration: int
    retry_count: int
    status: str
    waited: float
    """Seconds it was held back."""
    input: str
    output: str


@dataclass(frozen=True)
class Seen:
    """A workflow after its end."""

    status: str
    output: Mapping[str, Any]
    attempts: Sequence[Attempt]


def told(value: Any) -> str:
    """A value in one spelling."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class OnConductor:
    """Runs any number of cases at the same time."""

    def __init__(self, api: str) -> None:
        self._api, self._pool = api, urllib3.PoolManager(AT_A_TIME, retries=False, timeout=30.0)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._pool.request(method, f"{self._api}/{path}", json=body)
        assert answer.status in (200, 204), f"{method} {path}: {answer.status} {answer.data!r}"
        try:
            return answer.json() if answer.data else None
        except ValueError:
            return answer.data.decode()

    def run(self, cases: Sequence[Case]) -> dict[str, Seen]:
        """Several at a time; the time limits of a case begin when its turn comes."""
        self.ask("POST", "metadata/taskdefs", [one for case in cases for one in _task_defs(case)])
        self.ask("PUT", "metadata/workflow", [_own(case) for case in cases])
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return dict(zip((case.name for case in cases), pool.map(self._run, cases), strict=True))

    def _run(self, case: Case) -> Seen:
        workflow = self.ask("POST", f"workflow/{case.name}", dict(case.given))
        deadline = time.monotonic() + WITHIN
        while True:
            for polled in self._polled(case):
                self._answer(case, polled)
            # The server looks at time limits now and then; asked, it looks at once.
            self.ask("PUT", f"workflow/decide/{workflow}")
            now = self.ask("GET", f"workflow/{workflow}?includeTasks=true")
            if now["status"] != "RUNNING":
                return _seen(case, now)
            assert time.monotonic() < deadline, f"{case.name} still runs"
            time.sleep(0.02)

    def _polled(self, case: Case) -> Iterator[Any]:
        for name in {one["name"] for one in _task_defs(case)} - {f"{case.name}_{NOBODY}"}:
            yield from self.ask("GET", f"tasks/poll/batch/{name}?count=10&timeout=0&workerid=w") or []

    def _answer(self, case: Case, polled: Any) -> None:
        turn = Turn(
            reference=_reference(polled),
            iteration=polled["iteration"],
            retry_count=polled["retryCount"],
            input=polled["inputData"],
        )
        given = case.answer(turn)
        if given.status is not None:
            result = {
                "taskId": polled["taskId"],
                "workflowInstanceId": polled["workflowInstanceId"],
                "status": given.status,
                "outputData": dict(given.output),
                "workerId": "w",
            }
            self.ask("POST", "tasks", result)


def _seen(case: Case, workflow: Any) -> Seen:
    attempts = [
        Attempt(
            reference=_reference(task),
            iteration=task["iteration"],
            retry_count=task["retryCount"],
            status=case.shown(_reference(task), task["status"]),
            waited=task["startDelayInSeconds"],
            input=told(task["inputData"]),
            output=told(task["outputData"]),
        )
        for task in workflow["tasks"]
        if task["workflowTask"]["type"] == "SIMPLE"
    ]
    return Seen(workflow["status"], workflow["output"], sorted(attempts))


def _reference(task: Mapping[str, Any]) -> str:
    return str(task["referenceTaskName"]).removesuffix(f"__{task['iteration']}" if task["iteration"] else "")


def _own(case: Case) -> Any:
    """The definition under the case's own task names: cases run side by side and poll by name."""

    def named(raw: Any) -> Any:
        if isinstance(raw, list):
            return [named(one) for one in raw]
        if not isinstance(raw, dict):
            return raw
        inner = {
            key: named(value) if key in ("tasks", "forkTasks", "loopOver", "defaultCase") else value
            for key, value in raw.items()
        }
        if "decisionCases" in raw:
            inner["decisionCases"] = {key: named(steps) for key, steps in raw["decisionCases"].items()}
        if raw.get("type") == "SIMPLE":
            inner["name"] = f"{case.name}_{raw['name']}"
        return inner

    return {
        "ownerEmail": OWNER,
        "schemaVersion": 2,
        "timeoutSeconds": 0,
        "timeoutPolicy": "ALERT_ONLY",
        **named(case.definition),
    }


def _names(raw: Any) -> Iterator[str]:
    if isinstance(raw, dict):
        if raw.get("type") == "SIMPLE":
            yield raw["name"]
        for value in raw.values():
            yield from _names(value)
    elif isinstance(raw, list):
        for value in raw:
            yield from _names(value)


def _task_defs(case: Case) -> list[dict[str, Any]]:
    return [task_def(f"{case.name}_{name}", case.rule(name)) for name in sorted(set(_names(case.definition)))]


def task_def(name: str, rule: TaskRule) -> dict[str, Any]:
    return {
        "name": name,
        "ownerEmail": OWNER,
        "retryCount": rule.count,
        "retryLogic": rule.logic,
        "retryDelaySeconds": int(rule.delay_seconds),
        "maxRetryDelaySeconds": int(rule.max_delay_seconds),
        "backoffScaleFactor": rule.backoff_scale,
        "timeoutPolicy": rule.policy,
        "timeoutSeconds": int(rule.seconds),
        "responseTimeoutSeconds": int(rule.response_seconds),
        "pollTimeoutSeconds": int(rule.poll_seconds),
        "totalTimeoutSeconds": int(rule.total_seconds),
    }


class HandClock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


def on_engine(case: Case, folder: Path) -> Seen:
    """Time passes by hand: a second whenever nothing can be done."""
    clock = HandClock()
    rules = {name: case.rule(name) for name in set(_names(case.definition))}
    with closing(LocalOrchestrator(folder / f"{case.name}.db", clock=clock, durable=False)) as engine:
        workflow = engine.start(case.definition, case.given, rules=rules).id
        for _ in range(1000):
            names = [*(set(rules) - {NOBODY}), "no such task"]
            polled = next((one for name in names if (one := engine.poll(name)) is not None), None)
            record = engine.workflow(workflow)
            if record.over:
                break
            if polled is None:
                clock.at += timedelta(seconds=1)
                continue
            turn = Turn(
                reference=polled.reference_task,
                iteration=polled.iteration,
                retry_count=polled.id.retry_count,
                input=polled.input,
            )
            given = case.answer(turn)
            if given.status == "COMPLETED":
                engine.complete(polled.id, given.output)
            elif given.status is not None:
                engine.fail(polled.id, reason="no", terminal=given.status != "FAILED")
        attempts = [
            Attempt(
                reference=task.reference,
                iteration=task.iteration,
                retry_count=task.retry_count,
                status=case.shown(task.reference, task.status),
                waited=(task.due_at - task.scheduled_at).total_seconds(),
                input=told(task.input),
                output=told(task.output or {}),
            )
            for task in engine.tasks(workflow=workflow)
        ]
        return Seen(record.status, record.output or {}, sorted(attempts))
