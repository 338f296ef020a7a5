"""The parts of a change of the local orchestrator's state, each inside its caller's transaction.

What the scheduler decides is written in the transaction that made it so: a task that is completed and the tasks that
follow from it appear together, or not at all.
"""

from __future__ import annotations

import random
import sqlite3
from datetime import datetime, timedelta

from headgate.clock import Clock
from headgate.ids import IdSource
from headgate.orchestrators.engine.rules import TaskRule
from headgate.orchestrators.engine.scheduler import (
    CANCELED,
    FAILED,
    IN_PROGRESS,
    SCHEDULED,
    TIMED_OUT,
    End,
    Schedule,
    next_tasks,
    output_so_far,
)
from headgate.orchestrators.local_records import definition_in, dumped, rules_in, stamp, state_of

RUNNING, TERMINATED = "RUNNING", "TERMINATED"
_NO_RULE = TaskRule()


class Changes:
    """Changes one file's rows; holds no state of its own."""

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        self._clock, self._ids = clock, ids

    def now(self) -> str:
        return stamp(self._clock.now())

    def after(self, seconds: float) -> str:
        return stamp(self._clock.now() + timedelta(seconds=seconds))

    def advance(self, rows: sqlite3.Connection, workflow: str) -> None:
        """Do what the scheduler says comes next in a workflow that runs."""
        row = rows.execute("SELECT * FROM workflows WHERE id = ? AND status = ?", (workflow, RUNNING)).fetchone()
        if row is None:
            return
        tasks = self._tasks(rows, workflow)
        rules = rules_in(row["rules"])
        seq = tasks[-1]["seq"] if tasks else 0
        for decision in next_tasks(definition_in(row["definition"]), state_of(row, tasks, self._clock.now()), rules):
            if isinstance(decision, End):
                output = dumped(decision.output)
                self.end_workflow(rows, workflow, decision.status, decision.reason, output=output)
                return
            holder = self.claim(rows, workflow, decision.target) if decision.target else None
            if holder is not None:
                reason = f"{decision.reference} would write {decision.target}, as workflow {holder} does"
                self.end_workflow(rows, workflow, FAILED, f"{reason}: writes to one branch are serial")
                return
            seq += 1
            self._insert(rows, workflow, decision, seq, rules.get(decision.name, _NO_RULE), row["epoch"])

    @staticmethod
    def _tasks(rows: sqlite3.Connection, workflow: str) -> list[sqlite3.Row]:
        return rows.execute("SELECT * FROM tasks WHERE workflow = ? ORDER BY seq", (workflow,)).fetchall()

    def claim(self, rows: sqlite3.Connection, workflow: str, target: str) -> str | None:
        """Keep a target for a workflow until it is over; who has it, if somebody else does."""
        rows.execute("INSERT OR IGNORE INTO targets VALUES (?, ?)", (target, workflow))
        holder = rows.execute("SELECT workflow FROM targets WHERE target = ?", (target,)).fetchone()["workflow"]
        return None if holder == workflow else str(holder)

    def _insert(
        self, rows: sqlite3.Connection, workflow: str, task: Schedule, seq: int, rule: TaskRule, epoch: int
    ) -> None:
        now, first_at = self.now(), self.now()
        if task.retry_of is not None:
            first = rows.execute("SELECT first_at, scheduled_at FROM tasks WHERE id = ?", (task.retry_of,)).fetchone()
            first_at = first["first_at"] or first["scheduled_at"]
        wait = task.after_seconds + (random.uniform(0, rule.jitter_ms / 1000) if task.retry_of else 0)
        due_at = self.after(wait) if wait else now
        limits = [_later(due_at, rule.poll_seconds), _later(first_at, rule.total_seconds)]
        rows.execute(
            "INSERT INTO tasks (id, workflow, name, reference, seq, iteration, retry_count, retry_of, status, input,"
            " retry_limit, retry_delay, response_seconds, scheduled_at, due_at, first_at, limit_at, epoch)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._ids.new(),
                workflow,
                task.name,
                task.reference,
                seq,
                task.iteration,
                task.retry_count,
                task.retry_of,
                SCHEDULED,
                dumped(task.input),
                task.retry_limit,
                rule.delay_seconds,
                rule.response_seconds,
                now,
                due_at,
                first_at,
                _earliest(limits, rule),
                epoch,
            ),
        )

    def held_back(self, rows: sqlite3.Connection, row: sqlite3.Row) -> bool:
        """Whether as many attempts of a task are in progress, or were handed out, as its limits allow."""
        rule = self.rule(rows, row)
        if rule.concurrent:
            # Those in progress are few, and have an index of their own.
            counted = "SELECT count(*) FROM tasks WHERE status = 'IN_PROGRESS' AND name = ?"
            if rows.execute(counted, (row["name"],)).fetchone()[0] >= rule.concurrent:
                return True
        if not rule.rate_per_window:
            return False
        window = self.after(-rule.window_seconds)
        rows.execute("DELETE FROM handed_out WHERE name = ? AND at <= ?", (row["name"], window))
        handed_out = rows.execute("SELECT count(*) FROM handed_out WHERE name = ?", (row["name"],)).fetchone()[0]
        return bool(handed_out >= rule.rate_per_window)

    def note_handed_out(self, rows: sqlite3.Connection, row: sqlite3.Row) -> None:
        if self.rule(rows, row).rate_per_window:
            rows.execute("INSERT INTO handed_out VALUES (?, ?)", (row["name"], self.now()))

    def limit_once_started(self, rows: sqlite3.Connection, row: sqlite3.Row, now: str) -> str | None:
        """When an attempt that starts now has to be over, apart from its lease."""
        rule = self.rule(rows, row)
        return _earliest([_later(now, rule.seconds), _later(row["first_at"] or now, rule.total_seconds)], rule)

    def expire(self, rows: sqlite3.Connection) -> None:
        """End every attempt without a sign of life for too long, and all that is beyond its other limits."""
        now = self.now()
        # Limits come before leases, as on a server: an attempt that is beyond both is beyond its limit.
        limited = rows.execute(
            "SELECT * FROM tasks WHERE limit_at < ? AND limit_at IS NOT NULL"
            " AND status IN ('SCHEDULED', 'IN_PROGRESS') ORDER BY limit_at",
            (now,),
        ).fetchall()
        for row in limited:
            self._over_limit(rows, row, now)
        late = rows.execute("SELECT * FROM tasks WHERE status = ? AND lease_until < ?", (IN_PROGRESS, now)).fetchall()
        for row in late:
            if self.time_out(rows, row, f"no sign of life for {row['response_seconds']:g} s"):
                self.advance(rows, row["workflow"])
        slow = rows.execute("SELECT id FROM workflows WHERE status = ? AND limit_at < ?", (RUNNING, now)).fetchall()
        for row in slow:
            self.end_workflow(rows, row["id"], TIMED_OUT, "the workflow took longer than its timeoutSeconds")

    def _over_limit(self, rows: sqlite3.Connection, row: sqlite3.Row, now: str) -> None:
        rule = self.rule(rows, row)
        whole = _later(row["first_at"] or row["scheduled_at"], rule.total_seconds)
        in_all = whole is not None and whole < now
        if in_all:
            reason = f"all attempts together took longer than {rule.total_seconds:g} s"
        elif row["status"] == SCHEDULED:
            reason = f"no worker took it for {rule.poll_seconds:g} s"
        else:
            reason = f"it took longer than {rule.seconds:g} s"
        if not self.time_out(rows, row, reason):
            return
        if in_all or rule.policy == "TIME_OUT_WF":
            self.end_workflow(rows, row["workflow"], TIMED_OUT, f"{row['reference']}: {reason}")
        else:
            self.advance(rows, row["workflow"])

    def time_out(self, rows: sqlite3.Connection, row: sqlite3.Row, reason: str) -> bool:
        changed = rows.execute(
            "UPDATE tasks SET status = ?, reason = ?, ended_at = ?, lease_until = NULL"
            " WHERE id = ? AND status IN ('SCHEDULED', 'IN_PROGRESS')",
            (TIMED_OUT, reason, self.now(), row["id"]),
        )
        return changed.rowcount == 1

    def hand_out_again(self, rows: sqlite3.Connection, row: sqlite3.Row) -> None:
        """Schedule a task that is over once more, at once; it costs none of its retries."""
        rows.execute(
            "INSERT INTO tasks (id, workflow, name, reference, seq, iteration, retry_count, retry_of, status, input,"
            " retry_limit, retry_delay, response_seconds, scheduled_at, due_at, first_at, epoch)"
            " SELECT ?, workflow, name, reference, (SELECT max(seq) + 1 FROM tasks WHERE workflow = t.workflow),"
            " iteration, retry_count + 1, id, ?, input,"
            " retry_limit + 1, retry_delay, response_seconds, ?, ?, ?,"
            " (SELECT epoch FROM workflows WHERE id = t.workflow) FROM tasks t WHERE id = ?",
            (self._ids.new(), SCHEDULED, self.now(), self.now(), self.now(), row["id"]),
        )

    def cancel_tasks(self, rows: sqlite3.Connection, workflow: str, reason: str) -> None:
        rows.execute(
            "UPDATE tasks SET status = ?, reason = ?, ended_at = ?, lease_until = NULL"
            " WHERE workflow = ? AND status IN ('SCHEDULED', 'IN_PROGRESS')",
            (CANCELED, reason, self.now(), workflow),
        )

    def end_workflow(
        self, rows: sqlite3.Connection, workflow: str, status: str, reason: str = "", *, output: str | None = None
    ) -> bool:
        """End a workflow that runs, with all that still runs in it; whether it ran.

        Without an `output` it is what the workflow's tasks have come to so far.
        """
        if output is None:
            output = self._output_so_far(rows, workflow)
        changed = rows.execute(
            "UPDATE workflows SET status = ?, reason = ?, output = ?, ended_at = ? WHERE id = ? AND status = ?",
            (status, reason, output, self.now(), workflow, RUNNING),
        )
        if changed.rowcount == 1:
            self.cancel_tasks(rows, workflow, reason or "the workflow is over")
            rows.execute("DELETE FROM targets WHERE workflow = ?", (workflow,))
        return changed.rowcount == 1

    def _output_so_far(self, rows: sqlite3.Connection, workflow: str) -> str | None:
        row = rows.execute("SELECT * FROM workflows WHERE id = ?", (workflow,)).fetchone()
        if row is None:
            return None
        state = state_of(row, self._tasks(rows, workflow), self._clock.now())
        return dumped(output_so_far(definition_in(row["definition"]), state, rules_in(row["rules"])))

    @staticmethod
    def rule(rows: sqlite3.Connection, row: sqlite3.Row) -> TaskRule:
        """The rule of a task's row."""
        found = rows.execute("SELECT rules FROM workflows WHERE id = ?", (row["workflow"],)).fetchone()
        return rules_in(found["rules"]).get(row["name"], _NO_RULE)


def _later(at: str, seconds: float) -> str | None:
    return stamp(datetime.fromisoformat(at) + timedelta(seconds=seconds)) if seconds else None


def _earliest(limits: list[str | None], rule: TaskRule) -> str | None:
    """An alert alone ends nothing."""
    known = [limit for limit in limits if limit is not None]
    return min(known) if known and rule.policy != "ALERT_ONLY" else None
