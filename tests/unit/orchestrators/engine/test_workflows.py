"""Workflows in the local orchestrator's file: each change and what follows from it are one step; epochs and targets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.unit.orchestrators.engine.kit import Raw, fork, loop, simple, workflow

from headgate.errors import Conflict, Fenced, InvalidInput, NotFound
from headgate.failpoints import Failpoint, arm
from headgate.orchestrators.engine.rules import TaskRule, rule_of
from headgate.orchestrators.local import LocalOrchestrator
from headgate.orchestrators.local_schema import MIGRATIONS
from headgate.tasks import ExecutionLimits, TaskControls, task, task_of

NOW = TaskRule(count=1, delay_seconds=0, response_seconds=60)


class HandClock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def pass_seconds(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def local(tmp_path: Path, clock: HandClock) -> Iterator[LocalOrchestrator]:
    with closing(LocalOrchestrator(tmp_path / "o.db", clock=clock, durable=False)) as local:
        yield local


def start(local: LocalOrchestrator, raw: Raw, given: Any = None, rule: TaskRule = NOW) -> str:
    return local.start(raw, given or {}, rules={"t": rule}).id


def step(local: LocalOrchestrator, of: str, output: Any = None) -> str:
    polled = local.poll(None, workflow=of)
    assert polled is not None
    local.complete(polled.id, output or {"result": polled.reference_task})
    return polled.reference_task


def statuses(local: LocalOrchestrator, of: str) -> list[str]:
    return [task.status for task in local.tasks(workflow=of)]


def test_a_workflow_runs_to_its_end(local: LocalOrchestrator) -> None:
    body = [simple("b", given={"x": "${a.output.result}"})]
    of = start(local, workflow(simple("a"), *fork("f", [loop("l", body, "$.l.iteration < 2")], [simple("c")])))
    assert [step(local, of) for _ in range(4)] == ["a", "b", "c", "b"]
    assert local.poll(None, workflow=of) is None
    record = local.workflow(of)
    assert (record.status, record.over) == ("COMPLETED", True)
    assert [task.seq for task in local.tasks(workflow=of)] == [1, 2, 3, 4]


def test_a_failure_cancels_what_runs_beside_it(local: LocalOrchestrator) -> None:
    of = start(local, workflow(*fork("f", [simple("a")], [simple("b")])))
    a, b = local.poll(None, workflow=of), local.poll(None, workflow=of)
    assert a is not None
    assert b is not None
    local.fail(a.id, reason="never", terminal=True)
    assert (local.workflow(of).status, local.workflow(of).reason) == ("FAILED", "a: never")
    assert statuses(local, of) == ["FAILED_WITH_TERMINAL_ERROR", "CANCELED"]
    local.complete(b.id, {})
    assert statuses(local, of)[1] == "CANCELED"
    again = local.retry(a.id.task_id, reason="mended")
    assert (again.reference, again.retry_count, again.workflow_status) == ("a", 1, "RUNNING")
    assert {step(local, of), step(local, of)} == {"a", "b"}
    assert local.workflow(of).status == "COMPLETED"


@pytest.mark.parametrize(
    ("rule", "polled", "seconds", "status", "reason"),
    [
        (TaskRule(count=0, poll_seconds=10), False, 11, "TIMED_OUT", "no worker took it for 10 s"),
        (TaskRule(count=1, poll_seconds=10, policy="RETRY", delay_seconds=0), False, 11, "RUNNING", ""),
        (TaskRule(count=0, poll_seconds=10, policy="RETRY"), False, 11, "TIMED_OUT", "no worker took it for 10 s"),
        (TaskRule(count=0, poll_seconds=10, policy="ALERT_ONLY"), False, 11, "RUNNING", ""),
        (TaskRule(count=3, seconds=10, response_seconds=5), True, 11, "TIMED_OUT", "it took longer than 10 s"),
        (TaskRule(count=1, seconds=10, policy="RETRY", response_seconds=5), True, 11, "RUNNING", ""),
        (TaskRule(count=0, response_seconds=5), True, 6, "TIMED_OUT", "no sign of life for 5 s"),
        (TaskRule(count=3, response_seconds=5, delay_seconds=0), True, 6, "RUNNING", ""),
        (TaskRule(count=3, total_seconds=10, policy="RETRY"), True, 11, "TIMED_OUT", "all attempts together"),
    ],
)
def test_time_limits_end_a_task_as_its_policy_says(
    local: LocalOrchestrator, clock: HandClock, rule: TaskRule, polled: bool, seconds: float, status: str, reason: str
) -> None:
    of = start(local, workflow(simple("a")), rule=rule)
    attempt = local.poll("t") if polled else None
    for _ in range(int(seconds)):
        clock.pass_seconds(seconds / int(seconds))
        if attempt is not None and "sign of life" not in reason and seconds > 6:
            local.extend(attempt.id)
    local.poll("another task")
    assert local.workflow(of).status == status
    assert reason in local.workflow(of).reason


def test_the_total_counts_from_the_first_attempt(local: LocalOrchestrator, clock: HandClock) -> None:
    of = start(local, workflow(simple("a")), rule=TaskRule(count=9, delay_seconds=6, total_seconds=10))
    first = local.poll("t")
    assert first is not None
    local.fail(first.id, reason="no", terminal=False)
    clock.pass_seconds(6)
    assert local.poll("t") is not None
    clock.pass_seconds(5)
    local.poll("t")
    assert local.workflow(of).status == "TIMED_OUT"


def test_a_workflow_has_a_time_limit_of_its_own(local: LocalOrchestrator, clock: HandClock) -> None:
    of = start(local, workflow(simple("a"), timeoutSeconds=10, timeoutPolicy="TIME_OUT_WF"))
    clock.pass_seconds(11)
    local.poll("t")
    assert local.workflow(of).status == "TIMED_OUT"
    assert statuses(local, of) == ["CANCELED"]


def test_of_two_that_run_a_workflow_only_the_later_one_acts(local: LocalOrchestrator, tmp_path: Path) -> None:
    """Invariant 2: what an engine of an older epoch says is not accepted."""
    of = start(local, workflow(simple("a"), simple("b")))
    first = local.poll(None, workflow=of, epoch=1)
    assert first is not None
    with closing(LocalOrchestrator(tmp_path / "o.db", durable=False)) as other:
        resumed = other.resume(of)
        assert resumed.epoch == 2
        local.complete(first.id, {"result": "late"})
        local.extend(first.id)
        with pytest.raises(Fenced, match="taken over"):
            local.poll(None, workflow=of, epoch=1)
        assert statuses(other, of) == ["TIMED_OUT", "SCHEDULED"]
        again = other.poll(None, workflow=of, epoch=2)
        assert again is not None
        assert again.id.task_id != first.id.task_id
        assert again.id.retry_count == 1


def test_a_kill_costs_no_retry(local: LocalOrchestrator) -> None:
    of = start(local, workflow(simple("a")), rule=TaskRule(count=0))
    for _ in range(3):
        assert local.poll(None, workflow=of) is not None
        local.resume(of)
    assert step(local, of) == "a"
    assert local.workflow(of).status == "COMPLETED"


def test_a_completion_and_what_follows_from_it_are_one_step(local: LocalOrchestrator) -> None:
    of = start(local, workflow(simple("a"), simple("b")))
    polled = local.poll("t")
    assert polled is not None

    class Killed(BaseException):
        pass

    def die(point: Failpoint) -> None:
        raise Killed

    arm(die)
    try:
        with pytest.raises(Killed):
            local.complete(polled.id, {})
    finally:
        arm(None)
    assert statuses(local, of) == ["COMPLETED", "SCHEDULED"]


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)])
def test_what_a_store_may_know_of_waits_for_the_disk(tmp_path: Path, durable: bool, synchronous: int) -> None:
    """Invariant 6: after power loss the orchestrator knows of every attempt that may have published."""
    with closing(LocalOrchestrator(tmp_path / "o.db")) as local:
        start(local, workflow(simple("a"), simple("b")), rule=TaskRule(durable=durable))

        def waits_for_disk() -> int:
            return int(local._db._connection().execute("PRAGMA synchronous").fetchone()[0])

        polled = local.poll("t")
        assert polled is not None
        assert waits_for_disk() == synchronous
        local.extend(polled.id)
        local.complete(polled.id, {})
        assert waits_for_disk() == synchronous
        again = local.poll("t")
        assert again is not None
        local.fail(again.id, reason="no", terminal=True)
        assert waits_for_disk() == synchronous


BLOCK = {"repository": "songs", "branch": "main", "ref_type": "commit", "ref": "r"}
WRITES = TaskRule(count=0, writes="workspace", response_seconds=60)
ONE = workflow(simple("a", given={"workspace": "${workflow.input.workspace}"}))
LATER = workflow(
    simple("first", name="reads"), simple("a", given={"workspace": {**BLOCK, "branch": "${first.output.branch}"}})
)


def test_a_second_workflow_on_a_branch_is_refused_until_the_first_is_over(local: LocalOrchestrator) -> None:
    of = start(local, ONE, {"workspace": BLOCK}, WRITES)
    with pytest.raises(Conflict, match=f"workflow {of} runs and writes workspace songs@main"):
        start(local, ONE, {"workspace": BLOCK}, WRITES)
    assert len(local.workflows()) == 1
    start(local, ONE, {"workspace": {**BLOCK, "branch": "other"}}, WRITES)
    step(local, of)
    assert start(local, ONE, {"workspace": BLOCK}, WRITES)


def test_a_workflow_that_was_killed_for_good_gives_its_branch_back(local: LocalOrchestrator, clock: HandClock) -> None:
    start(local, ONE, {"workspace": BLOCK}, WRITES)
    assert local.poll("t") is not None
    clock.pass_seconds(61)
    assert start(local, ONE, {"workspace": BLOCK}, WRITES)


def test_a_branch_that_is_known_only_when_a_task_is_scheduled_is_checked_then(local: LocalOrchestrator) -> None:
    first = start(local, ONE, {"workspace": BLOCK}, WRITES)
    of = local.start(LATER, {}, rules={"t": WRITES, "reads": TaskRule()}).id
    step(local, of, {"branch": "main"})
    record = local.workflow(of)
    assert record.status == "FAILED"
    assert (
        record.reason
        == f"a would write workspace songs@main, as workflow {first} does: writes to one branch are serial"
    )


def test_retrying_takes_the_branch_again(local: LocalOrchestrator) -> None:
    of = start(local, ONE, {"workspace": BLOCK}, WRITES)
    polled = local.poll("t", workflow=of)
    assert polled is not None
    local.fail(polled.id, reason="no", terminal=False)
    other = start(local, ONE, {"workspace": BLOCK}, WRITES)
    with pytest.raises(Conflict):
        local.retry(polled.id.task_id, reason="again")
    assert local.workflow(of).status == "FAILED"
    local.cancel(other, reason="not needed")
    assert local.retry(polled.id.task_id, reason="again").workflow_status == "RUNNING"


def test_no_more_attempts_are_in_progress_than_the_task_allows(local: LocalOrchestrator) -> None:
    """Counted over all workflows; another task is not held back by it."""
    raw = workflow(*fork("f", [simple("a"), simple("b")], [simple("c", name="other")]))
    rules = {"t": TaskRule(concurrent=2, delay_seconds=0), "other": NOW}
    for _ in range(3):
        local.start(raw, {}, rules=rules)
    held = [local.poll(None) for _ in range(9)]
    assert sorted(one.task_name for one in held if one) == ["other", "other", "other", "t", "t"]
    first = next(one for one in held if one and one.task_name == "t")
    local.complete(first.id, {})
    assert [one is None for one in (local.poll("t"), local.poll("t"))] == [False, True]


def test_attempts_are_handed_out_no_faster_than_the_task_allows(local: LocalOrchestrator, clock: HandClock) -> None:
    rules = {"t": TaskRule(rate_per_window=2, window_seconds=10, delay_seconds=0)}
    for _ in range(5):
        local.start(workflow(simple("a")), {}, rules=rules)

    def polled() -> int:
        return sum(local.poll("t") is not None for _ in range(5))

    assert polled() == 2
    clock.pass_seconds(9)
    assert polled() == 0
    clock.pass_seconds(1)
    assert polled() == 2


def test_the_limits_of_a_declaration_become_those_of_its_rule() -> None:
    limits = ExecutionLimits(concurrent=3, rate_per_window=5, window_seconds=7)
    rule = rule_of(replace(task_of(task(name="limited")(_nothing)), controls=TaskControls(limits=limits)))
    assert (rule.concurrent, rule.rate_per_window, rule.window_seconds) == (3, 5, 7)


def _nothing(params: _Nothing) -> _Nothing:
    return params


class _Nothing(BaseModel):
    pass


def test_what_cannot_be_run_leaves_nothing_behind(local: LocalOrchestrator) -> None:
    for raw, given in ((workflow({**simple("a"), "type": "HTTP"}), {}), (ONE, {}), (ONE, {"workspace": BLOCK, "x": 1})):
        with pytest.raises(InvalidInput):
            local.start(raw, given, rules={"t": NOW})
    assert local.workflows() == []
    with pytest.raises(NotFound):
        local.workflow("gone")


def test_a_file_of_the_first_format_is_read_on(tmp_path: Path, clock: HandClock) -> None:
    path = tmp_path / "old.db"
    at = "2026-01-01T00:00:00.000000+00:00"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(MIGRATIONS[0])
        old.execute("PRAGMA user_version = 1")
        old.execute("INSERT INTO identity VALUES (1, 'local-x')")
        for name, status in (("run", "RUNNING"), ("done", "COMPLETED")):
            old.execute(
                "INSERT INTO workflows (id, name, status, created_at) VALUES (?, 't', ?, ?)", (name, status, at)
            )
            old.execute(
                "INSERT INTO tasks (id, workflow, name, reference, seq, status, input, retry_limit, retry_delay,"
                " response_seconds, scheduled_at, due_at) VALUES (?, ?, 't', 'a', 1, ?, ?, 1, 0, 60, ?, ?)",
                (f"{name}-task", name, "SCHEDULED" if status == "RUNNING" else status, '{"x": "${no}"}', at, at),
            )
        old.commit()
    with closing(LocalOrchestrator(path, clock=clock)) as local:
        assert local.workflow("done").status == "COMPLETED"
        polled = local.poll("t")
        assert polled is not None
        assert polled.input == {"x": "${no}"}
        local.fail(polled.id, reason="no", terminal=False)
        assert step(local, "run") == "a"
        assert (local.workflow("run").status, local.id) == ("COMPLETED", "local-x")
