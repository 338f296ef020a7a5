"""What a body may do to the process it runs in, and what it gets to work with."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.unit.attempts.kit import Kit, Params, Result, declared

from headgate.attempts.kept import KeepFailed, KeepLimits, KeptAttempts
from headgate.clock import SYSTEM_CLOCK
from headgate.tasks import Progress, TaskContext


def test_the_working_folder_is_put_back(kit: Kit) -> None:
    def wander(workspace: Path, params: Params) -> Result:
        os.chdir(workspace)
        (workspace / "out.txt").write_text("x")
        return Result(files=0)

    before = Path.cwd()
    assert kit.run(declared(wander)).ok
    assert Path.cwd() == before
    kit.assert_nothing_left()


def test_the_working_folder_is_put_back_after_a_failure_in_a_removed_folder(kit: Kit) -> None:
    def lost(workspace: Path, params: Params) -> Result:
        (workspace / "here").mkdir()
        os.chdir(workspace / "here")
        (workspace / "here").rmdir()
        raise ValueError("where am I")

    before = Path.cwd()
    kit.run(declared(lost))
    assert Path.cwd() == before


def test_threads_and_processes_left_behind_are_named(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    stop = threading.Event()
    started: list[subprocess.Popen[bytes]] = []

    def leave(workspace: Path, params: Params) -> Result:
        threading.Thread(target=stop.wait, name="the one left behind").start()
        started.append(subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE))
        (workspace / "out.txt").write_text("x")
        return Result(files=0)

    try:
        with caplog.at_level(logging.WARNING):
            report = kit.run(declared(leave))
    finally:
        stop.set()
        started[0].communicate()
    assert report.ok, report.reason
    assert "the one left behind" in caplog.text
    assert str(started[0].pid) in caplog.text


def test_the_body_gets_a_context(kit: Kit) -> None:
    seen: list[object] = []
    told: list[Progress] = []

    def curious(workspace: Path, params: Params, context: TaskContext) -> Result:
        seen.extend([context.attempt, context.execution, context.cancelled, context.task_name])
        context.progress(1, 2, "half way")
        return Result(files=0)

    task = declared(curious)
    report = kit.with_parts(on_progress=told.append).run(task)
    assert seen == [report.attempt, report.execution, False, task.name]
    assert told == [Progress(done=1, total=2, message="half way")]


def test_a_workflow_that_ends_sets_the_cancelled_flag(kit: Kit) -> None:
    from headgate.tasks import PublishBudget, TaskControls

    def patient(workspace: Path, params: Params, context: TaskContext) -> Result:
        kit.orchestrator.cancel(context.attempt.workflow, reason="no longer needed")
        assert context.cancellation.wait(60)
        (workspace / "out.txt").write_text("too late")
        return Result(files=0)

    budget = PublishBudget(heartbeat_interval_seconds=0.01)
    report = kit.run(declared(patient, controls=TaskControls(publish=budget)))
    assert report.status is None
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_heartbeats_keep_the_lease(kit: Kit) -> None:
    from headgate.tasks import PublishBudget, TaskControls

    leases = []

    def patient(workspace: Path, params: Params, context: TaskContext) -> Result:
        first = kit.orchestrator.task(context.attempt.task_id).lease_until
        leases.append(first)
        while kit.orchestrator.task(context.attempt.task_id).lease_until == first:
            threading.Event().wait(0.005)
        leases.append(kit.orchestrator.task(context.attempt.task_id).lease_until)
        return Result(files=0)

    budget = PublishBudget(heartbeat_interval_seconds=0.01)
    report = kit.run(declared(patient, controls=TaskControls(publish=budget)))
    assert report.ok, report.reason
    assert leases[1] > leases[0]


def test_what_a_failed_body_printed_and_logged_is_kept(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    def chatty(workspace: Path, params: Params, context: TaskContext) -> Result:
        print("printed")
        print("to the other stream", file=sys.stderr)
        context.logger.info("logged %s", 7, songs=3)
        (workspace / "half.txt").write_text("half done")
        raise ValueError("and failed")

    limits = KeepLimits(mode=KeepFailed.LAST)
    task = declared(chatty)
    report = kit.with_options(keep=limits).run(task)
    assert report.kept_at is not None
    kept = KeptAttempts(kit.runtime.options.workspace_root, limits, clock=SYSTEM_CLOCK).get(report.execution)
    assert "printed" in kept.output
    assert "to the other stream" in kept.output
    assert "INFO logged 7 songs=3" in kept.output
    assert kept.root is not None
    assert (kept.root / "half.txt").read_text() == "half done"
    assert kept.report["input"] == {"workspace": kit.block(), "params": {}}
    assert kept.report["phase"] == "body"
    assert "ValueError: and failed" in kept.report["traceback"]
    assert {"headgate", "python"} <= set(kept.report["versions"])
    assert capsys.readouterr().out == "printed\n"
    kit.assert_nothing_left()


def test_only_the_last_failure_of_a_task_is_kept_and_never_too_much(kit: Kit) -> None:
    def bulky(workspace: Path, params: Params) -> Result:
        (workspace / "bulk").write_bytes(b"x" * int(params.text))
        raise ValueError("no")

    limits = KeepLimits(mode=KeepFailed.LAST, max_bytes=50_000)
    kept = KeptAttempts(kit.runtime.options.workspace_root, limits, clock=SYSTEM_CLOCK)
    keeping, task, other = kit.with_options(keep=limits), declared(bulky), declared(bulky)
    keeping.run(task, text="10")
    second = keeping.run(task, text="20")
    third = keeping.run(other, text="30")
    assert [one.execution for one in kept.all()] == [second.execution, third.execution]
    large = keeping.run(declared(bulky), text="60_000")
    assert kept.get(large.execution).root is None
    assert kept.get(large.execution).report["reason"] == large.reason
