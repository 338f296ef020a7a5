"""The local orchestrator: one-task workflows handed out from a SQLite file on this machine.

Every change of state is one conditional update in one transaction: who comes second changes nothing. A task id is
worked on once; a lease that runs out, and a failure that may be tried again, hand the work out under a new task id,
after which nothing said about the old one counts.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.database import Database
from headgate.errors import InvalidInput, NotFound, OrchestratorStatus
from headgate.ids import ULIDS, IdSource
from headgate.orchestrators.local_schema import MIGRATIONS
from headgate.publication import Ref, TaskFate, TaskState
from headgate.tasks.protocols import AttemptId, AttemptSnapshot, PolledAttempt

SCHEDULED, IN_PROGRESS, CANCELED, TIMED_OUT = "SCHEDULED", "IN_PROGRESS", "CANCELED", "TIMED_OUT"
COMPLETED, FAILED, TERMINAL = OrchestratorStatus.COMPLETED, OrchestratorStatus.FAILED, OrchestratorStatus.TERMINAL
RUNNING, TERMINATED = "RUNNING", "TERMINATED"


@dataclass(frozen=True, kw_only=True)
class RetryRule:
    """How often a failed task is handed out again, after how long, and how long a lease lasts."""

    count: int = 3
    delay_seconds: float = 60.0
    response_seconds: float = 600.0


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
    started_at: datetime | None
    lease_until: datetime | None
    ended_at: datetime | None

    @property
    def over(self) -> bool:
        return self.status not in (SCHEDULED, IN_PROGRESS)


class LocalOrchestrator:
    """Implements `Orchestrator` for one machine. Several processes may share the file."""

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK, ids: IdSource = ULIDS, durable: bool = True) -> None:
        """Open the file, or make it. Without `durable` nothing waits for the disk: for files a test throws away."""
        self._clock, self._ids = clock, ids
        self._db = Database(path, what="the local orchestrator's database", migrations=MIGRATIONS, durable=durable)
        with self._db.read() as rows:
            known = rows.execute("SELECT id FROM identity").fetchone()
        if known is None:
            with self._db.write() as rows:
                rows.execute("INSERT OR IGNORE INTO identity VALUES (1, ?)", (f"local-{ids.new()}",))
                known = rows.execute("SELECT id FROM identity").fetchone()
        self._id = str(known["id"])

    @property
    def id(self) -> str:
        return self._id

    def close(self) -> None:
        self._db.close()

    # handing out
    def submit(
        self,
        task_name: str,
        task_input: Mapping[str, Any],
        *,
        reference: str | None = None,
        retry: RetryRule | None = None,
    ) -> TaskRecord:
        """Start a workflow of one task; its first attempt waits for a poll."""
        retry = retry or RetryRule()
        workflow, task_id, now = self._ids.new(), self._ids.new(), self._now()
        with self._db.write() as rows:
            rows.execute(
                "INSERT INTO workflows (id, name, status, created_at) VALUES (?, ?, ?, ?)",
                (workflow, task_name, RUNNING, now),
            )
            rows.execute(
                "INSERT INTO tasks (id, workflow, name, reference, seq, status, input, retry_limit, retry_delay,"
                " response_seconds, scheduled_at, due_at) VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)",
                (
                    task_id,
                    workflow,
                    task_name,
                    reference or task_name,
                    SCHEDULED,
                    _dumped(task_input),
                    retry.count,
                    retry.delay_seconds,
                    retry.response_seconds,
                    now,
                    now,
                ),
            )
        return self.task(task_id)

    def poll(self, task_name: str, *, workflow: str | None = None) -> PolledAttempt | None:
        """The next attempt of that task (of that workflow) under a fresh worker id; None if nothing is due."""
        worker_id, now = self._ids.new(), self._now()
        with self._db.write() as rows:
            self._expire(rows, now)
            row = rows.execute(
                "SELECT * FROM tasks WHERE status = ? AND name = ? AND due_at <= ? AND (? IS NULL OR workflow = ?)"
                " ORDER BY due_at, scheduled_at, id LIMIT 1",
                (SCHEDULED, task_name, now, workflow, workflow),
            ).fetchone()
            if row is None:
                return None
            rows.execute(
                "UPDATE tasks SET status = ?, worker_id = ?, poll_count = poll_count + 1, started_at = ?,"
                " lease_until = ? WHERE id = ? AND status = ?",
                (IN_PROGRESS, worker_id, now, self._after(row["response_seconds"]), row["id"], SCHEDULED),
            )
        return PolledAttempt(
            id=AttemptId(
                orchestrator=self._id,
                workflow=row["workflow"],
                task_id=row["id"],
                retry_count=row["retry_count"],
                poll_count=row["poll_count"] + 1,
                worker_id=worker_id,
            ),
            task_name=row["name"],
            reference_task=row["reference"],
            input=json.loads(row["input"]),
            seq=row["seq"],
            iteration=row["iteration"],
            response_seconds=row["response_seconds"],
            polled_at=self._clock.now(),
        )

    def extend(self, attempt: AttemptId) -> None:
        with self._db.write() as rows:
            row = self._row(rows, attempt.task_id)
            rows.execute(
                f"UPDATE tasks SET lease_until = ? WHERE {_OURS}",
                (self._after(row["response_seconds"]), *_ours(attempt)),
            )

    def give_back(self, attempt: AttemptId) -> None:
        """Return an attempt that nobody has begun to work on to the queue, under the same task id."""
        with self._db.write() as rows:
            rows.execute(
                f"UPDATE tasks SET status = 'SCHEDULED', worker_id = NULL, lease_until = NULL WHERE {_OURS}",
                _ours(attempt),
            )

    # asking
    def current(self, attempt: AttemptId) -> AttemptSnapshot:
        with self._db.read() as rows:
            row = self._row(rows, attempt.task_id)
        return AttemptSnapshot(
            id=AttemptId(
                orchestrator=self._id,
                workflow=row["workflow"],
                task_id=row["id"],
                retry_count=row["retry_count"],
                poll_count=row["poll_count"],
                worker_id=row["worker_id"] or "",
            ),
            status=row["status"],
            output=json.loads(row["output"]) if row["output"] else {},
        )

    def fate(self, workflow: str, task_id: str, *, store: str) -> TaskFate:
        with self._db.read() as rows:
            row = rows.execute(
                "SELECT status, output FROM tasks WHERE id = ? AND workflow = ?", (task_id, workflow)
            ).fetchone()
        if row is None:
            return TaskFate(state=TaskState.NOT_FOUND)
        if row["status"] in (SCHEDULED, IN_PROGRESS):
            return TaskFate(state=TaskState.RUNNING)
        if row["status"] != COMPLETED:
            return TaskFate(state=TaskState.ENDED)
        block = json.loads(row["output"]).get(store)
        ref = block.get("ref") if isinstance(block, dict) else None
        return TaskFate(state=TaskState.COMPLETED, accepted_ref=Ref(ref) if isinstance(ref, str) else None)

    def task(self, task_id: str) -> TaskRecord:
        with self._db.read() as rows:
            return _record(self._row(rows, task_id))

    def tasks(self, *, workflow: str | None = None, running: bool = False) -> list[TaskRecord]:
        """Newest last; `running`: only those that are scheduled or in progress."""
        conditions, values = ["1"], []
        if workflow is not None:
            conditions, values = ["t.workflow = ?"], [workflow]
        if running:
            conditions.append("t.status IN ('SCHEDULED', 'IN_PROGRESS')")
        with self._db.read() as rows:
            where = " AND ".join(conditions)
            found = rows.execute(f"{_SELECT} WHERE {where} ORDER BY t.scheduled_at, t.id", values).fetchall()
        return [_record(row) for row in found]

    # ending
    def complete(self, attempt: AttemptId, output: Mapping[str, Any]) -> None:
        with self._db.write() as rows:
            if self._end(rows, attempt, COMPLETED, output=_dumped(output)):
                self._end_workflow(rows, attempt.workflow, COMPLETED)

    def fail(self, attempt: AttemptId, *, reason: str, terminal: bool) -> None:
        with self._db.write() as rows:
            if self._end(rows, attempt, TERMINAL if terminal else FAILED, reason=reason):
                self._retry_or_give_up(rows, attempt.task_id, reason, may_retry=not terminal)

    def log(self, attempt: AttemptId, line: str) -> None:
        with self._db.write() as rows:
            rows.execute("INSERT INTO task_logs VALUES (?, ?, ?)", (attempt.task_id, self._now(), line))

    def logs(self, task_id: str) -> list[str]:
        with self._db.read() as rows:
            found = rows.execute("SELECT line FROM task_logs WHERE task_id = ? ORDER BY rowid", (task_id,))
            return [row["line"] for row in found]

    def cancel(self, workflow: str, *, reason: str) -> bool:
        """End a workflow that runs; its attempts find out at their next fence or heartbeat. Whether it ran."""
        with self._db.write() as rows:
            rows.execute(
                "UPDATE tasks SET status = ?, reason = ?, ended_at = ?, lease_until = NULL"
                " WHERE workflow = ? AND status IN ('SCHEDULED', 'IN_PROGRESS')",
                (CANCELED, reason, self._now(), workflow),
            )
            return self._end_workflow(rows, workflow, TERMINATED, reason)

    def retry(self, task_id: str, *, reason: str) -> TaskRecord:
        """Hand failed work, or work whose worker is dead, out again at once, retries left or not.

        For a person who does not want to wait. Safe on a live worker, too: it is fenced. Completed work stays as it is.
        """
        with self._db.write() as rows:
            row = self._row(rows, task_id)
            if row["status"] == IN_PROGRESS:
                self._time_out(rows, row, reason)
            rows.execute(
                "UPDATE workflows SET status = ?, reason = '', ended_at = NULL WHERE id = ? AND status = 'FAILED'",
                (RUNNING, row["workflow"]),
            )
            latest = self._latest(rows, row["workflow"])
            if latest["status"] not in (SCHEDULED, IN_PROGRESS, COMPLETED, CANCELED):
                self._hand_out_again(rows, latest, self._now())
            rows.execute(
                "UPDATE tasks SET due_at = ? WHERE workflow = ? AND status = ?",
                (self._now(), row["workflow"], SCHEDULED),
            )
            return _record(self._latest(rows, row["workflow"]))

    # the parts of a change, each inside its caller's transaction
    def _expire(self, rows: sqlite3.Connection, now: str) -> None:
        late = rows.execute("SELECT * FROM tasks WHERE status = ? AND lease_until < ?", (IN_PROGRESS, now)).fetchall()
        for row in late:
            reason = f"no sign of life for {row['response_seconds']:g} s"
            self._time_out(rows, row, reason)
            self._retry_or_give_up(rows, row["id"], reason, may_retry=True)

    def _time_out(self, rows: sqlite3.Connection, row: sqlite3.Row, reason: str) -> None:
        rows.execute(
            "UPDATE tasks SET status = ?, reason = ?, ended_at = ?, lease_until = NULL"
            " WHERE id = ? AND status = 'IN_PROGRESS'",
            (TIMED_OUT, reason, self._now(), row["id"]),
        )

    def _end(
        self, rows: sqlite3.Connection, attempt: AttemptId, status: str, *, output: str | None = None, reason: str = ""
    ) -> bool:
        """Whether the task was in progress under exactly this attempt; if not, nothing has changed."""
        changed = rows.execute(
            f"UPDATE tasks SET status = ?, output = ?, reason = ?, ended_at = ?, lease_until = NULL WHERE {_OURS}",
            (status, output, reason, self._now(), *_ours(attempt)),
        )
        return changed.rowcount == 1

    def _retry_or_give_up(self, rows: sqlite3.Connection, task_id: str, reason: str, *, may_retry: bool) -> None:
        row = self._row(rows, task_id)
        if may_retry and row["retry_count"] < row["retry_limit"]:
            self._hand_out_again(rows, row, self._after(row["retry_delay"]))
        else:
            self._end_workflow(rows, row["workflow"], FAILED, reason)

    def _hand_out_again(self, rows: sqlite3.Connection, row: sqlite3.Row, due_at: str) -> None:
        rows.execute(
            "INSERT INTO tasks (id, workflow, name, reference, seq, iteration, retry_count, retry_of, status, input,"
            " retry_limit, retry_delay, response_seconds, scheduled_at, due_at)"
            " SELECT ?, workflow, name, reference, seq + 1, iteration, retry_count + 1, id, ?, input,"
            " retry_limit, retry_delay, response_seconds, ?, ? FROM tasks WHERE id = ?",
            (self._ids.new(), SCHEDULED, self._now(), due_at, row["id"]),
        )

    def _end_workflow(self, rows: sqlite3.Connection, workflow: str, status: str, reason: str = "") -> bool:
        changed = rows.execute(
            "UPDATE workflows SET status = ?, reason = ?, ended_at = ? WHERE id = ? AND status = ?",
            (status, reason, self._now(), workflow, RUNNING),
        )
        return changed.rowcount == 1

    def _row(self, rows: sqlite3.Connection, task_id: str) -> sqlite3.Row:
        row = rows.execute(f"{_SELECT} WHERE t.id = ?", (task_id,)).fetchone()
        if row is None:
            raise NotFound(
                message=f"the local orchestrator has no task {task_id!r}",
                hint="`headgate attempts` lists those it has",
                kind="task",
                name=task_id,
            )
        assert isinstance(row, sqlite3.Row)
        return row

    def _latest(self, rows: sqlite3.Connection, workflow: str) -> sqlite3.Row:
        row = rows.execute(f"{_SELECT} WHERE t.workflow = ? ORDER BY t.seq DESC LIMIT 1", (workflow,)).fetchone()
        assert isinstance(row, sqlite3.Row)
        return row

    def _now(self) -> str:
        return _stamp(self._clock.now())

    def _after(self, seconds: float) -> str:
        return _stamp(self._clock.now() + timedelta(seconds=seconds))


_SELECT = "SELECT t.*, w.status AS workflow_status FROM tasks t JOIN workflows w ON w.id = t.workflow"
_OURS = "id = ? AND workflow = ? AND retry_count = ? AND poll_count = ? AND worker_id = ? AND status = 'IN_PROGRESS'"


def _ours(attempt: AttemptId) -> tuple[str, str, int, int, str]:
    return attempt.task_id, attempt.workflow, attempt.retry_count, attempt.poll_count, attempt.worker_id


def _record(row: sqlite3.Row) -> TaskRecord:
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
        started_at=_time(row["started_at"]),
        lease_until=_time(row["lease_until"]),
        ended_at=_time(row["ended_at"]),
    )


def _stamp(at: datetime) -> str:
    """Fixed width, so that the order of the text is the order in time."""
    return at.isoformat(timespec="microseconds")


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _dumped(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidInput(message=f"not JSON: {error}", hint="use text, numbers, lists and maps") from error
