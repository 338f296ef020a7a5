"""Both fences, the order they stand in, and what an attempt that is no longer current may not do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.attempts.faults import Faulty, SteppingClock, first_only, lost_after, lost_before
from tests.unit.attempts.kit import LOOK, WRITE, Kit, at

from headgate.errors import PublishFenceError, StaleAttemptError, Transient
from headgate.failpoints import Failpoint
from headgate.publication import Replace
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.protocols import AttemptSnapshot

DOWN = Transient(message="the orchestrator does not answer")


def lease_runs_out(kit: Kit) -> None:
    [running] = kit.orchestrator.tasks(running=True)
    kit.orchestrator.retry(running.id, reason="the lease ran out")


@pytest.mark.parametrize("task", [WRITE, LOOK], ids=["changed", "unchanged"])
@pytest.mark.parametrize(
    "point", [Failpoint.ATTEMPT_IN_BODY, Failpoint.ATTEMPT_AFTER_BODY, Failpoint.ATTEMPT_STAGED], ids=str
)
def test_invariant_2_a_stale_attempt_publishes_nothing(kit: Kit, task: TaskDeclaration, point: Failpoint) -> None:
    with at(point, lambda: lease_runs_out(kit)):
        report = kit.run(task)
    assert isinstance(report.error, StaleAttemptError)
    assert kit.head() == kit.input_ref
    assert report.output is None
    kit.assert_nothing_left()
    retried = kit.run(task, kit.poll(task))
    assert retried.ok, retried.reason


def test_a_stale_attempt_that_has_published_leaves_the_branch_alone(kit: Kit) -> None:
    """Its publication is abandoned: logged, and replaced by the attempt that is current, never by itself."""
    with at(Failpoint.ATTEMPT_PUBLISHED, lambda: lease_runs_out(kit)):
        report = kit.run(WRITE, text="stale")
    assert isinstance(report.error, StaleAttemptError)
    assert kit.history() == [kit.input_ref, report.published]
    [noted] = kit.records.abandoned_publications()
    assert (noted.execution, noted.ref, noted.input_ref) == (report.execution, report.published, kit.input_ref)
    assert (noted.store, noted.branch) == (kit.repository, "main")
    retried = kit.run(WRITE, kit.poll(WRITE))
    assert retried.ok, retried.reason
    assert kit.history() == [kit.input_ref, retried.published]
    assert retried.published != report.published


def test_a_paused_stale_attempt_cannot_replace_what_was_accepted_meanwhile(kit: Kit) -> None:
    """The head is read before the second fence: whatever is published after the read fails the conditional update."""
    attempt = kit.submit(WRITE, text="paused")

    def another_one_is_accepted() -> None:
        kit.orchestrator.retry(attempt.id.task_id, reason="the lease ran out")
        # It runs in the middle of the paused one, which has already passed its second fence.
        second = kit.run(WRITE, kit.poll(WRITE, attempt.id.workflow))
        assert second.ok, second.reason

    with at(Failpoint.ATTEMPT_AFTER_SECOND_FENCE, another_one_is_accepted):
        report = kit.with_options(replace=Replace.ANY).run(WRITE, attempt)
    assert isinstance(report.error, PublishFenceError)
    assert "somebody moved it" in report.error.message
    [completed] = [task for task in kit.orchestrator.tasks() if task.status == "COMPLETED"]
    assert completed.output is not None
    assert kit.history() == [kit.input_ref, completed.output["workspace"]["ref"]]


def test_a_person_who_commits_after_the_head_was_read_is_not_overwritten(kit: Kit) -> None:
    with at(Failpoint.ATTEMPT_AFTER_SECOND_FENCE, kit.somebody_commits):
        report = kit.run(WRITE)
    assert isinstance(report.error, PublishFenceError)
    assert report.status == "FAILED"
    assert "person.txt" in kit.files()
    assert "out.txt" not in kit.files()
    kit.assert_nothing_left()


@pytest.mark.parametrize("task", [WRITE, LOOK], ids=["changed", "unchanged"])
def test_an_orchestrator_that_cannot_answer_fails_the_fence(kit: Kit, task: TaskDeclaration) -> None:
    attempt = kit.submit(task)
    silent = Faulty(kit.orchestrator, {"current": lost_before(DOWN)})
    report = kit.with_parts(orchestrator=silent).run(task, attempt)
    assert isinstance(report.error, StaleAttemptError)
    assert "could not say" in report.error.message
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


@pytest.mark.parametrize("field", ["retry_count", "poll_count", "worker_id", "workflow"])
def test_every_part_of_the_identity_counts(kit: Kit, field: str) -> None:
    attempt = kit.submit(WRITE)
    other: object = "somebody else" if field in ("worker_id", "workflow") else getattr(attempt.id, field) - 1
    report = kit.run(WRITE, replace(attempt, id=replace(attempt.id, **{field: other})))
    assert isinstance(report.error, StaleAttemptError)
    assert field in report.error.message
    assert kit.head() == kit.input_ref


def test_only_the_first_poll_of_a_task_id_works(kit: Kit) -> None:
    first = kit.submit(WRITE)
    kit.orchestrator.give_back(first.id)
    second = kit.poll(WRITE)
    assert second.id.poll_count == 2
    ran = []

    def body_runs() -> None:
        ran.append(True)

    with pytest.raises(AssertionError, match="never reached"), at(Failpoint.ATTEMPT_BEFORE_DOWNLOAD, body_runs):
        report = kit.run(WRITE, second)
    report = kit.run(WRITE, second)
    assert isinstance(report.error, StaleAttemptError)
    third = kit.poll(WRITE)
    assert third.id.task_id != first.id.task_id
    assert kit.run(WRITE, third).ok


def test_a_no_op_first_takes_earlier_attempts_their_right_to_publish(kit: Kit) -> None:
    """An earlier attempt of the task that has passed its fences, and wakes up late, finds its branch gone."""
    attempt = kit.submit(WRITE)
    unchanged = replace(LOOK, name=WRITE.name)

    def a_later_attempt_completes_with_the_input_ref() -> None:
        kit.orchestrator.retry(attempt.id.task_id, reason="the lease ran out")
        assert len(kit.staging_branches()) == 1
        later = kit.run(unchanged, kit.poll(WRITE))
        assert later.ok, later.reason
        assert kit.staging_branches() == []

    with at(Failpoint.ATTEMPT_AFTER_SECOND_FENCE, a_later_attempt_completes_with_the_input_ref):
        report = kit.run(WRITE, attempt)
    assert report.status == "FAILED"
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_a_stale_no_op_leaves_a_later_attempt_s_staging_branch(kit: Kit) -> None:
    stale = kit.submit(LOOK)
    changed = replace(WRITE, name=LOOK.name)
    kit.orchestrator.retry(stale.id.task_id, reason="the lease ran out")

    def the_stale_one_wakes_up_behind_its_first_fence() -> None:
        passed = AttemptSnapshot(id=stale.id, status="IN_PROGRESS")
        late = Faulty(kit.orchestrator, {"current": first_only(lambda call, *args: passed)})
        report = kit.with_parts(orchestrator=late).run(LOOK, stale)
        assert isinstance(report.error, StaleAttemptError)

    with at(Failpoint.ATTEMPT_STAGED, the_stale_one_wakes_up_behind_its_first_fence):
        report = kit.run(changed, kit.poll(LOOK))
    assert report.ok, report.reason
    assert kit.history() == [kit.input_ref, report.published]


def test_a_completion_that_was_lost_on_its_way_is_sent_again(kit: Kit) -> None:
    attempt = kit.submit(WRITE)
    shaky = Faulty(kit.orchestrator, {"complete": first_only(lost_before(DOWN))})
    report = kit.with_parts(orchestrator=shaky).run(WRITE, attempt)
    assert report.ok, report.reason
    assert shaky.calls.count("complete") == 2


def test_a_completion_whose_answer_was_lost_counts_once(kit: Kit) -> None:
    attempt = kit.submit(WRITE)
    shaky = Faulty(kit.orchestrator, {"complete": first_only(lost_after(DOWN))})
    report = kit.with_parts(orchestrator=shaky).run(WRITE, attempt)
    assert report.ok, report.reason
    assert kit.orchestrator.task(attempt.id.task_id).output == report.output


def test_a_completion_that_cannot_be_delivered_is_an_abandoned_publication(kit: Kit) -> None:
    attempt = kit.submit(WRITE)
    clock = SteppingClock()
    deaf = Faulty(kit.orchestrator, {"complete": lost_before(DOWN)})
    report = kit.with_parts(orchestrator=deaf, clock=clock, wait=clock.wait).run(WRITE, attempt)
    assert report.status is None
    assert report.output is None
    [noted] = kit.records.abandoned_publications()
    assert noted.ref == report.published == kit.head()
    lease_runs_out(kit)
    retried = kit.run(WRITE, kit.poll(WRITE))
    assert kit.history() == [kit.input_ref, retried.published]


def test_an_attempt_of_an_ended_workflow_reports_nothing(kit: Kit) -> None:
    attempt = kit.submit(WRITE)
    asked = Faulty(kit.orchestrator)
    with at(Failpoint.ATTEMPT_STAGED, lambda: kit.orchestrator.cancel(attempt.id.workflow, reason="stopped")):
        report = kit.with_parts(orchestrator=asked).run(WRITE, attempt)
    assert report.status is None
    assert "fail" not in asked.calls
    assert "complete" not in asked.calls
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()
