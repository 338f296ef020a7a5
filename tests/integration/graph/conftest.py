"""The graph's own tests on an object store: the same claims, with a bucket in place of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.unit.graph.conftest import SCHEMA, disarmed
from tools.servers.fixtures import s3
from tools.servers.running import Server

import headgate.graph as hg

__all__ = ["disarmed", "graph", "place", "s3"]

BUCKET = "graphs"


@pytest.fixture
def place(s3: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of its own in the bucket, reached by the usual variables."""
    (s3.data / "objects" / BUCKET).mkdir(exist_ok=True)
    variables = {
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_ENDPOINT_URL": s3.url,
        "AWS_REGION": "us-east-1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    return f"s3://{BUCKET}/{uuid4().hex}"


@pytest.fixture
def graph(place: str) -> Iterator[hg.Graph]:
    with hg.init(place, SCHEMA) as opened:
        yield opened
