"""What happened on this machine: every attempt with its phases, every publish with its time, what was abandoned.

For people and for the publish budget. No decision about a head rests on it, so a record that cannot be written is
logged and costs nothing else.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from headgate.database import Database
from headgate.errors import HeadgateError, NotFound
from headgate.publication import observed

log = logging.getLogger(__name__)

_PUBLISHES_LOOKED_AT = 1000
"""The newest so many publishes of a task make its p50 and p99: older ones may be of another store."""

KEPT_RECORDS = 100_000
"""How many attempts `headgate gc` leaves on record."""

NOT_REPORTED = "NOT REPORTED"
"""The status of an attempt that is over and was not reported: nobody wanted it, or nobody could be told."""

MIGRATIONS = (
    """
    CREATE TABLE attempts (
        execution TEXT PRIMARY KEY,
        orchestrator TEXT NOT NULL,
        workflow TEXT NOT NULL,
        module TEXT NOT NULL,
        task TEXT NOT NULL,
        reference_task TEXT NOT NULL,
        task_id TEXT NOT NULL,
        retry_count INTEGER NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        status TEXT NOT NULL DEFAULT '',
        phase TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '',
        reason TEXT NOT NULL DEFAULT '',
        move TEXT NOT NULL DEFAULT '',
        why TEXT NOT NULL DEFAULT '',
        strength TEXT NOT NULL DEFAULT '',
        input TEXT NOT NULL,
        output TEXT,
        phases TEXT NOT NULL DEFAULT '[]',
        changes TEXT NOT NULL DEFAULT '[]',
        kept_at TEXT
    );
    CREATE INDEX attempts_by_time ON attempts (started_at);
    CREATE INDEX attempts_by_task_id ON attempts (task_id);
    CREATE TABLE publishes (
        execution TEXT PRIMARY KEY,
        task TEXT NOT NULL,
        store TEXT NOT NULL,
        move TEXT NOT NULL,
        strength TEXT NOT NULL,
        seconds REAL NOT NULL,
        at TEXT NOT NULL
    );
    CREATE INDEX publishes_of_task ON publishes (task, at);
    CREATE TABLE abandoned (
        execution TEXT PRIMARY KEY,
        store TEXT NOT NULL,
        branch TEXT NOT NULL,
        ref TEXT NOT NULL,
        input_ref TEXT NOT NULL,
        reason TEXT NOT NULL,
        at TEXT NOT NULL
    );
    CREATE TABLE rewinds (
        store TEXT NOT NULL,
        branch TEXT NOT NULL,
        from_ref TEXT NOT NULL,
        to_ref TEXT NOT NULL,
        who TEXT NOT NULL,
        why TEXT NOT NULL,
        at TEXT NOT NULL
    );
    """,
)


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """One attempt as it was recorded. `status` is empty while it runs, and for good if its worker died."""

    execution: str
    orchestrator: str
    workflow: str
    module: str
    task: str
    reference_task: str
    task_id: str
    retry_count: int
    started_at: datetime
    input: Mapping[str, Any]
    ended_at: datetime | None = None
    status: str = ""
    phase: str = ""
    error: str = ""
    reason: str = ""
    move: str = ""
    why: str = ""
    strength: str = ""
    output: Mapping[str, Any] | None = None
    phases: Sequence[tuple[str, float]] = ()
    changes: Sequence[str] = ()
    """Changed paths, each with its kind before it; bounded."""
    kept_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class AbandonedRecord:
    """A publication that the orchestrator did not accept, with everything needed to find it."""

    execution: str
    store: str
    branch: str
    ref: str
    input_ref: str
    reason: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class RewindRecord:
    store: str
    branch: str
    from_ref: str
    to_ref: str
    who: str
    why: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class PublishTimes:
    """How long the publishes of a task took."""

    task: str
    count: int
    p50: float
    p99: float


class AttemptRecords:
    """Kept in one SQLite file; several processes may write it."""

    def __init__(self, path: Path) -> None:
        self._db = Database(path, what="the record of attempts", migrations=MIGRATIONS, durable=False)

    def close(self) -> None:
        self._db.close()

    def began(self, record: AttemptRecord) -> None:
        self._put(
            "INSERT INTO attempts (execution, orchestrator, workflow, module, task, reference_task, task_id,"
            " retry_count, started_at, input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record.execution,
                record.orchestrator,
                record.workflow,
                record.module,
                record.task,
                record.reference_task,
                record.task_id,
                record.retry_count,
                record.started_at.isoformat(),
                _json(record.input),
            ),
        )

    def ended(self, record: AttemptRecord) -> None:
        self._put(
            "UPDATE attempts SET ended_at = ?, status = ?, phase = ?, error = ?, reason = ?, move = ?, why = ?,"
            " strength = ?, output = ?, phases = ?, changes = ?, kept_at = ? WHERE execution = ?",
            (
                record.ended_at.isoformat() if record.ended_at else None,
                record.status,
                record.phase,
                record.error,
                record.reason,
                record.move,
                record.why,
                record.strength,
                None if record.output is None else _json(record.output),
                _json([list(phase) for phase in record.phases]),
                _json(list(record.changes)),
                record.kept_at,
                record.execution,
            ),
        )

    def died(self, execution: str, *, status: str | None, phase: str, reason: str, at: datetime) -> None:
        """End the record of an attempt whose process is gone; one that had ended stays as it was."""
        self._put(
            "UPDATE attempts SET ended_at = ?, status = ?, phase = ?, reason = ? WHERE execution = ? AND status = ''",
            (at.isoformat(), status or NOT_REPORTED, phase, reason, execution),
        )

    def published(
        self, *, execution: str, task: str, store: str, move: str, strength: str, seconds: float, at: datetime
    ) -> None:
        self._put(
            "INSERT OR REPLACE INTO publishes VALUES (?, ?, ?, ?, ?, ?, ?)",
            (execution, task, store, move, strength, seconds, at.isoformat()),
        )

    def abandoned(self, record: AbandonedRecord) -> None:
        self._put(
            "INSERT OR REPLACE INTO abandoned VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                record.execution,
                record.store,
                record.branch,
                record.ref,
                record.input_ref,
                record.reason,
                record.at.isoformat(),
            ),
        )

    def rewound(self, record: RewindRecord) -> None:
        """Unlike the others this one must be written: it is raised if it cannot be."""
        with self._db.write() as rows:
            rows.execute(
                "INSERT INTO rewinds VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    record.store,
                    record.branch,
                    record.from_ref,
                    record.to_ref,
                    record.who,
                    record.why,
                    record.at.isoformat(),
                ),
            )

    def attempts(self, *, limit: int = 50, task: str | None = None) -> list[AttemptRecord]:
        """Newest first."""
        with self._db.read() as rows:
            found = rows.execute(
                "SELECT * FROM attempts WHERE (? IS NULL OR task = ?) ORDER BY started_at DESC, execution DESC LIMIT ?",
                (task, task, limit),
            ).fetchall()
        return [_attempt(row) for row in found]

    def attempt(self, name: str) -> AttemptRecord:
        """By execution id, or by the unambiguous beginning of one; by task id, its last execution."""
        with self._db.read() as rows:
            found = rows.execute(
                "SELECT * FROM attempts WHERE execution = ? OR task_id = ? OR substr(execution, 1, ?) = ?"
                " ORDER BY started_at DESC LIMIT 3",
                (name, name, len(name), name),
            ).fetchall()
        exact = [row for row in found if name in (row["execution"], row["task_id"])]
        if exact:
            return _attempt(exact[0])
        if len(found) != 1:
            several = ", ".join(row["execution"] for row in found)
            raise NotFound(
                message=f"{name!r} begins several attempts: {several}" if found else f"no attempt is called {name!r}",
                hint="`headgate attempts` lists those recorded on this machine",
                kind="attempt",
                name=name,
            )
        return _attempt(found[0])

    def publish_times(self, task: str) -> PublishTimes | None:
        """p50 and p99 of a task's recorded publishes; None where there are none."""
        with self._db.read() as rows:
            found = rows.execute(
                "SELECT seconds FROM publishes WHERE task = ? ORDER BY at DESC LIMIT ?", (task, _PUBLISHES_LOOKED_AT)
            )
            seconds = [float(row["seconds"]) for row in found]
        if not seconds:
            return None
        p50, p99 = observed(seconds)
        return PublishTimes(task=task, count=len(seconds), p50=p50, p99=p99)

    def published_tasks(self) -> list[str]:
        with self._db.read() as rows:
            return [row["task"] for row in rows.execute("SELECT DISTINCT task FROM publishes ORDER BY task")]

    def abandoned_publications(self) -> list[AbandonedRecord]:
        with self._db.read() as rows:
            found = rows.execute("SELECT * FROM abandoned ORDER BY at").fetchall()
        return [AbandonedRecord(**{**dict(row), "at": datetime.fromisoformat(row["at"])}) for row in found]

    def rewinds(self) -> list[RewindRecord]:
        with self._db.read() as rows:
            found = rows.execute("SELECT * FROM rewinds ORDER BY at").fetchall()
        return [RewindRecord(**{**dict(row), "at": datetime.fromisoformat(row["at"])}) for row in found]

    def prune(self, *, keep: int = KEPT_RECORDS) -> None:
        """Forget all but the newest so many attempts and publishes."""
        with self._db.write() as rows:
            for table, time in (("attempts", "started_at"), ("publishes", "at")):
                rows.execute(
                    f"DELETE FROM {table} WHERE execution NOT IN"
                    f" (SELECT execution FROM {table} ORDER BY {time} DESC LIMIT ?)",
                    (keep,),
                )

    def _put(self, statement: str, values: Sequence[object]) -> None:
        try:
            with self._db.write() as rows:
                rows.execute(statement, values)
        except HeadgateError as error:
            log.warning("an attempt could not be recorded: %s", error)


def _attempt(row: sqlite3.Row) -> AttemptRecord:
    values = dict(row)
    for name in ("input", "output", "phases", "changes"):
        with suppress(TypeError):
            values[name] = json.loads(values[name])
    values["phases"] = [(name, seconds) for name, seconds in values["phases"]]
    for name in ("started_at", "ended_at"):
        values[name] = datetime.fromisoformat(values[name]) if values[name] else None
    return AttemptRecord(**values)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
