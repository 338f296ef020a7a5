from __future__ import annotations

import io
import logging

import pytest

from headgate.logs import FactsFormatter, FactsLogger


@pytest.fixture
def written() -> tuple[FactsLogger, io.StringIO]:
    stream = io.StringIO()
    logger = logging.Logger("headgate.task.test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(FactsFormatter("%(levelname)s %(funcName)s: %(message)s"))
    logger.addHandler(handler)
    return FactsLogger(logger), stream


def test_facts_follow_the_message_and_the_place_is_the_callers(written: tuple[FactsLogger, io.StringIO]) -> None:
    log, stream = written
    log.bind(task="ingest").info("took %d in", 3, songs=3)
    name = "test_facts_follow_the_message_and_the_place_is_the_callers"
    assert stream.getvalue() == f"INFO {name}: took 3 in task=ingest songs=3\n"


def test_a_fact_may_have_any_name(written: tuple[FactsLogger, io.StringIO]) -> None:
    log, stream = written
    log.warning("odd", name="a", message="b", args=1)
    assert "odd fact_name=a fact_message=b fact_args=1" in stream.getvalue()


def test_an_exception_brings_its_traceback(written: tuple[FactsLogger, io.StringIO]) -> None:
    log, stream = written
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("failed", song="x")
    assert "failed song=x" in stream.getvalue()
    assert "ValueError: no" in stream.getvalue()


def test_each_level_is_its_own(written: tuple[FactsLogger, io.StringIO]) -> None:
    log, stream = written
    for say in (log.debug, log.info, log.warning, log.error):
        say("x")
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["DEBUG", "INFO", "WARNING", "ERROR"]
