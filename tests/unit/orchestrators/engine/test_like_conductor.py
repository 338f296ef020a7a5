"""The engine ends where a Conductor server ended when it was recorded; with a server at hand both are run anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.differential.cases import CASES, Case
from tests.integration.differential.drivers import on_engine
from tests.integration.differential.recorded import recorded


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_engine_does_what_was_recorded_of_a_server(case: Case, tmp_path: Path) -> None:
    ours, theirs = on_engine(case, tmp_path), recorded()[case.name]
    assert ours.status == theirs.status
    assert ours.output == theirs.output
    assert ours.attempts == theirs.attempts


def test_every_case_was_recorded_and_no_other() -> None:
    assert set(recorded()) == {case.name for case in CASES}
