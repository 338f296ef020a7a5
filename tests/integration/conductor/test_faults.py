"""Workers, servers and networks that fail while workflows run on a real Conductor and a real lakeFS.

After each: the workflow completes, each step has exactly one visible publish whose ref is what the workflow says, and
gc leaves nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest
from tests.integration.conductor.conftest import registered
from tests.integration.conductor.world import World, until, world
from tools.servers import Server
from tools.servers.proxy import Fault, FaultProxy

from headgate.failpoints import Failpoint

pytestmark = pytest.mark.real

WINDOWS = [point for point in Failpoint if point.value.startswith("attempt.")]
OF_THE_WORKER = [
    Failpoint.ATTEMPT_BEFORE_DOWNLOAD,
    Failpoint.ATTEMPT_IN_BODY,
    Failpoint.ATTEMPT_HALF_UPLOADED,
    Failpoint.ATTEMPT_AFTER_SECOND_FENCE,
    Failpoint.ATTEMPT_PUBLISHED,
    Failpoint.ATTEMPT_COMPLETED,
]


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, conductor: Server, lakefs: Server) -> Iterator[World]:
    """One world with one worker, for faults that a worker outlives."""
    with world(tmp_path_factory.mktemp("lasting"), conductor, lakefs) as made:
        registered(made)
        made.worker()
        yield made


@pytest.mark.parametrize("window", WINDOWS)
def test_an_executor_that_is_killed_in_each_phase(lasting: World, window: Failpoint) -> None:
    lasting.control("kill-at", f"{window} executor")
    workflow = lasting.start()
    lasting.check(workflow)
    assert not (lasting.folder / "control" / "kill-at").exists()
    reasons = [task.reason for task in lasting.show(workflow).tasks if task.status == "FAILED"]
    assert all("the executor died: it was ended by SIGKILL" in reason for reason in reasons)
    # After its completion was accepted there is nothing left to fail.
    assert len(reasons) == (0 if window in (Failpoint.ATTEMPT_COMPLETED, Failpoint.ATTEMPT_STAGING_DELETED) else 1)


@pytest.mark.parametrize("window", OF_THE_WORKER)
def test_a_worker_that_is_killed_in_each_phase(here: World, window: Failpoint) -> None:
    """The supervisor and, with it, its executors: the lease runs out, and another worker goes on."""
    first = here.worker()
    here.control("kill-at", f"{window} worker")
    workflow = here.start()
    assert first.wait() == -signal.SIGKILL
    here.worker()
    here.check(workflow)


def test_a_supervisor_that_is_killed_takes_its_executors_along(here: World) -> None:
    worker = here.worker("-j", "2")
    here.control("hold")
    workflow = here.start()
    here.held()
    executors = psutil.Process(worker.process.pid).children(recursive=True)
    assert len(executors) == 2
    worker.signal(signal.SIGKILL)
    worker.wait()
    until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in executors), "their end")
    here.lift("hold")
    here.worker()
    here.check(workflow)


def test_two_supervisors_for_one_task(here: World) -> None:
    here.worker("-j", "2")
    here.worker("-j", "2")
    for _ in range(4):
        workflow = here.start()
        here.check(workflow)


def test_a_network_that_drops_every_third_answer(here: World) -> None:
    with FaultProxy(here.api.removesuffix("/api")) as proxy:
        here.worker(through=f"{proxy.url}/api", ready=True)
        proxy.every(3, Fault.DROP_ANSWER)
        workflow = here.start()
        here.check(workflow)
        assert proxy.dropped > 3


def test_a_lake_that_is_killed_while_a_body_runs_and_comes_back(here: World, lakefs: Server) -> None:
    worker = here.worker()
    here.control("hold")
    workflow = here.start()
    here.held()
    lakefs.kill()
    here.lift("hold")
    until(lambda: any(t.status == "FAILED" for t in here.show(workflow).tasks) or worker.told("FAILED"), "a failure")
    lakefs.start()
    here.check(workflow)


def test_a_clock_that_jumps(here: World) -> None:
    here.control("jump")
    here.worker()
    workflow = here.start()
    over = here.over(workflow)
    here.lift("jump")
    here.check(workflow)
    assert [task.retry_count for task in over.tasks] == [0, 0]


def test_a_conductor_that_is_killed_and_restarted_while_tasks_run(here: World, conductor: Server) -> None:
    if not conductor.commands:
        pytest.skip("this server is not ours to kill")
    worker = here.worker("-j", "2")
    here.control("hold")
    workflow = here.start()
    here.held()
    conductor.kill()
    here.lift("hold")
    until(lambda: worker.told("no attempts of"), "a poller that notices")
    conductor.start()
    here.check(workflow)
    assert worker.process.poll() is None
