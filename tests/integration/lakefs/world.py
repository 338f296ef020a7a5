"""A lakeFS, an attempt's parts on it, and what must hold after a fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.unit.attempts.kit import WRITE, Kit, crash_at, fresh_repository
from tools.servers import Server
from tools.servers.proxy import FaultProxy

from headgate import failpoints
from headgate.attempts.gc import reclaim_branches, reclaim_workspaces
from headgate.clock import SYSTEM_CLOCK
from headgate.failpoints import Failpoint
from headgate.lake.lakefs import Endpoint, LakeFSLake
from headgate.lake.lakefs.gate import Gate
from headgate.publication import Ref
from headgate.tasks import TaskDeclaration
from headgate.tasks.protocols import PolledAttempt


@dataclass
class World:
    server: Server
    kit: Kit

    def bounce(self) -> None:
        self.server.kill()
        self.server.start()

    def clean_up(self) -> None:
        lake, orchestrator = self.kit.lake, self.kit.orchestrator
        reclaim_workspaces(self.kit.runtime.options.workspace_root, clock=SYSTEM_CLOCK)
        reclaim_branches(lake, [self.kit.repository], orchestrator, clock=SYSTEM_CLOCK)

    def gate(self) -> Gate:
        assert isinstance(self.kit.lake, LakeFSLake)
        return Gate(self.kit.lake.api, self.kit.repository, "main")


@dataclass
class FaultyWorld(World):
    """A world whose network can be made to fail; the fence of its repository has been proved."""

    proxy: FaultProxy

    def abandon(self, task: TaskDeclaration = WRITE) -> PolledAttempt:
        """Publish, die before completion, and poll the retry: it has a head to replace."""
        attempt = self.kit.submit(task)
        with crash_at(Failpoint.ATTEMPT_PUBLISHED):
            self.kit.run(task, attempt)
        self.kit.orchestrator.fail(attempt.id, reason="its lease ran out", terminal=False)
        return self.kit.poll(task, attempt.id.workflow)


@contextmanager
def faulty_world(server: Server, folder: Path, *, read_timeout: float = 60.0) -> Iterator[FaultyWorld]:
    with FaultProxy(server.url) as proxy:
        endpoint = Endpoint(
            url=proxy.url,
            access_key_id=server.access_key,
            secret_access_key=server.secret_key,
            read_timeout=read_timeout,
        )
        kit = Kit.make(folder, LakeFSLake(endpoint, fence="hard"), repository=fresh_repository())
        kit.lake.strength(kit.repository)
        try:
            yield FaultyWorld(server, kit, proxy)
        finally:
            failpoints.arm(None)
            kit.close()


def finish(world: World, workflow: str, task: TaskDeclaration = WRITE) -> Ref:
    """Retry as the orchestrator would, until the task is done; the ref it was accepted with."""
    kit = world.kit
    for _ in range(4):
        attempt = kit.orchestrator.poll(task.name, workflow=workflow)
        if attempt is None:
            break
        kit.run(task, attempt)
    (done,) = [task for task in kit.orchestrator.tasks(workflow=workflow) if task.status == "COMPLETED"]
    return Ref(done.output["workspace"]["ref"])


def check(world: World, workflow: str, task: TaskDeclaration = WRITE) -> None:
    """After whatever happened: a retry ends with one publication on the input ref, and gc leaves nothing."""
    accepted = finish(world, workflow, task)
    world.clean_up()
    assert world.kit.history() == [world.kit.input_ref, accepted]
    assert world.kit.files()["out.txt"] == b"new"
    world.kit.assert_nothing_left()
    assert not world.gate().state().shut
