"""A client of a real Conductor, and an orchestrator on it with queues of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.conductor.world import TASKS, World, world
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


@pytest.fixture
def here(tmp_path: Path, conductor: Server, lakefs: Server) -> Iterator[World]:
    """A folder for workers, with tasks the server knows."""
    with world(tmp_path, conductor, lakefs) as made:
        registered(made)
        yield made


def registered(made: World) -> None:
    done = made.command("register", TASKS)
    assert done.returncode == 0, done.stderr
