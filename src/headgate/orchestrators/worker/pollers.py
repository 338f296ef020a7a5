"""Fetching attempts: one thread for each task, polling only while an executor is reserved for what may come."""

from __future__ import annotations

import logging
import random
import threading
from typing import Protocol

from headgate.clock import Clock
from headgate.errors import HeadgateError
from headgate.orchestrators.executors import Pool
from headgate.tasks.protocols import PolledAttempt

log = logging.getLogger(__name__)

LONG_WAIT = 1.0
"""Seconds the server waits for a task to come, where nobody else needs the executor meanwhile."""
_SHARED_WAIT = 0.2
_ACTIVE_SECONDS = 3.0
_SHORTEST_PAUSE, _ACTIVE_PAUSE = 0.005, 0.04
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_REMIND_EVERY = 60.0


class Pace:
    """How often to ask: all the time after something happened, as a next task tends to follow; seldom when idle.

    A server that is asked to wait for a task looks for one every 100 ms or so: asked without, it answers at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active_at = clock.monotonic()

    def happened(self) -> None:
        """An attempt began or ended."""
        self._active_at = self._clock.monotonic()

    def next(self, *, shared: bool) -> tuple[float, float]:
        """For how long the server is to wait, and how long to pause after it; `shared` where others wait for a turn."""
        since = self._clock.monotonic() - self._active_at
        if since < _ACTIVE_SECONDS:
            return 0.0, min(max(since / 10, _SHORTEST_PAUSE), _ACTIVE_PAUSE)
        return (_SHARED_WAIT if shared else LONG_WAIT), 0.0


class Polls(Protocol):
    def poll(self, task_name: str, *, wait: float) -> PolledAttempt | None: ...


class Poller:
    """Polls one task until `stop` is set. Whatever goes wrong, what runs goes on, and polling begins again."""

    def __init__(
        self, task: str, orchestrator: Polls, pool: Pool, *, pace: Pace, stop: threading.Event, clock: Clock
    ) -> None:
        self._task, self._orchestrator, self._pool, self._stop, self._clock = task, orchestrator, pool, stop, clock
        self._pace = pace
        self._thread = threading.Thread(target=self._run, name=f"headgate-poll-{task}", daemon=True)
        self._failures = 0
        self._told_at: float | None = None
        self.trouble: str | None = None
        """Why the last poll failed; None if it did not."""
        self.outages = 0
        """How often polling failed and worked again."""

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._poll()
            except HeadgateError as error:
                self._failed(str(error))
            except Exception as error:
                log.exception("polling %s failed in a way that was not foreseen", self._task)
                self._failed(f"{type(error).__name__}: {error}")
            else:
                self._worked()

    def _poll(self) -> None:
        slot = self._pool.take(stop=self._stop)
        if slot is None:
            return
        wait, pause = self._pace.next(shared=self._pool.contended)
        attempt = None
        try:
            attempt = self._orchestrator.poll(self._task, wait=wait)
        finally:
            if attempt is None:
                self._pool.give_back(slot)
        if attempt is not None:
            self._pool.begin(slot, attempt)
            self._pace.happened()
        elif pause:
            self._stop.wait(pause)

    def _failed(self, told: str) -> None:
        self.trouble = told
        now = self._clock.monotonic()
        if self._told_at is None or now - self._told_at >= _REMIND_EVERY:
            self._told_at = now
            log.warning("no attempts of %s can be fetched: %s; trying on", self._task, told)
        pause = min(_FIRST_PAUSE * 2 ** min(self._failures, 10), _LONGEST_PAUSE)
        self._failures += 1
        self._stop.wait(pause * random.uniform(0.5, 1.0))

    def _worked(self) -> None:
        if self._failures:
            log.info("attempts of %s are fetched again", self._task)
            self._failures, self.trouble = 0, None
            self.outages += 1
