"""The local orchestrator: workflows handed out from a SQLite file on this machine.

Every change of state is one conditional update in one transaction: who comes second changes nothing. A task id is
worked on once; a lease that runs out, and a failure that may be tried again, hand the work out under a new task id,
after which nothing said about the old one counts. Who runs a workflow holds its epoch; resuming it takes the next one,
in the transaction that ends what the epoch before had in progress, so that of two who run it only the later one acts.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.database import Database
from headgate.errors import Conflict, Fenced, NotFound
from headgate.ids import ULIDS, IdSource
from headgate.orchestrators.engine.references import complete_input
from headgate.orchestrators.engine.rules import TaskRule, rules_as_text
from headgate.orchestrators.engine.scheduler import (
    CANCELED,
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    SCHEDULED,
    TERMINAL,
    TIMED_OUT,
    Entry,
)
from headgate.orchestrators.engine.scheduler import outline as outline_of
from headgate.orchestrators.engine.targets import check_targets
from headgate.orchestrators.local_changes import RUNNING, TERMINATED, Changes
from headgate.orchestrators.local_records import (
    TaskRecord,
    WorkflowRecord,
    definition_in,
    dumped,
    rules_in,
    state_of,
    task_record,
    workflow_record,
)
from headgate.orchestrators.local_schema import MIGRATIONS
from headgate.publication import Ref, TaskFate, TaskState
from headgate.tasks.protocols import AttemptId, AttemptSnapshot, PolledAttempt


class LocalOrchestrator:
    """Implements `Orchestrator` for one machine. Several processes may share the file."""

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK, ids: IdSource = ULIDS, durable: bool = True) -> None:
        """Open the file, or make it. Without `durable` nothing waits for the disk: for files a test throws away."""
        self._clock, self._ids, self._changes = clock, ids, Changes(clock, ids)
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
        retry: TaskRule | None = None,
    ) -> TaskRecord:
        """Start a workflow of one task; its first attempt waits for a poll."""
        only = {
            "name": task_name,
            "taskReferenceName": reference or task_name,
            "inputParameters": {key: f"${{workflow.input['{key}']}}" for key in task_input},
        }
        definition = {"name": task_name, "tasks": [only]}
        workflow = self.start(definition, task_input, rules={task_name: retry or TaskRule()}).id
        return self.tasks(workflow=workflow)[0]

    def start(
        self,
        definition: Mapping[str, Any],
        given: Mapping[str, Any],
        *,
        rules: Mapping[str, TaskRule],
        modules: Sequence[str] = (),
    ) -> WorkflowRecord:
        """Start a workflow; who calls this holds its first epoch.

        Refused: a definition that cannot be run, input that does not fit it, forks that may write one store branch
        twice at a time, and a store branch that another running workflow writes.
        """
        text = dumped(definition)
        read = definition_in(text)
        whole = complete_input(read, given)
        targets = check_targets(read, rules, whole)
        workflow, limit = self._ids.new(), read.timeout_seconds
        row = (workflow, read.name, RUNNING, text, rules_as_text(rules), json.dumps(list(modules)), dumped(whole))
        with self._db.write() as rows:
            self._changes.expire(rows)
            rows.execute(
                "INSERT INTO workflows (id, name, status, definition, rules, modules, input, created_at, limit_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, self._changes.now(), self._changes.after(limit) if limit else None),
            )
            self._claim_all(rows, workflow, targets)
            self._changes.advance(rows, workflow)
        return self.workflow(workflow)

    def _claim_all(self, rows: sqlite3.Connection, workflow: str, targets: set[str]) -> None:
        for target in sorted(targets):
            if (holder := self._changes.claim(rows, workflow, target)) is not None:
                raise Conflict(
                    message=f"workflow {holder} runs and writes {target}: writes to one branch are serial",
                    hint=f"wait for it, go on with it (`headgate run --resume {holder}`), or end it "
                    f"(`headgate workflows {holder} --cancel`)",
                )

    def resume(self, workflow: str) -> WorkflowRecord:
        """Take a running workflow over: what others had in progress in it is over, and waits to be handed out again."""
        reason = "whoever ran the workflow was ended, and it was resumed"
        with self._db.write() as rows:
            rows.execute("UPDATE workflows SET epoch = epoch + 1 WHERE id = ? AND status = ?", (workflow, RUNNING))
            self._hand_out_what_was_held(rows, workflow, reason)
            self._changes.advance(rows, workflow)
        return self.workflow(workflow)

    def poll(
        self, task_name: str | None, *, workflow: str | None = None, epoch: int | None = None
    ) -> PolledAttempt | None:
        """The next attempt of that task (of that workflow) under a fresh worker id; None if nothing is due.

        Without a name, any task of the workflow. With an `epoch`, `Fenced` if it is no longer the workflow's.
        """
        # Whether the transaction has to reach the disk is known once the task is: the first look is for those that
        # need not, and hands nothing out where one that must comes first.
        polled, must_last = self._poll(task_name, workflow, epoch, durable=False)
        return self._poll(task_name, workflow, epoch, durable=True)[0] if must_last else polled

    def _poll(
        self, task_name: str | None, workflow: str | None, epoch: int | None, *, durable: bool
    ) -> tuple[PolledAttempt | None, bool]:
        """The attempt, or none and whether that is because its hand-out has to be durable."""
        worker_id, now = self._ids.new(), self._changes.now()
        conditions, values = "status = 'SCHEDULED' AND due_at <= ?", [now]
        for column, value in (("name", task_name), ("workflow", workflow)):
            if value is not None:
                conditions, values = f"{conditions} AND {column} = ?", [*values, value]
        with self._db.write(durable=None if durable else False) as rows:
            if epoch is not None:
                self._check_epoch(rows, str(workflow), epoch)
            self._changes.expire(rows)
            row = self._next_due(rows, conditions, values)
            if row is None:
                return None, False
            if self._changes.rule(rows, row).durable and not durable:
                return None, True
            rows.execute(
                "UPDATE tasks SET status = ?, worker_id = ?, poll_count = poll_count + 1, started_at = ?,"
                " lease_until = ?, limit_at = ?, epoch = (SELECT epoch FROM workflows WHERE id = tasks.workflow)"
                " WHERE id = ? AND status = ?",
                (
                    IN_PROGRESS,
                    worker_id,
                    now,
                    self._changes.after(row["response_seconds"]),
                    self._changes.limit_once_started(rows, row, now),
                    row["id"],
                    SCHEDULED,
                ),
            )
            self._changes.note_handed_out(rows, row)
        polled = PolledAttempt(
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
        return polled, False

    def _next_due(self, rows: sqlite3.Connection, conditions: str, values: list[str]) -> sqlite3.Row | None:
        """The task that has been due for longest, of those whose limits let one more be handed out."""
        held_back: list[str] = []
        while True:
            others = f" AND name NOT IN ({', '.join('?' * len(held_back))})" if held_back else ""
            row = rows.execute(
                f"SELECT * FROM tasks WHERE {conditions}{others} ORDER BY due_at, scheduled_at, id LIMIT 1",
                (*values, *held_back),
            ).fetchone()
            if row is None or not self._changes.held_back(rows, row):
                assert row is None or isinstance(row, sqlite3.Row)
                return row
            held_back.append(row["name"])

    def extend(self, attempt: AttemptId) -> None:
        with self._db.write(durable=False) as rows:
            row = self._row(rows, attempt.task_id)
            rows.execute(
                f"UPDATE tasks SET lease_until = ? WHERE {_OURS}",
                (self._changes.after(row["response_seconds"]), *_ours(attempt)),
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
            return task_record(self._row(rows, task_id))

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
        return [task_record(row) for row in found]

    def workflow(self, workflow: str) -> WorkflowRecord:
        with self._db.read() as rows:
            return workflow_record(self._workflow_row(rows, workflow))

    def workflows(self, *, limit: int = 1000, running: bool = False) -> list[WorkflowRecord]:
        """Newest first; `running`: only those that are not over."""
        where = "WHERE status = 'RUNNING'" if running else ""
        with self._db.read() as rows:
            found = rows.execute(f"SELECT * FROM workflows {where} ORDER BY created_at DESC, id DESC LIMIT ?", (limit,))
            return [workflow_record(row) for row in found.fetchall()]

    def outline(self, workflow: str) -> list[Entry]:
        """The tree of a workflow as far as it has come."""
        with self._db.read() as rows:
            row = self._workflow_row(rows, workflow)
            tasks = rows.execute("SELECT * FROM tasks WHERE workflow = ? ORDER BY seq", (row["id"],)).fetchall()
        state = state_of(row, tasks, self._clock.now())
        return outline_of(definition_in(row["definition"]), state, rules_in(row["rules"]))

    def task_names(self, workflow: str) -> set[str]:
        """The names of all tasks a workflow may hand out."""
        with self._db.read() as rows:
            row = self._workflow_row(rows, workflow)
        return {step.name for step in definition_in(row["definition"]).simple}

    def next_due(self, workflow: str) -> datetime | None:
        """When the next task of a workflow may be handed out; None if none waits."""
        with self._db.read() as rows:
            row = rows.execute(
                "SELECT min(due_at) AS due_at FROM tasks WHERE workflow = ? AND status = 'SCHEDULED'", (workflow,)
            ).fetchone()
        return None if row["due_at"] is None else datetime.fromisoformat(row["due_at"])

    # ending
    def complete(self, attempt: AttemptId, output: Mapping[str, Any]) -> None:
        with self._result_of(attempt) as rows:
            if self._end(rows, attempt, COMPLETED, output=dumped(output)):
                self._changes.advance(rows, attempt.workflow)

    def fail(self, attempt: AttemptId, *, reason: str, terminal: bool) -> None:
        with self._result_of(attempt) as rows:
            if self._end(rows, attempt, TERMINAL if terminal else FAILED, reason=reason):
                self._changes.advance(rows, attempt.workflow)

    def _result_of(self, attempt: AttemptId) -> AbstractContextManager[sqlite3.Connection]:
        """The transaction that takes an attempt's result, as durable as its task needs."""
        with self._db.read() as rows:
            durable = self._changes.rule(rows, self._row(rows, attempt.task_id)).durable
        return self._db.write(durable=None if durable else False)

    def log(self, attempt: AttemptId, line: str) -> None:
        with self._db.write() as rows:
            rows.execute("INSERT INTO task_logs VALUES (?, ?, ?)", (attempt.task_id, self._changes.now(), line))

    def logs(self, task_id: str) -> list[str]:
        with self._db.read() as rows:
            found = rows.execute("SELECT line FROM task_logs WHERE task_id = ? ORDER BY rowid", (task_id,))
            return [row["line"] for row in found]

    def cancel(self, workflow: str, *, reason: str) -> bool:
        """End a workflow that runs; its attempts find out at their next fence or heartbeat. Whether it ran."""
        with self._db.write() as rows:
            return self._changes.end_workflow(rows, workflow, TERMINATED, reason)

    def retry(self, task_id: str, *, reason: str) -> TaskRecord:
        """Hand failed work, or work whose worker is dead, out again at once, retries left or not.

        For a person who does not want to wait. Safe on a live worker, too: it is fenced. Completed work stays as it is.
        """
        with self._db.write() as rows:
            row = self._row(rows, task_id)
            workflow = row["workflow"]
            if row["status"] not in (COMPLETED, CANCELED):
                self._revive(rows, workflow)
                self._hand_out_what_was_held(rows, workflow, reason)
                latest = self._latest(rows, row)
                if latest["status"] not in (SCHEDULED, COMPLETED):
                    self._changes.hand_out_again(rows, latest)
                rows.execute(
                    "UPDATE tasks SET due_at = ? WHERE workflow = ? AND status = ?",
                    (self._changes.now(), workflow, SCHEDULED),
                )
            return task_record(self._latest(rows, row))

    def _revive(self, rows: sqlite3.Connection, workflow: str) -> None:
        """Let a workflow that failed run on, under a new epoch, with what its failure had cancelled."""
        row = self._workflow_row(rows, workflow)
        rows.execute(
            "UPDATE workflows SET status = ?, reason = '', output = NULL, ended_at = NULL, epoch = epoch + 1"
            " WHERE id = ? AND status IN ('RUNNING', 'FAILED', 'TIMED_OUT')",
            (RUNNING, workflow),
        )
        if row["status"] in (FAILED, TIMED_OUT):
            definition, rules = definition_in(row["definition"]), rules_in(row["rules"])
            self._claim_all(rows, workflow, check_targets(definition, rules, json.loads(row["input"])))
            cancelled = rows.execute("SELECT * FROM tasks WHERE workflow = ? AND status = ?", (workflow, CANCELED))
            for task in cancelled.fetchall():
                if self._latest(rows, task)["id"] == task["id"]:
                    self._changes.hand_out_again(rows, task)

    def _hand_out_what_was_held(self, rows: sqlite3.Connection, workflow: str, reason: str) -> None:
        """What the epoch before had in progress is over, and waits for the next poll under a new task id."""
        held = rows.execute("SELECT * FROM tasks WHERE workflow = ? AND status = ?", (workflow, IN_PROGRESS))
        for task in held.fetchall():
            self._changes.time_out(rows, task, reason)
            self._changes.hand_out_again(rows, task)

    # the parts of a change, each inside its caller's transaction
    def _check_epoch(self, rows: sqlite3.Connection, workflow: str, epoch: int) -> None:
        now = self._workflow_row(rows, workflow)["epoch"]
        if now != epoch:
            raise Fenced(
                message=f"workflow {workflow} was taken over by another `headgate run --resume`",
                hint="leave it to that one",
            )

    def _end(
        self, rows: sqlite3.Connection, attempt: AttemptId, status: str, *, output: str | None = None, reason: str = ""
    ) -> bool:
        """Whether the task was in progress under exactly this attempt; if not, nothing has changed."""
        changed = rows.execute(
            f"UPDATE tasks SET status = ?, output = ?, reason = ?, ended_at = ?, lease_until = NULL WHERE {_OURS}",
            (status, output, reason, self._changes.now(), *_ours(attempt)),
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

    def _workflow_row(self, rows: sqlite3.Connection, workflow: str) -> sqlite3.Row:
        row = rows.execute("SELECT * FROM workflows WHERE id = ?", (workflow,)).fetchone()
        if row is None:
            raise NotFound(
                message=f"the local orchestrator has no workflow {workflow!r}",
                hint="`headgate workflows` lists those it has",
                kind="workflow",
                name=workflow,
            )
        assert isinstance(row, sqlite3.Row)
        return row

    def _latest(self, rows: sqlite3.Connection, task: sqlite3.Row) -> sqlite3.Row:
        """The last attempt at what `task` is an attempt at."""
        row = rows.execute(
            f"{_SELECT} WHERE t.workflow = ? AND t.reference = ? AND t.iteration = ? ORDER BY t.seq DESC LIMIT 1",
            (task["workflow"], task["reference"], task["iteration"]),
        ).fetchone()
        assert isinstance(row, sqlite3.Row)
        return row


_SELECT = "SELECT t.*, w.status AS workflow_status FROM tasks t JOIN workflows w ON w.id = t.workflow"
_OURS = (
    "id = ? AND workflow = ? AND retry_count = ? AND poll_count = ? AND worker_id = ?"
    " AND status = 'IN_PROGRESS' AND epoch = (SELECT epoch FROM workflows WHERE id = tasks.workflow)"
)


def _ours(attempt: AttemptId) -> tuple[str, str, int, int, str]:
    return attempt.task_id, attempt.workflow, attempt.retry_count, attempt.poll_count, attempt.worker_id
