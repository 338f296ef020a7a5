"""Session-wide pytest fixtures for the real servers: a conftest imports the ones its tests use.

A server that cannot run here skips its tests with the reason and the command that would enable them. With
HEADGATE_REQUIRE_REAL=1, as in CI, it fails them instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from tools.servers.recipes import conductor_server, lakefs_server, s3_server, spark_cluster
from tools.servers.running import Server
from tools.servers.toolchains import Unavailable


@pytest.fixture(scope="session")
def lakefs() -> Iterator[Server]:
    """A lakeFS with actions on and its objects in a local folder."""
    with available(), lakefs_server() as server:
        yield server


@pytest.fixture(scope="session")
def lakefs_without_actions() -> Iterator[Server]:
    """A lakeFS that runs no hooks: only the soft fence works on it."""
    with available(), lakefs_server(actions=False) as server:
        yield server


@pytest.fixture(scope="session")
def lakefs_on_s3(s3: Server) -> Iterator[Server]:
    """A lakeFS whose objects are in S3, so that it hands out presigned URLs."""
    with available(), lakefs_server(blockstore=s3) as server:
        yield server


@pytest.fixture(scope="session")
def conductor() -> Iterator[Server]:
    with available(), conductor_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    with available(), s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def spark_master() -> Iterator[Server]:
    with available(), spark_cluster() as server:
        yield server


@contextmanager
def available() -> Iterator[None]:
    try:
        yield
    except Unavailable as reason:
        unavailable(str(reason))


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail where real servers are required."""
    if os.environ.get("HEADGATE_REQUIRE_REAL") == "1":
        pytest.fail(f"HEADGATE_REQUIRE_REAL=1, but {reason}", pytrace=False)
    pytest.skip(reason)
