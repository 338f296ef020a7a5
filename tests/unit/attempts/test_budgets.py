"""Publish times are kept per task, fill the budget, and are warned about where they do not fit it."""

from __future__ import annotations

from tests.unit.attempts.kit import WRITE, Kit, declared

from headgate.attempts.budgets import budget_for
from headgate.attempts.records import PublishTimes
from headgate.clock import SYSTEM_CLOCK
from headgate.tasks import PublishBudget, TaskControls, TimeoutPolicy


def recorded(kit: Kit, task: str, *seconds: float) -> None:
    for number, taken in enumerate(seconds):
        kit.records.published(
            execution=f"{task}-{number}",
            task=task,
            store="workspace",
            move="merge",
            strength="hard",
            seconds=taken,
            at=SYSTEM_CLOCK.now(),
        )


def test_times_are_kept_by_task(kit: Kit) -> None:
    recorded(kit, "one", 1, 2, 3, 4, 5)
    recorded(kit, "two", 10)
    assert kit.records.publish_times("one") == PublishTimes(task="one", count=5, p50=3, p99=5)
    assert kit.records.published_tasks() == ["one", "two"]
    assert kit.records.publish_times("three") is None


def test_a_budget_for_what_was_observed_holds_it() -> None:
    slow = budget_for(PublishTimes(task="t", count=9, p50=20, p99=61.2))
    assert (slow.observed_publish_p99_seconds, slow.publish_timeout_seconds) == (61.2, 67)
    quick = budget_for(PublishTimes(task="t", count=9, p50=0.001, p99=0.0021))
    assert (quick.observed_publish_p99_seconds, quick.publish_timeout_seconds) == (0.003, 30)


def test_a_timeout_shorter_than_what_was_recorded_is_warned_about_and_left(kit: Kit) -> None:
    task = declared(WRITE.function)
    recorded(kit, task.name, 29.5)
    report = kit.run(task)
    assert report.ok, report.reason
    assert any("p99 of 29.5 s" in warning for warning in report.warnings)


def test_a_lease_shorter_than_the_budget_is_warned_about_and_left(kit: Kit) -> None:
    controls = TaskControls(timeout=TimeoutPolicy(response_seconds=600), publish=PublishBudget())
    task = declared(WRITE.function, controls=controls)
    kit.retry = type(kit.retry)(delay_seconds=0, response_seconds=20)
    report = kit.run(task)
    assert any("response_seconds is 20" in warning for warning in report.warnings)
    assert kit.run(WRITE, kit.submit(WRITE, ref=kit.head())).warnings == report.warnings
