"""A lakeFS that dies, comes back or stays away, and workers that die, at each window of an attempt.

After each: no success that is not one, the target at the input ref or at a child of it, a retry that ends with
`A -> C`, and nothing left after gc.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.lakefs.conftest import connect
from tests.integration.lakefs.world import World, check
from tests.unit.attempts.kit import WRITE, Kit, at, crash_at, fresh_repository
from tools.servers import Server, lakefs_server
from tools.servers.fixtures import available

from headgate import failpoints
from headgate.attempts.gates import reclaim_gates
from headgate.clock import SYSTEM_CLOCK
from headgate.failpoints import Failpoint
from headgate.lake.lakefs import LakeFSLake
from headgate.lake.publisher import Owner

pytestmark = pytest.mark.real

WINDOWS = [point for point in Failpoint if point.value.startswith("attempt.")]


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server that these tests may kill; each finds it running again."""
    with available(), lakefs_server() as server:
        yield server


@pytest.fixture
def world(mortal: Server, tmp_path: Path) -> Iterator[World]:
    if not mortal.running:
        mortal.start()
    kit = Kit.make(tmp_path, connect(mortal), repository=fresh_repository())
    kit.lake.strength(kit.repository)
    yield World(mortal, kit)
    failpoints.arm(None)
    kit.close()


@pytest.mark.parametrize("window", WINDOWS)
def test_a_server_that_is_killed_and_restarted(world: World, window: Failpoint) -> None:
    attempt = world.kit.submit(WRITE)
    with at(window, world.bounce):
        world.kit.run(WRITE, attempt)
    check(world, attempt.id.workflow)


@pytest.mark.parametrize("window", [Failpoint.ATTEMPT_BEFORE_DOWNLOAD, Failpoint.ATTEMPT_AFTER_SECOND_FENCE])
def test_a_server_that_stays_away_until_the_retry(world: World, window: Failpoint) -> None:
    attempt = world.kit.submit(WRITE)
    with at(window, world.server.kill):
        report = world.kit.run(WRITE, attempt)
    assert not report.ok
    world.server.start()
    check(world, attempt.id.workflow)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_worker_that_dies(world: World, window: Failpoint) -> None:
    attempt = world.kit.submit(WRITE)
    with crash_at(window):
        world.kit.run(WRITE, attempt)
    if world.kit.orchestrator.task(attempt.id.task_id).status != "COMPLETED":
        world.kit.orchestrator.fail(attempt.id, reason="its lease ran out", terminal=False)
    check(world, attempt.id.workflow)


def test_gc_opens_a_gate_that_a_dead_replacer_left_shut(world: World) -> None:
    kit = world.kit
    assert isinstance(kit.lake, LakeFSLake)
    attempt = kit.submit(WRITE)
    gate = world.gate()
    gate.register()
    owner = Owner(
        orchestrator=kit.orchestrator.id, workflow=attempt.id.workflow, task_id=attempt.id.task_id, execution="dead"
    )
    gate.shut(owner, "headgate-staging-dead")
    kit.lake.create_branch(kit.repository, "headgate-probe-01arz3ndektsv4rrffq69g5fav-source", at=kit.input_ref)
    running = reclaim_gates(kit.lake, [kit.repository], kit.orchestrator, clock=SYSTEM_CLOCK)
    assert [found.kind for found in running.left] == ["gate"]
    assert gate.state().shut
    kit.orchestrator.fail(attempt.id, reason="dead", terminal=True)
    dry = reclaim_gates(kit.lake, [kit.repository], kit.orchestrator, clock=SYSTEM_CLOCK, dry_run=True)
    assert [found.kind for found in dry.removed] == ["gate"]
    assert gate.state().shut
    done = reclaim_gates(
        kit.lake, [kit.repository], kit.orchestrator, clock=SYSTEM_CLOCK, unknown_after=timedelta(hours=1)
    )
    assert [found.kind for found in done.removed] == ["gate", "gate records"]
    assert not gate.state().shut
    assert not done.failed
