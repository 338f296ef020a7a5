"""What a body logs is kept, with the facts it gave by keyword."""

from __future__ import annotations

import logging
from pathlib import Path

from headgate.attempts.body import body_boundary
from headgate.logs import FactsLogger


def test_the_facts_of_a_line_are_kept_with_it(tmp_path: Path) -> None:
    logger = logging.Logger("headgate.task.ingest", logging.INFO)
    with body_boundary(task="ingest", kept_at=tmp_path / "body.log", logger=logger):
        FactsLogger(logger).info("songs taken in", songs=24)
    assert "INFO songs taken in songs=24\n" in (tmp_path / "body.log").read_text()
