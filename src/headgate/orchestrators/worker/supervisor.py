"""The worker from its start until it is drained.

start     executors import the tasks while the server is waited for; TaskDefs that differ are told
work      pollers fetch, executors run, leases are kept here
drain     nothing is fetched any more, what runs goes on with its lease for the grace of its task
firm      told to stop a second time: bodies are ended and reported as failed, to be tried elsewhere at once
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

from headgate.attempts.report import AttemptReport
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import HeadgateError, Transient
from headgate.ids import ULIDS
from headgate.orchestrators.conductor import ConductorOrchestrator
from headgate.orchestrators.conductor.taskdefs import Standing, difference, server_task_def
from headgate.orchestrators.executors import Listener, Pool, Running, Setup, TaskFacts
from headgate.orchestrators.executors.burial import Burial
from headgate.orchestrators.executors.running import Why
from headgate.orchestrators.machine import Machine
from headgate.orchestrators.worker.pollers import LONG_WAIT, Pace, Poller
from headgate.orchestrators.worker.status import LiveAttempt, LiveWorker, StatusFile, status_file
from headgate.orchestrators.worker.telemetry import Telemetry
from headgate.settings import Settings
from headgate.telemetry import Observation

log = logging.getLogger(__name__)

DRAINED, FORCED, RESTART = 0, 1, 75
"""What the process ends with: nothing left undone; bodies were ended; start me again."""
_TICK = 0.2
_RATE_MINUTES = 5
_SETTLE_SECONDS = 5.0
"""For ending executors and closing connections after the last report."""
_FIRST_PAUSE, _LONGEST_PAUSE, _REMIND_EVERY = 0.2, 5.0, 30.0


def grace_seconds(tasks: Iterable[TaskFacts]) -> int:
    """How long a platform must wait between asking a worker to end and killing it."""
    longest = max((facts.longest_end for facts in tasks), default=0.0)
    return math.ceil(longest + LONG_WAIT + _SETTLE_SECONDS)


class Supervisor(Listener):
    """Runs one worker in the calling thread. `stop` may be called from a signal handler."""

    def __init__(
        self,
        settings: Settings,
        modules: Iterable[str],
        *,
        executors: int = 1,
        domain: str | None = None,
        folder: Path | None = None,
        debug: bool = False,
        say: Callable[[str], None] = log.info,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`say` tells whoever started it what it waits for and what it does."""
        settings = settings.model_copy(update={"orchestrator": "conductor"})
        self._settings, self._domain, self._executors = settings, domain, executors
        self._setup = Setup(settings=settings, modules=tuple(modules), folder=folder or Path.cwd(), debug=debug)
        self._say, self._clock = say, clock
        self._stops = 0
        self._polling_over = threading.Event()
        self._restart: str | None = None
        self._state = "waiting"
        self._tasks: dict[str, TaskFacts] = {}
        self._ended = 0
        self._ended_at: deque[datetime] = deque()
        self._id = ULIDS.new()
        self._started_at = clock.now()
        self._pollers: list[Poller] = []
        self._pace = Pace(clock)
        self._telemetry = Telemetry.silent()

    def stop(self) -> None:
        """Drain; firmly, if it was said before."""
        self._stops += 1

    def run(self) -> int:
        """Work until told to stop, or until only a restart helps; the exit code."""
        with ExitStack() as undo:
            machine = undo.enter_context(Machine(self._settings, clock=self._clock, domain=self._domain))
            conductor = machine.conductor
            burial = Burial(
                conductor,
                lambda repository: machine.lakes.of_repository(repository).lake,
                machine.records,
                clock=self._clock,
            )
            pool = Pool(
                self._setup,
                size=self._executors,
                orchestrator=conductor,
                burial=burial,
                listener=self,
                clock=self._clock,
            )
            undo.callback(pool.close)
            status = undo.enter_context(status_file(self._settings.state, self._id))
            self._tasks = pool.start()
            self._telemetry = undo.enter_context(Telemetry.serving(self._settings, pool, machine, self._unready))
            self._warn_of_tasks()
            if not self._server_is_there(conductor, pool, status):
                return DRAINED
            self._warn_of_differences(conductor)
            return self._work(conductor, pool, status)

    # start
    def _server_is_there(self, conductor: ConductorOrchestrator, pool: Pool, status: StatusFile) -> bool:
        """Wait for the server, and say so; False if told to stop meanwhile."""
        pause, told_at = _FIRST_PAUSE, -math.inf
        while not self._stops:
            try:
                version = conductor.client.version()
                known_as = conductor.id
            except Transient as error:
                if self._clock.monotonic() - told_at >= _REMIND_EVERY:
                    self._say(f"waiting for Conductor: {error.summary}")
                    told_at = self._clock.monotonic()
                self._show(pool, status)
                pool.tend(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                self._say(f"Conductor {version} at {conductor.client.name}, known as {known_as}")
                return True
        return False

    def _warn_of_tasks(self) -> None:
        for facts in self._tasks.values():
            for warning in facts.warnings:
                log.warning("%s", warning)

    def _warn_of_differences(self, conductor: ConductorOrchestrator) -> None:
        """Say where the server knows another task than the code declares; it is never changed from here."""
        for facts in self._tasks.values():
            if facts.task_def is None:
                continue
            try:
                found = difference(facts.task_def, server_task_def(conductor.client, facts.name))
            except HeadgateError as error:
                log.warning("the TaskDef of %s could not be compared: %s", facts.name, error)
                continue
            if found.standing is Standing.NEW:
                self._say(f"warning: the server has no TaskDef {facts.name}: headgate register {facts.module}")
            elif found.standing is Standing.CHANGED:
                differ = ", ".join(found.fields)
                self._say(
                    f"warning: the TaskDef {facts.name} at the server differs from the code in {differ}: "
                    f"headgate register {facts.module} --dry-run shows how"
                )

    # work
    def _work(self, conductor: ConductorOrchestrator, pool: Pool, status: StatusFile) -> int:
        stop = self._polling_over
        self._pollers = [
            Poller(name, conductor, pool, pace=self._pace, stop=stop, clock=self._clock) for name in self._tasks
        ]
        for poller in self._pollers:
            poller.start()
        self._state = "working"
        where = f" in the domain {self._domain}" if self._domain else ""
        self._say(f"working on {', '.join(sorted(self._tasks))}{where} with {self._executors} executors")
        outages = 0
        while not self._stops and self._restart is None:
            pool.tend(_TICK)
            self._show(pool, status)
            self._restart = self._restart or pool.broken
            seen = sum(poller.outages for poller in self._pollers)
            if seen != outages:
                outages = seen
                self._check_same_server(conductor)
        return self._drain(pool, status)

    def _check_same_server(self, conductor: ConductorOrchestrator) -> None:
        """A server that lost its database is another one: its task ids mean other things."""
        try:
            now = conductor.id_now()
        except HeadgateError:
            return
        if now != conductor.id:
            self._restart = f"the server is now known as {now}, and not as {conductor.id} any more"

    def _drain(self, pool: Pool, status: StatusFile) -> int:
        self._state = "draining"
        self._polling_over.set()
        began, forced = self._clock.monotonic(), False
        self._say(f"draining: {self._restart}" if self._restart else "draining; once more ends what still runs")
        while not pool.idle or any(poller.alive for poller in self._pollers):
            taken = self._clock.monotonic() - began
            firm = self._stops > 1

            def overdue(running: Running, taken: float = taken, firm: bool = firm) -> bool:
                limit = running.facts.grace_seconds if running.in_body else running.facts.longest_end
                return firm or taken >= limit

            if any(overdue(running) for running in pool.running()):
                forced = True
                pool.end_bodies(Why.STOPPED, only=overdue)
            pool.tend(_TICK)
            self._show(pool, status)
        if self._restart is not None:
            self._say(f"ended to be started again: {self._restart}")
            return RESTART
        self._say("bodies were ended and reported as failed" if forced else "drained")
        return FORCED if forced else DRAINED

    # what others see
    def _unready(self) -> str | None:
        if self._state != "working":
            return f"the worker is {self._state}"
        trouble = [poller.trouble for poller in self._pollers]
        return trouble[0] if trouble and all(trouble) else None

    def _show(self, pool: Pool, status: StatusFile) -> None:
        now = self._clock.now()
        while self._ended_at and now - self._ended_at[0] > timedelta(minutes=_RATE_MINUTES):
            self._ended_at.popleft()
        minutes = min(_RATE_MINUTES, max(1.0, (now - self._started_at).total_seconds() / 60))
        status.write(
            LiveWorker(
                id=self._id,
                pid=os.getpid(),
                state=self._state,
                server=self._settings.conductor.server_url or "",
                domain=self._domain,
                tasks=tuple(sorted(self._tasks)),
                executors=self._executors,
                started_at=self._started_at.isoformat(),
                ended=self._ended,
                per_minute=round(len(self._ended_at) / minutes, 1),
                attempts=tuple(self._shown(running) for running in pool.running()),
            )
        )

    def _shown(self, running: Running) -> LiveAttempt:
        return LiveAttempt(
            task=running.facts.name,
            workflow=running.attempt.id.workflow,
            task_id=running.attempt.id.task_id,
            execution=running.execution,
            retry_count=running.attempt.id.retry_count,
            phase=running.phase,
            began_at=running.began_at.isoformat(),
            progress="" if running.progress is None else running.progress.told,
        )

    # told by the pool
    def observed(self, seen: Observation) -> None:
        self._telemetry.record(seen)

    def ended(self, running: Running, report: AttemptReport) -> None:
        log.info(
            "%s: %s in %.2f s",
            report.task,
            report.status or "not reported",
            report.seconds,
            extra={"execution": report.execution, "task_id": report.attempt.task_id, "reason": report.reason},
        )
        self._count()

    def died(self, running: Running, why: Why, status: str | None) -> None:
        self._count()

    def _count(self) -> None:
        self._pace.happened()
        self._ended += 1
        self._ended_at.append(self._clock.now())
