"""Executors do what threads cannot: bodies that hold the interpreter, hang, die or will not listen are dealt with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from headgate.attempts.records import NOT_REPORTED
from headgate.attempts.report import AttemptReport
from headgate.clock import SYSTEM_CLOCK
from headgate.errors import InvalidTask, NotFound
from headgate.failpoints import Failpoint
from headgate.lake import EmbeddedLake
from headgate.lake.interface import MAIN, Changes
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.executors import Listener, Pool, Running, Setup
from headgate.orchestrators.executors.burial import Burial
from headgate.orchestrators.executors.running import Why
from headgate.orchestrators.machine import Machine
from headgate.settings import Settings, StoreSettings
from headgate.tasks.protocols import PolledAttempt

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


@dataclass
class Seen(Listener):
    reports: list[AttemptReport] = field(default_factory=list)
    deaths: list[tuple[Why, str | None]] = field(default_factory=list)

    def ended(self, running: Running, report: AttemptReport) -> None:
        self.reports.append(report)

    def died(self, running: Running, why: Why, status: str | None) -> None:
        self.deaths.append((why, status))


@dataclass
class World:
    """The embedded engine and lake in a folder, and executors that work for it."""

    machine: Machine
    folder: Path
    seen: Seen
    undo: ExitStack

    def pool(self, *, size: int = 1, module: str = "body_tasks") -> Pool:
        engine = self.machine.engine
        burial = Burial(
            engine, lambda name: self.machine.lakes.of_repository(name).lake, self.machine.records, clock=SYSTEM_CLOCK
        )
        setup = Setup(settings=self.machine.settings, modules=(module,), folder=HERE)
        made = Pool(setup, size=size, orchestrator=engine, burial=burial, listener=self.seen)
        self.undo.callback(made.close)
        return made

    def submit(self, task: str, *, workspace: bool = False, lease: float = 60.0, **params: Any) -> PolledAttempt:
        given: dict[str, Any] = {"params": params}
        if workspace:
            ref = str(self.machine.lakes.store("songs").lake.head("songs", MAIN).ref)
            given["workspace"] = {"repository": "songs", "branch": MAIN, "ref_type": "commit", "ref": ref}
        rule = TaskRule(count=2, delay_seconds=0, response_seconds=lease)
        self.machine.engine.submit(task, given, retry=rule)
        return self.poll(task)

    def poll(self, task: str) -> PolledAttempt:
        polled = self.machine.engine.poll(task)
        assert polled is not None
        return polled

    def begin(self, pool: Pool, attempt: PolledAttempt) -> None:
        slot = tended(pool, lambda: pool.take(stop=threading.Event()) if any_free(pool) else None)
        pool.begin(slot, attempt)

    def run(self, pool: Pool, attempt: PolledAttempt) -> None:
        self.begin(pool, attempt)
        tended(pool, lambda: pool.idle)

    def status(self, attempt: PolledAttempt) -> str:
        return self.machine.engine.task(attempt.id.task_id).status

    def reason(self, attempt: PolledAttempt) -> str:
        return self.machine.engine.task(attempt.id.task_id).reason


def any_free(pool: Pool) -> bool:
    return any(slot.free for slot in pool._slots)


def tended(pool: Pool, found: Callable[[], Any], *, within: float = 60.0) -> Any:
    """What `found` says, once it says something; the pool is tended meanwhile."""
    for _ in range(int(within / 0.02)):
        if got := found():
            return got
        pool.tend(0.02)
    raise AssertionError("it did not come to that")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    settings = Settings(state=tmp_path / "state", stores={"songs": StoreSettings(lake="embedded")})
    with Machine(settings) as machine, ExitStack() as undo:
        yield World(machine=machine, folder=tmp_path, seen=Seen(), undo=undo)


@pytest.fixture
def lake(world: World) -> Any:
    EmbeddedLake(world.machine.settings.state / "lake", create=True).close()
    made = world.machine.lakes.store("songs").lake
    made.create_repository("songs")
    made.commit("songs", MAIN, Changes(puts={"a.txt": b"a"}), message="as it began")
    return made


def test_imports_are_paid_once_and_attempts_run_side_by_side(world: World) -> None:
    pool = world.pool(size=2)
    assert set(pool.start()) >= {"tells", "dies"}
    tended(pool, lambda: all(slot.free for slot in pool._slots))
    for _ in range(2):
        attempts = [world.submit("tells") for _ in range(2)]
        for attempt in attempts:
            world.begin(pool, attempt)
        tended(pool, lambda: pool.idle)
        assert [world.status(attempt) for attempt in attempts] == ["COMPLETED", "COMPLETED"]
    told = {(report.result["pid"], report.result["imported_at"]) for report in world.seen.reports}
    assert len(told) == 2
    assert os.getpid() not in {pid for pid, _ in told}


def test_a_body_that_holds_the_interpreter_keeps_its_lease(world: World) -> None:
    pool = world.pool()
    pool.start()
    attempt = world.submit("holds_the_interpreter", lease=1.0, seconds=3)
    world.run(pool, attempt)
    assert world.status(attempt) == "COMPLETED"


@pytest.mark.parametrize(("task", "told"), [("dies", "ended by SIGKILL"), ("leaves", "ended with 3")])
def test_an_executor_that_dies_is_replaced_and_its_attempt_is_failed_at_once(
    world: World, task: str, told: str
) -> None:
    pool = world.pool()
    pool.start()
    attempt = world.submit(task)
    world.run(pool, attempt)
    assert world.status(attempt) == "FAILED"
    assert told in world.reason(attempt)
    assert world.reason(attempt).startswith("body: the executor died")
    [record] = world.machine.records.attempts()
    assert (record.status, record.phase) == ("FAILED", "body")
    again = world.submit("tells")
    world.run(pool, again)
    assert world.status(again) == "COMPLETED"


def test_a_body_that_hangs_is_ended_at_its_limit_with_what_it_started(world: World) -> None:
    pool = world.pool()
    pool.start()
    path = world.folder / "child"
    attempt = world.submit("hangs", path=str(path))
    world.run(pool, attempt)
    assert world.status(attempt) == "FAILED"
    assert "the time limit of 1 s has passed" in world.reason(attempt)
    tended(pool, lambda: not psutil.pid_exists(int(path.read_text())))


def test_a_limit_that_ends_the_workflow_is_left_to_the_orchestrator(world: World) -> None:
    pool = world.pool()
    pool.start()
    attempt = world.submit("hangs_for_the_workflow")
    world.run(pool, attempt)
    assert world.seen.deaths == [(Why.LIMIT, None)]
    assert world.status(attempt) == "IN_PROGRESS"
    assert world.machine.records.attempts()[0].status == NOT_REPORTED


def test_a_workflow_that_is_ended_reaches_the_body(world: World, lake: Any) -> None:
    pool = world.pool()
    pool.start()
    path = world.folder / "begun"
    attempt = world.submit("waits_until_cancelled", workspace=True, path=str(path))
    world.begin(pool, attempt)
    tended(pool, path.exists)
    world.machine.engine.cancel(attempt.id.workflow, reason="no longer needed")
    tended(pool, lambda: pool.idle)
    assert path.read_text() == "cancelled"
    assert [report.status for report in world.seen.reports] == [None]
    assert world.seen.deaths == []


def test_a_body_that_goes_on_when_nobody_wants_it_is_ended_after_its_grace(world: World, lake: Any) -> None:
    pool = world.pool()
    pool.start()
    path = world.folder / "begun"
    attempt = world.submit("goes_on_when_cancelled", workspace=True, path=str(path))
    world.begin(pool, attempt)
    tended(pool, path.exists)
    world.machine.engine.cancel(attempt.id.workflow, reason="no longer needed")
    tended(pool, lambda: pool.idle)
    assert world.seen.deaths == [(Why.UNWANTED, None)]
    assert world.status(attempt) == "CANCELED"


@pytest.mark.parametrize("point", [Failpoint.ATTEMPT_STAGED, Failpoint.ATTEMPT_PUBLISHED])
def test_what_a_dead_executor_had_staged_is_revoked_before_its_attempt_is_failed(
    world: World, lake: Any, point: Failpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 4: a request on its way must not take effect after the attempt was reported."""
    monkeypatch.setenv("KILL_AT", str(point))
    monkeypatch.setenv("KILLED", str(world.folder / "killed"))
    pool = world.pool()
    pool.start()
    first = world.submit("publishes", workspace=True)
    world.run(pool, first)
    assert world.status(first) == "FAILED"
    assert [branch.name for branch in lake.branches("songs")] == [MAIN]
    second = world.poll("publishes")
    world.run(pool, second)
    assert world.status(second) == "COMPLETED"
    head = lake.head("songs", MAIN)
    assert head.ref == world.seen.reports[-1].published
    assert [str(parent) for parent in head.parents] == [first.input["workspace"]["ref"]]


