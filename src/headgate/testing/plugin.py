"""The pytest plug-in: the fixture `run_task`. Nothing of Headgate is imported until a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headgate.testing.place import Place
    from headgate.testing.running import TaskRunner


@pytest.fixture(scope="session")
def _headgate_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One lake for all tests of the run, since making one costs more than a test; each test has its own repository."""
    from headgate.testing.place import Place

    with Place(tmp_path_factory.mktemp("headgate")) as place:
        yield place


@pytest.fixture
def run_task(_headgate_place: Place) -> TaskRunner:
    """Runs tasks on an embedded lake of this test's own: `run_task(task, files={…}, params={…})`.

    The answer tells status, result, changed paths, files and history. A second call without `files` goes on from what
    the first one published.
    """
    from headgate.testing.running import TaskRunner

    return TaskRunner(_headgate_place)
