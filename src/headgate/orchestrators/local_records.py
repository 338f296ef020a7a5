"""What the local orchestrator knows of a task id and of a workflow, and how rows hold it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from headgate.errors import InvalidInput
from headgate.orchestrators.engine.definitions import read_definition
from headgate.orchestrators.engine.rules import TaskRule, rules_from_text
from headgate.orchestrators.engine.scheduler import RUNNING_STATES, TaskView, WorkflowState
from headgate.orchestrators.engine.steps import WorkflowDefinition


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """All the orchestrator knows of one task id."""

    id: str
    workflow: str
    workflow_status: str
    name: str
    reference: str
    seq: int
    iteration: int
    retry_count: int
    status: str
    input: Mapping[str, Any]
    output: Mapping[str, Any] | None
    reason: str
    poll_count: int
    worker_id: str | None
    scheduled_at: datetime
    due_at: datetime
    started_at: datetime | None
    lease_until: datetime | None
    ended_at: datetime | None

    @property
    def over(self) -> bool:
        return self.status not in RUNNING_STATES


@dataclass(frozen=True, kw_only=True)
class WorkflowRecord:
    """All the orchestrator knows of one workflow, its tasks aside."""

    id: str
    name: str
    status: str
    reason: str
    definition: Mapping[str, Any]
    modules: tuple[str, ...]
    input: Mapping[str, Any]
    output: Mapping[str, Any] | None
    epoch: int
    created_at: datetime
    ended_at: datetime | None

    @property
    def over(self) -> bool:
        return self.status != "RUNNING"


def task_record(row: sqlite3.Row) -> TaskRecord:
    return TaskRecord(
        id=row["id"],
        workflow=row["workflow"],
        workflow_status=row["workflow_status"],
        name=row["name"],
        reference=row["reference"],
        seq=row["seq"],
        iteration=row["iteration"],
        retry_count=row["retry_count"],
        status=row["status"],
        input=json.loads(row["input"]),
        output=json.loads(row["output"]) if row["output"] else None,
        reason=row["reason"],
        poll_count=row["poll_count"],
        worker_id=row["worker_id"],
        scheduled_at=datetime.fromisoformat(row["scheduled_at"]),
        due_at=datetime.fromisoformat(row["due_at"]),
        started_at=_time(row["started_at"]),
        lease_until=_time(row["lease_until"]),
        ended_at=_time(row["ended_at"]),
    )


def workflow_record(row: sqlite3.Row) -> WorkflowRecord:
    return WorkflowRecord(
        id=row["id"],
        name=row["name"],
        status=row["status"],
        reason=row["reason"],
        definition=json.loads(row["definition"]),
        modules=tuple(json.loads(row["modules"])),
        input=json.loads(row["input"]),
        output=json.loads(row["output"]) if row["output"] else None,
        epoch=row["epoch"],
        created_at=datetime.fromisoformat(row["created_at"]),
        ended_at=_time(row["ended_at"]),
    )


@lru_cache(maxsize=64)
def definition_in(text: str) -> WorkflowDefinition:
    """A definition that was checked before it was kept."""
    return read_definition(json.loads(text))


@lru_cache(maxsize=64)
def rules_in(text: str) -> dict[str, TaskRule]:
    return rules_from_text(text)


def state_of(workflow: sqlite3.Row, tasks: list[sqlite3.Row], now: datetime) -> WorkflowState:
    """What the scheduler decides from."""
    rules = rules_in(workflow["rules"])

    def out_of_time(row: sqlite3.Row) -> bool:
        rule = rules.get(row["name"])
        if rule is None or not rule.total_seconds:
            return False
        return (
            now - datetime.fromisoformat(row["first_at"] or row["scheduled_at"])
        ).total_seconds() >= rule.total_seconds

    return WorkflowState(
        workflow=workflow["id"],
        input=json.loads(workflow["input"]),
        tasks=[
            TaskView(
                id=row["id"],
                reference=row["reference"],
                name=row["name"],
                status=row["status"],
                iteration=row["iteration"],
                retry_count=row["retry_count"],
                retry_limit=row["retry_limit"],
                input=json.loads(row["input"]),
                output=json.loads(row["output"]) if row["output"] else {},
                reason=row["reason"],
                out_of_time=out_of_time(row),
            )
            for row in tasks
        ],
    )


def stamp(at: datetime) -> str:
    """Fixed width, so that the order of the text is the order in time."""
    return at.isoformat(timespec="microseconds")


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def dumped(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidInput(message=f"not JSON: {error}", hint="use text, numbers, lists and maps") from error