def test_what_is_wrong_with_a_module_is_told_at_the_start(world: World, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no module no_such_tasks"):
        world.pool(module="no_such_tasks").start()
    with pytest.raises(NotFound, match="declares no task 'tels'"):
        world.pool(module="body_tasks:tels").start()
    (tmp_path / "bad_tasks.py").write_text("from headgate import task\n@task()\ndef f(x): ...\n")
    setup = Setup(settings=world.machine.settings, modules=("bad_tasks",), folder=tmp_path)
    pool = world.pool()
    pool._setup = setup
    with pytest.raises(InvalidTask):
        pool.start()


def test_the_time_an_attempt_waits_in_the_pool_is_bounded_by_order(world: World) -> None:
    """Who asks first gets the next executor, so that no task starves another."""
    pool = world.pool()
    pool.start()
    held = tended(pool, lambda: pool.take(stop=threading.Event()) if any_free(pool) else None)
    order: list[int] = []
    threads = []
    for number in range(3):

        def take(number: int = number) -> None:
            slot = pool.take(stop=threading.Event())
            assert slot is not None
            order.append(number)
            pool.give_back(slot)

        threads.append(threading.Thread(target=take))
        threads[-1].start()
        while len(pool._waiting) <= number:
            threading.Event().wait(0.01)
    pool.give_back(held)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2]
