"""A sample of the crash harness on an object store."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from headgate.testing.graph_crash import GraphCrash, Workers
from headgate.testing.graph_jobs import JOBS

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("name", ["mutate", "first_write_on_a_branch"])
def test_killed_writers_are_all_there_or_not_at_all(tmp_path: Path, place: str, name: str) -> None:
    report = GraphCrash(JOBS[name], lambda: f"{place}/{uuid4().hex}", Workers(tmp_path)).run(only=lambda n: n == 5)
    assert report.runs >= 4
    assert report.findings == []
