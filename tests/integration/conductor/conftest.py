"""A client of a real Conductor, and an orchestrator on it with queues of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tools.servers import Server

from headgate.ids import ULIDS
from headgate.orchestrators.conductor import Client, ConductorOrchestrator, Endpoint


@pytest.fixture
def client(conductor: Server) -> Iterator[Client]:
    client = Client(Endpoint(url=conductor.facts["api"]))
    yield client
    client.close()


@pytest.fixture
def domain() -> str:
    """Queues that no other test uses."""
    return ULIDS.new()


@pytest.fixture
def orchestrator(client: Client, domain: str) -> ConductorOrchestrator:
    return ConductorOrchestrator(client, domain=domain)
