"""Answers of an overloaded server, and answers that come too late, in each phase of an attempt.

What is harmless to repeat is repeated a few times; a merge and a reset are sent once, and then read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.lakefs.world import FaultyWorld, check, faulty_world
from tests.unit.attempts.kit import declared, write
from tools.servers import Server
from tools.servers.proxy import Fault

from headgate.tasks import PublishBudget, TaskControls
from headgate.tasks.failures import Phase

pytestmark = pytest.mark.real

SOON = 1.0
TRIES = 4
ALWAYS = 1_000_000
WRITE = declared(
    write, controls=TaskControls(publish=PublishBudget(publish_timeout_seconds=SOON, safety_margin_seconds=0))
)
MERGE = ("POST", r"/refs/headgate-staging-[^/]+/merge/main")
RESET = ("PUT", r"/branches/main/hard_reset")


@dataclass(frozen=True)
class Step:
    """A request of an attempt that may be repeated, and the phase that fails with it."""

    method: str
    path: str
    phase: Phase | None


STEPS = {
    "list": Step("GET", r"/objects/ls", Phase.DOWNLOAD),
    "read": Step("GET", r"/refs/[0-9a-f]{64}/objects\?path=a", Phase.DOWNLOAD),
    "branch": Step("POST", r"/branches$", Phase.STAGE),
    "upload": Step("POST", r"/branches/headgate-staging-[^/]+/objects\?path=out", Phase.STAGE),
    "commit": Step("POST", r"/branches/headgate-staging-[^/]+/commits", Phase.STAGE),
    "head": Step("GET", r"/branches/main$", Phase.PUBLISH_FENCE),
    "cleanup": Step("DELETE", r"/branches/headgate-staging-", None),
}
every_step = pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))


@pytest.fixture
def world(lakefs: Server, tmp_path: Path) -> Iterator[FaultyWorld]:
    with faulty_world(lakefs, tmp_path / "kit", read_timeout=SOON) as world:
        yield world


# -------------------------------------------------------------------------------------------------------------- bursts
@every_step
def test_a_short_burst_is_waited_out(world: FaultyWorld, step: Step) -> None:
    for status in (429, 503, 500):
        world.proxy.next(step.method, step.path, Fault.ANSWER, status=status)
    attempt = world.kit.submit(WRITE)
    assert world.kit.run(WRITE, attempt).ok
    assert world.kit.staging_branches() == []
    check(world, attempt.id.workflow, WRITE)


@every_step
def test_a_burst_that_lasts_ends_as_the_failure_table_says(world: FaultyWorld, step: Step) -> None:
    attempt = world.kit.submit(WRITE)
    before = world.proxy.count(step.method, step.path)
    world.proxy.next(step.method, step.path, Fault.ANSWER, times=TRIES - 1, status=429)
    armed = world.proxy.next(step.method, step.path, Fault.ANSWER, times=ALWAYS, status=502)
    report = world.kit.run(WRITE, attempt)
    armed.lift()
    assert (report.status, report.phase) == ("FAILED" if step.phase else "COMPLETED", step.phase)
    assert world.proxy.count(step.method, step.path) - before == TRIES
    assert len(world.kit.staging_branches()) == (0 if step.phase else 1)
    assert (world.kit.head() == world.kit.input_ref) is bool(step.phase)
    check(world, attempt.id.workflow, WRITE)


@pytest.mark.parametrize("status", [429, 503])
def test_a_merge_is_sent_once_whatever_is_answered(world: FaultyWorld, status: int) -> None:
    attempt = world.kit.submit(WRITE)
    armed = world.proxy.next(*MERGE, Fault.ANSWER, times=ALWAYS, status=status)
    report = world.kit.run(WRITE, attempt)
    armed.lift()
    assert (report.status, report.phase) == ("FAILED", Phase.PUBLISH)
    assert world.proxy.count(*MERGE) == 1
    assert world.kit.head() == world.kit.input_ref
    check(world, attempt.id.workflow, WRITE)


@pytest.mark.parametrize("status", [429, 503])
def test_a_reset_is_sent_once_whatever_is_answered(world: FaultyWorld, status: int) -> None:
    retry = world.abandon(WRITE)
    head = world.kit.head()
    armed = world.proxy.next(*RESET, Fault.ANSWER, times=ALWAYS, status=status)
    report = world.kit.run(WRITE, retry)
    armed.lift()
    assert (report.status, report.phase) == ("FAILED", Phase.PUBLISH)
    assert world.proxy.count(*RESET) == 1
    assert world.kit.head() == head
    assert not world.gate().state().shut
    check(world, retry.id.workflow, WRITE)


# -------------------------------------------------------------------------------------------------------- late answers
@every_step
@pytest.mark.parametrize("fault", [Fault.HOLD_REQUEST, Fault.HOLD_ANSWER])
def test_one_late_answer_is_not_waited_for(world: FaultyWorld, step: Step, fault: Fault) -> None:
    """The first request is slow, before or after it took effect; it still arrives when all is over."""
    attempt = world.kit.submit(WRITE)
    armed = world.proxy.next(step.method, step.path, fault)
    assert world.kit.run(WRITE, attempt).ok
    armed.release()
    assert armed.over.wait(30)
    check(world, attempt.id.workflow, WRITE)


@pytest.mark.parametrize("step", [STEPS["read"], STEPS["upload"], STEPS["head"]], ids=["read", "upload", "head"])
def test_answers_that_are_always_late_end_as_the_failure_table_says(world: FaultyWorld, step: Step) -> None:
    attempt = world.kit.submit(WRITE)
    armed = world.proxy.next(step.method, step.path, Fault.HOLD_ANSWER, times=ALWAYS)
    report = world.kit.run(WRITE, attempt)
    armed.lift()
    assert (report.status, report.phase) == ("FAILED", step.phase)
    assert world.kit.head() == world.kit.input_ref
    check(world, attempt.id.workflow, WRITE)


def test_a_merge_answered_after_the_budget_is_found_published(world: FaultyWorld) -> None:
    attempt = world.kit.submit(WRITE)
    armed = world.proxy.next(*MERGE, Fault.HOLD_ANSWER)
    report = world.kit.run(WRITE, attempt)
    assert report.ok
    assert report.published == world.kit.head()
    assert armed.statuses == [200]
    check(world, attempt.id.workflow, WRITE)
    assert world.proxy.count(*MERGE) == 1


def test_a_merge_that_arrives_after_the_budget_is_found_not_published(world: FaultyWorld) -> None:
    attempt = world.kit.submit(WRITE)
    armed = world.proxy.next(*MERGE, Fault.HOLD_REQUEST)
    report = world.kit.run(WRITE, attempt)
    assert (report.status, report.phase) == ("FAILED", Phase.PUBLISH)
    assert "did not answer a POST" in report.reason
    armed.release()
    assert armed.over.wait(30)
    assert armed.statuses == [404]
    assert world.kit.head() == world.kit.input_ref
    check(world, attempt.id.workflow, WRITE)


@pytest.mark.parametrize(("fault", "status"), [(Fault.HOLD_ANSWER, "COMPLETED"), (Fault.HOLD_REQUEST, "FAILED")])
def test_a_reset_after_the_budget_is_read_back(world: FaultyWorld, fault: Fault, status: str) -> None:
    retry = world.abandon(WRITE)
    head = world.kit.head()
    armed = world.proxy.next(*RESET, fault)
    report = world.kit.run(WRITE, retry)
    assert report.status == status
    assert (world.kit.head() == head) is (status == "FAILED")
    armed.release()
    assert armed.over.wait(30)
    assert armed.statuses == [204 if status == "COMPLETED" else 404]
    check(world, retry.id.workflow, WRITE)
