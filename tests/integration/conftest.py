"""The real servers, and one Spark for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tools.servers.fixtures import (
    conductor,
    lakefs,
    lakefs_on_s3,
    lakefs_without_actions,
    s3,
    spark_master,
    unavailable,
)

from headgate.settings import SparkSettings
from headgate.spark import SparkSessions, needs

__all__ = ["conductor", "lakefs", "lakefs_on_s3", "lakefs_without_actions", "s3", "spark_master", "sparks"]


@pytest.fixture(scope="session")
def sparks(request: pytest.FixtureRequest) -> Iterator[SparkSessions]:
    """Spark on this machine. A JVM gets its packages when it starts: those for lakeFS if any test is to use both."""
    settings = SparkSettings(
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False, "spark.default.parallelism": 2},
    )
    if wrong := list(needs.problems(settings)):
        unavailable(f"Spark cannot run: {wrong[0].message}; {wrong[0].fix}")
    items = request.session.items
    on_lakefs = any(item.get_closest_marker("real") and "sparks" in getattr(item, "fixturenames", ()) for item in items)
    sessions = SparkSessions(settings, on_lakefs=on_lakefs)
    yield sessions
    sessions.close()
