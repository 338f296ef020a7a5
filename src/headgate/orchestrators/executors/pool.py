"""Several executors: kept alive, handed out one attempt at a time, ended where they must be.

Processes are started and tended by the thread that calls `start` and `tend`, for they end with it. One thread for each
executor receives what it says. An executor that dies is replaced at once, one that keeps dying after longer and longer
waits; its attempt is ended by whoever noticed, with its lease kept until then.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headgate.attempts.cancellation import Cancellation
from headgate.attempts.heartbeat import Heartbeat, beat_every
from headgate.attempts.report import AttemptReport
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import HeadgateError, Transient
from headgate.orchestrators.executors.burial import Burial
from headgate.orchestrators.executors.messages import (
    Begin,
    Broken,
    Cancel,
    Ended,
    Entered,
    Observed,
    Progressed,
    Ready,
    Setup,
    TaskFacts,
    Took,
)
from headgate.orchestrators.executors.process import ExecutorProcess, told_ending
from headgate.orchestrators.executors.running import CAUSES, REPORTING, Running, Why
from headgate.tasks.protocols import Orchestrator, PolledAttempt
from headgate.telemetry import Observation
from headgate.telemetry.metrics import attempt_ended

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
MOST_FAILED_STARTS = 5
"""So many executors in a row that never became ready: something is wrong that another one will not mend."""


class Listener:
    """Is told what goes on, from any thread; override what is of interest. Must not wait, and must not raise."""

    def began(self, running: Running) -> None: ...

    def took(self, running: Running, step: str, seconds: float) -> None: ...

    def progressed(self, running: Running) -> None: ...

    def observed(self, seen: Observation) -> None: ...

    def ended(self, running: Running, report: AttemptReport) -> None: ...

    def died(self, running: Running, why: Why, status: str | None) -> None: ...


@dataclass(eq=False)
class Slot:
    """The place of one executor."""

    number: int
    process: ExecutorProcess | None = None
    ready: bool = False
    taken: bool = False
    running: Running | None = None
    deaths: int = 0
    """In a row, without an attempt that ended in between."""
    start_at: float = 0.0

    @property
    def free(self) -> bool:
        return self.ready and not self.taken


@dataclass
class _Starts:
    facts: dict[str, TaskFacts] = field(default_factory=dict)
    failed: int = 0
    error: HeadgateError | None = None


class Pool:
    """A number of executors of one set-up. `close` ends them."""

    def __init__(
        self,
        setup: Setup,
        *,
        size: int,
        orchestrator: Orchestrator,
        burial: Burial,
        listener: Listener | None = None,
        clock: Clock = SYSTEM_CLOCK,
        start: Callable[[Setup], ExecutorProcess] = ExecutorProcess,
    ) -> None:
        self._setup, self._orchestrator, self._burial = setup, orchestrator, burial
        self._listener, self._clock, self._start_process = listener or Listener(), clock, start
        self._changed = threading.Condition()
        self._slots = [Slot(number) for number in range(size)]
        self._waiting: deque[object] = deque()
        self._burying: set[int] = set()
        self._starts = _Starts()
        self._closing = False

    # starting
    def start(self) -> dict[str, TaskFacts]:
        """Start every executor; what tasks there are, as the first one says that is ready."""
        with self._changed:
            for slot in self._slots:
                self._spawn(slot)
        while not self._starts.facts:
            self.tend(1.0)
            if self._starts.error is not None:
                raise self._starts.error
            if self.broken:
                raise Transient(message=self.broken, hint="the lines before this one say why")
        return self._starts.facts

    @property
    def broken(self) -> str | None:
        """Why no executor can be had; None while one can."""
        if self._starts.failed < MOST_FAILED_STARTS:
            return None
        return f"{self._starts.failed} executors in a row ended before they were ready"

    # work
    def take(self, *, stop: threading.Event) -> Slot | None:
        """Reserve a free executor, in the order of asking; None when `stop` is set first."""
        with self._changed:
            ticket = object()
            self._waiting.append(ticket)
            try:
                while not stop.is_set() and not self._closing:
                    free = next((slot for slot in self._slots if slot.free), None)
                    if free is not None and self._waiting[0] is ticket:
                        free.taken = True
                        return free
                    self._changed.wait(0.5)
                return None
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    @property
    def contended(self) -> bool:
        """Whether somebody waits for an executor."""
        return bool(self._waiting)

    def give_back(self, slot: Slot) -> None:
        """A reserved executor that got no attempt."""
        with self._changed:
            slot.taken = False
            self._changed.notify_all()

    def begin(self, slot: Slot, attempt: PolledAttempt) -> None:
        """Run an attempt in a reserved executor; its lease is kept from here."""
        facts = self._starts.facts[attempt.task_name]
        cancellation = Cancellation()
        beat = Heartbeat(
            self._orchestrator,
            attempt.id,
            every=beat_every(attempt, declared=facts.heartbeat_seconds),
            cancellation=cancellation,
            reporting=lambda: running.phase in REPORTING,
            clock=self._clock,
        )
        running = Running(
            attempt=attempt,
            facts=facts,
            began=self._clock.monotonic(),
            began_at=self._clock.now(),
            cancellation=cancellation,
            heartbeat=beat,
        )
        with self._changed:
            process = slot.process
            slot.running = running
            if process is None:  # it died between being taken and being given work
                slot.running, slot.taken = None, False
                self._burying.add(id(running))
        if process is not None:
            process.send(Begin(attempt))
        cancellation.add(lambda: self._cancelled(slot, running))
        beat.start()
        self._listener.began(running)
        if process is None:
            self._bury(running, Why.DIED, "before it could begin")

    def running(self) -> list[Running]:
        return [running for slot in self._slots if (running := slot.running) is not None]

    @property
    def idle(self) -> bool:
        """Whether nothing runs, and nothing of what ran waits to be reported."""
        with self._changed:
            return not self._burying and all(slot.running is None for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        return [slot.process.pid for slot in self._slots if slot.process is not None]

    # tending
    def tend(self, wait: float) -> None:
        """Replace what died, end what is overdue; then, or after so many seconds, return."""
        with self._changed:
            now = self._clock.monotonic()
            for slot in self._slots:
                if slot.process is None and not self._closing and now >= slot.start_at:
                    self._spawn(slot)
                running = slot.running
                if running is not None:
                    if (why := running.overdue(now)) is not None:
                        self._end(slot, why)
                    else:
                        wait = min(wait, running.next_look(now))
                elif slot.process is None:
                    wait = min(wait, max(0.0, slot.start_at - now))
            self._changed.wait(max(wait, 0.01))

    def end_bodies(self, why: Why, *, only: Callable[[Running], bool] = lambda running: True) -> None:
        """End the executors of running attempts; each attempt is reported by who receives its end."""
        with self._changed:
            for slot in self._slots:
                if slot.running is not None and only(slot.running):
                    self._end(slot, why)

    def close(self) -> None:
        """End every executor. What still runs is reported as if it had died."""
        with self._changed:
            self._closing = True
            for slot in self._slots:
                if slot.process is not None:
                    if slot.running is not None:
                        slot.running.ended_because = slot.running.ended_because or Why.STOPPED
                    slot.process.end()
            while self._burying or any(slot.process is not None for slot in self._slots):
                self._changed.wait(0.5)

    def _spawn(self, slot: Slot) -> None:
        slot.ready = False
        slot.process = self._start_process(self._setup)
        threading.Thread(
            target=self._listen, args=(slot, slot.process), name=f"headgate-executor-{slot.number}", daemon=True
        ).start()

    def _end(self, slot: Slot, why: Why) -> None:
        assert slot.running is not None
        if slot.running.ended_because is None and slot.process is not None:
            slot.running.ended_because = why
            slot.process.end()

    # what executors say
    def _listen(self, slot: Slot, process: ExecutorProcess) -> None:
        try:
            while True:
                self._heard(slot, process.receive())
        except EOFError:
            pass
        except Exception:
            log.exception("executor %d said what could not be understood; it is replaced", process.pid)
        self._gone(slot, told_ending(process.close()))

    def _heard(self, slot: Slot, message: object) -> None:
        running = slot.running
        match message:
            case Entered(execution=execution, phase=phase) if running is not None:
                running.execution, running.phase = execution, phase
            case Took(step=step, seconds=seconds) if running is not None:
                running.steps.append((step, seconds))
                self._listener.took(running, step, seconds)
            case Progressed(progress=progress) if running is not None:
                running.progress = progress
                self._listener.progressed(running)
            case Observed(seen=seen):
                self._listener.observed(seen)
            case Ended(report=report) if running is not None:
                running.heartbeat.stop()
                self._listener.ended(running, report)
                with self._changed:
                    slot.running, slot.taken, slot.deaths = None, False, 0
                    self._changed.notify_all()
            case Ready(tasks=tasks):
                with self._changed:
                    self._starts.facts = self._starts.facts or {facts.name: facts for facts in tasks}
                    self._starts.failed = 0
                    slot.ready = True
                    self._changed.notify_all()
            case Broken(error=error):
                with self._changed:
                    self._starts.error = error
                log.error("an executor cannot work: %s", error)

    def _gone(self, slot: Slot, told: str) -> None:
        with self._changed:
            running, was_ready = slot.running, slot.ready
            why = (running.ended_because if running is not None else None) or Why.DIED
            slot.process, slot.running, slot.ready, slot.taken = None, None, False, slot.taken and running is None
            if why is Why.DIED and not self._closing:
                slot.deaths += 1
                log.warning("executor %d is gone: %s", slot.number, told)
            if not was_ready:
                self._starts.failed += 1
            pause = 0.0 if slot.deaths <= 1 and was_ready else _FIRST_PAUSE * 2 ** max(0, slot.deaths - 2)
            slot.start_at = self._clock.monotonic() + min(pause, _LONGEST_PAUSE)
            if running is not None:
                self._burying.add(id(running))
            self._changed.notify_all()
        if running is not None:
            self._bury(running, why, told)

    def _bury(self, running: Running, why: Why, told: str) -> None:
        try:
            status = self._burial.bury(running, why, told)
            self._listener.observed(attempt_ended(running.facts.name, CAUSES[why]))
            self._listener.died(running, why, status)
        except Exception:
            log.exception("the end of attempt %s could not be dealt with; its lease runs out", running.execution)
        finally:
            running.heartbeat.stop()
            with self._changed:
                self._burying.discard(id(running))
                self._changed.notify_all()

    def _cancelled(self, slot: Slot, running: Running) -> None:
        """The orchestrator does not want the attempt any more: its body is told, and ended if it goes on."""
        with self._changed:
            running.cancelled_at = self._clock.monotonic()
            process = slot.process if slot.running is running else None
            self._changed.notify_all()
        if process is not None:
            process.send(Cancel(running.attempt.id.worker_id))
