"""A random mix of faults under running workflows, on Conductor and lakeFS: what is lost, duplicated or mismatched.

Two workers serve one task through a network that can be made to fail. Workflows of a few steps are started all the
time, each on a branch of its own, while workers, executors and servers are killed, paused and restarted and answers are
lost, held and delayed. When the time is up the faults stop, every workflow is followed to its end, and its branch is
held against what the server says. The seed decides which faults come when; it is printed, and can be given again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
from tools.servers import Server, conductor_server, lakefs_server
from tools.servers.proxy import Fault, FaultProxy

from bench import harness
from bench.chaos_audit import HARMS, Harmed, Started, audit
from bench.chaos_tasks import STEP, chaos_step
from headgate.errors import HeadgateError, Transient
from headgate.ids import ULIDS
from headgate.lake.lakefs import Endpoint as LakeEndpoint
from headgate.lake.lakefs import LakeFSLake
from headgate.orchestrators.conductor import Client, Endpoint
from headgate.orchestrators.conductor.taskdefs import difference, register, server_task_def
from headgate.orchestrators.conductor.workflows import start_workflow, workflow
from headgate.tasks import task_of
from headgate.tasks.taskdef import task_def

STEPS = 3
WORKERS = 2
EXECUTORS = 2
AT_A_TIME = 4
"""Workflows that run at once."""
SETTLE = 240.0
"""Seconds that workflows have to end after the last fault."""
UP_WITHIN = 600.0
"""Seconds that a server may take to come up on a machine that has much else to do."""
SERVER_REST = 45.0
"""Seconds between two restarts of Conductor, which takes a while to come up."""


def definition() -> dict[str, Any]:
    steps = [
        {
            "name": STEP,
            "taskReferenceName": f"step_{number}",
            "type": "SIMPLE",
            "inputParameters": {
                "workspace": f"${{step_{number - 1}.output.workspace}}" if number else "${workflow.input.workspace}",
                "params": {
                    "token": "${workflow.input.token}",
                    "step": number,
                    "seconds": "${workflow.input.seconds}",
                },
            },
        }
        for number in range(STEPS)
    ]
    last = f"${{step_{STEPS - 1}.output.workspace}}"
    return {
        "name": "chaos",
        "version": 1,
        "ownerEmail": "bench@example.com",
        "tasks": steps,
        "outputParameters": {"workspace": last},
    }


class Worker:
    """A worker process that is started again whenever it is gone."""

    def __init__(self, folder: Path, domain: str, environ: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._domain, self._environ = folder, domain, environ
        self._child: subprocess.Popen[bytes] | None = None

    def tend(self) -> None:
        if self._child is not None and self._child.poll() is None:
            return
        line = ["headgate.cli.main", "worker", "bench.chaos_tasks", "-j", str(EXECUTORS), "--domain", self._domain]
        with (self._folder / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", *line],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **self._environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def family(self) -> list[psutil.Process]:
        """The supervisor, then its executors."""
        if self._child is None:
            return []
        with contextlib.suppress(psutil.Error):
            supervisor = psutil.Process(self._child.pid)
            return [supervisor, *supervisor.children()]
        return []

    def end(self) -> None:
        if self._child is None:
            return
        family = self.family
        self._child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(20)
        for one in family:
            with contextlib.suppress(psutil.Error):
                one.kill()
        self._child.wait()


class Chaos:
    """Workflows, workers, and what is done to them."""

    def __init__(self, conductor: Server, lakefs: Server, folder: Path, seed: int) -> None:
        self.conductor, self.lakefs, self.random = conductor, lakefs, random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.started: list[Started] = []
        self._folder, self._domain = folder, f"chaos-{ULIDS.new().lower()}"
        self._repository = f"chaos-{ULIDS.new().lower()}"
        self._over: set[str] = set()
        self._paused: list[tuple[float, list[psutil.Process]]] = []
        self._restarted_at = time.monotonic()
        self._client = Client(Endpoint(url=conductor.facts["api"]))
        self._lake = LakeFSLake(
            LakeEndpoint(url=lakefs.url, access_key_id=lakefs.access_key, secret_access_key=lakefs.secret_key)
        )

    @contextmanager
    def open(self) -> Iterator[None]:
        with ExitStack() as undo:
            undo.enter_context(closing(self._client))
            undo.enter_context(closing(self._lake))
            self._proxies = [undo.enter_context(FaultProxy(server.url)) for server in (self.conductor, self.lakefs)]
            self._prepare()
            self._workers = []
            for number in range(WORKERS):
                worker = Worker(self._folder / f"worker-{number}", self._domain, self._environ())
                undo.callback(worker.end)
                worker.tend()
                self._workers.append(worker)
            yield

    def _environ(self) -> dict[str, str]:
        orchestrator, lake = self._proxies
        return {
            "HEADGATE_ORCHESTRATOR": "conductor",
            "HEADGATE_CONDUCTOR_SERVER_URL": f"{orchestrator.url}/api",
            "HEADGATE_LAKEFS_ENDPOINT": lake.url,
            "HEADGATE_LAKEFS_ACCESS_KEY_ID": self.lakefs.access_key,
            "HEADGATE_LAKEFS_SECRET_ACCESS_KEY": self.lakefs.secret_key,
            "HEADGATE_WORKSPACE_KEEP_FAILED": "none",
        }

    def _prepare(self) -> None:
        told = task_def(task_of(chaos_step))
        register(self._client, told, difference(told, server_task_def(self._client, STEP)).standing)
        base = self._lake.create_repository(self._repository)
        for number in range(WORKERS):
            settings = f'[stores.chaos]\nlake = "lakefs"\nrepository = "{self._repository}"\n'
            folder = self._folder / f"worker-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "headgate.toml").write_text(settings)
        self._base = base

    # workflows
    def start_some(self) -> None:
        """Keep as many running as there are to be; a server that is away is left alone."""
        with contextlib.suppress(Transient):
            while len(self.started) - len(self._over) < AT_A_TIME:
                token = ULIDS.new().lower()
                self._lake.create_branch(self._repository, token, at=self._base)
                block = {"repository": self._repository, "branch": token, "ref_type": "commit", "ref": self._base}
                given = {"workspace": block, "token": token, "seconds": round(self.random.uniform(0, 0.5), 2)}
                # A start whose answer is lost leaves its branch to whatever was started: nobody looks at it again.
                id_ = start_workflow(self._client, definition(), given, domain=self._domain)
                self.started.append(Started(id_, token, token, self._base, STEPS))
            self.look()

    def look(self) -> None:
        for one in self.started:
            if one.workflow not in self._over and workflow(self._client, one.workflow).over:
                self._over.add(one.workflow)

    @property
    def running(self) -> int:
        return len(self.started) - len(self._over)

    # faults
    def fault(self) -> None:
        name, action = self.random.choice(self._possible())
        action()
        self.faults[name] += 1

    def _possible(self) -> list[tuple[str, Callable[[], None]]]:
        found: list[tuple[str, Callable[[], None]]] = [
            ("executor killed", self._kill_executor),
            ("executor killed", self._kill_executor),
            ("worker killed", self._kill_worker),
            ("worker paused", self._pause_worker),
            ("requests lost", self._lose_requests),
            ("answers lost", self._lose_answers),
            ("answers lost", self._lose_answers),
            ("requests late", self._hold_requests),
            ("lakeFS restarted", self._restart_lakefs),
        ]
        if time.monotonic() - self._restarted_at > SERVER_REST:
            found += [("Conductor restarted", self._restart_conductor)] * 3
        return found

    def _kill_executor(self) -> None:
        executors = [one for worker in self._workers for one in worker.family[1:]]
        if executors:
            with contextlib.suppress(psutil.Error):
                self.random.choice(executors).kill()

    def _kill_worker(self) -> None:
        for one in self.random.choice(self._workers).family[:1]:
            with contextlib.suppress(psutil.Error):
                one.kill()

    def _pause_worker(self) -> None:
        """For longer than a lease, at times: its attempts are then somebody else's when it goes on."""
        family = self.random.choice(self._workers).family
        for one in family:
            with contextlib.suppress(psutil.Error):
                one.send_signal(signal.SIGSTOP)
        self._paused.append((time.monotonic() + self.random.uniform(1, 20), family))

    def _lose_requests(self) -> None:
        self._arm(Fault.DROP_REQUEST)

    def _lose_answers(self) -> None:
        self._arm(Fault.DROP_ANSWER)

    def _hold_requests(self) -> None:
        held = self._arm(Fault.HOLD_REQUEST)
        timer = threading.Timer(self.random.uniform(1, 10), held.release)
        timer.daemon = True
        timer.start()

    def _arm(self, fault: Fault) -> Any:
        proxy, method = self.random.choice(self._proxies), self.random.choice(["POST", "PUT", "GET", "DELETE"])
        return proxy.next(method, "", fault, times=self.random.randint(1, 4))

    def _restart_lakefs(self) -> None:
        self.lakefs.kill()
        time.sleep(self.random.uniform(0, 2))
        self.lakefs.start(within=UP_WITHIN)

    def _restart_conductor(self) -> None:
        self.conductor.kill()
        time.sleep(self.random.uniform(0, 2))
        self.conductor.start(within=UP_WITHIN)
        self._restarted_at = time.monotonic()

    def tend(self, *, until: float | None = None) -> None:
        """Bring back what is due; everything, without a time."""
        still = []
        for at, family in self._paused:
            if until is not None and at > until:
                still.append((at, family))
                continue
            for one in family:
                with contextlib.suppress(psutil.Error):
                    one.send_signal(signal.SIGCONT)
        self._paused = still
        for worker in self._workers:
            worker.tend()

    def end_faults(self) -> None:
        for proxy in self._proxies:
            proxy.lift()
        self.tend()

    # the end
    def audit(self) -> Iterator[Harmed]:
        for one in self.started:
            now = workflow(self._client, one.workflow)
            if not now.over:
                yield Harmed("lost", f"workflow {one.workflow} did not end: {[task.status for task in now.tasks]}")
            else:
                yield from audit(one, now, self._lake, self._repository)

    def statuses(self) -> Counter[str]:
        return Counter(workflow(self._client, one.workflow).status for one in self.started)


