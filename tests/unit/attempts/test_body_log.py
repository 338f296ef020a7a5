"""What a body logs is kept, with the facts it gave by keyword."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from tests.unit.attempts.kit import Kit, Params, Result, declared

from headgate.attempts.body import body_boundary
from headgate.attempts.heartbeat import beat_every
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.task_log import MOST_LINES
from headgate.logs import FactsLogger, Redactor
from headgate.tasks import TaskContext


def test_the_facts_of_a_line_are_kept_with_it(tmp_path: Path) -> None:
    logger = logging.Logger("headgate.task.ingest", logging.INFO)
    with body_boundary(task="ingest", kept_at=tmp_path / "body.log", logger=logger):
        FactsLogger(logger).info("songs taken in", songs=24)
    assert "INFO songs taken in songs=24\n" in (tmp_path / "body.log").read_text()


def logs_much(params: Params, context: TaskContext) -> Result:
    context.logger.info("signed in with hush-hush", songs=24)
    context.logger.debug("not worth a line")
    for number in range(MOST_LINES):
        context.logger.warning("again %d", number)
    return Result(files=0)


def test_what_a_body_logs_reaches_the_log_of_the_task_bounded_and_without_secrets(kit: Kit) -> None:
    declaration = declared(logs_much, workspace=None)
    runtime = replace(kit.runtime, redact=Redactor(["hush-hush"]).text)
    polled = kit.submit(declaration)
    assert run_attempt(runtime, declaration, polled).ok
    lines = "\n".join(kit.orchestrator.logs(polled.id.task_id)).splitlines()
    assert lines[:2] == ["INFO signed in with ******** songs=24", "WARNING again 0"]
    assert lines[-2:] == [f"WARNING again {MOST_LINES - 2}", "(more lines are in the log of the worker)"]


def tells_a_secret(params: Params) -> Result:
    raise ConnectionError("https://me:hush-hush@example.com does not answer")


def test_neither_reasons_nor_tracebacks_tell_secrets(kit: Kit) -> None:
    declaration = declared(tells_a_secret, workspace=None)
    polled = kit.submit(declaration)
    report = run_attempt(replace(kit.runtime, redact=Redactor(["hush-hush"]).text), declaration, polled)
    told = kit.orchestrator.task(polled.id.task_id).reason + "".join(kit.orchestrator.logs(polled.id.task_id))
    assert "ConnectionError" in report.reason
    assert "does not answer" in told
    assert "hush-hush" not in told


def test_a_lease_that_is_shorter_than_the_declared_beat_is_beaten_more_often(kit: Kit) -> None:
    polled = kit.submit(declared(tells_a_secret, workspace=None))
    assert beat_every(replace(polled, response_seconds=6), declared=10) == 2
    assert beat_every(replace(polled, response_seconds=600), declared=10) == 10