def run(conductor: Server, lakefs: Server, folder: Path, *, seconds: float, seed: int) -> harness.Result:
    """So many seconds of faults, then the end of every workflow and the audit."""
    harness.say(f"seed {seed}")
    chaos = Chaos(conductor, lakefs, folder, seed)
    with chaos.open():
        ends, next_fault = time.monotonic() + seconds, time.monotonic() + 3.0
        while (now := time.monotonic()) < ends:
            chaos.tend(until=now)
            with contextlib.suppress(HeadgateError):
                chaos.start_some()
            if now >= next_fault:
                chaos.fault()
                next_fault = time.monotonic() + chaos.random.uniform(0.5, 4)
            time.sleep(0.1)
        chaos.end_faults()
        settled = time.monotonic() + SETTLE
        while chaos.running and time.monotonic() < settled:
            chaos.tend()
            with contextlib.suppress(Transient):
                chaos.look()
            time.sleep(0.3)
        harms = list(chaos.audit())
        statuses = chaos.statuses()
    for harmed in harms:
        harness.say(str(harmed))
    counted = Counter(harmed.harm for harmed in harms)
    return {
        "seed": seed,
        "workflows": len(chaos.started),
        "completed": statuses["COMPLETED"],
        "failed": len(chaos.started) - statuses["COMPLETED"],
        "faults": sum(chaos.faults.values()),
        "kinds": dict(sorted(chaos.faults.items())),
        **{harm: counted[harm] for harm in HARMS},
    }


def measure(args: argparse.Namespace) -> harness.Result:
    seed = args.seed or random.SystemRandom().randrange(1, 2**31)
    with (
        tempfile.TemporaryDirectory(prefix="headgate-chaos-") as folder,
        conductor_server() as conductor,
        lakefs_server() as lakefs,
    ):
        return run(conductor, lakefs, Path(folder), seconds=args.minutes * 60, seed=seed)


if __name__ == "__main__":
    harness.main(
        measure,
        name="chaos",
        about="a random mix of faults under running workflows on Conductor and lakeFS",
        arguments=[
            harness.argument("--minutes", 3.0, "how long faults are injected"),
            harness.argument("--seed", 0, "the faults of an earlier run; 0 for new ones"),
        ],
    )
