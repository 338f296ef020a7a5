"""Keeping the lease while an attempt works, and finding out that it is no longer wanted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headgate.attempts.fence import IN_PROGRESS
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import HeadgateError
from headgate.tasks.protocols import AttemptId, Orchestrator, PolledAttempt

log = logging.getLogger(__name__)

_BEATS_A_LEASE = 3
"""At least so many fit into a lease: one may be lost."""


def beat_every(attempt: PolledAttempt, *, declared: float) -> float:
    """Seconds between two beats: as declared, more often where the lease is too short for that."""
    return min(declared, attempt.response_seconds / _BEATS_A_LEASE)


class Heartbeat:
    """Extends the lease every so many seconds, in a thread of its own.

    `cancellation` is set as soon as the orchestrator says that the attempt is over or somebody else's; from then on
    nothing is extended. An orchestrator that does not answer is asked again at the next beat.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        attempt: AttemptId,
        *,
        every: float,
        cancellation: threading.Event,
        reporting: Callable[[], bool] = lambda: False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`reporting` says whether the attempt may have ended its task itself."""
        self._reporting = reporting
        self._orchestrator, self._attempt, self._every = orchestrator, attempt, every
        self._cancellation, self._clock = cancellation, clock
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="headgate-heartbeat", daemon=True)
        self.extended_at = clock.monotonic()
        """When the lease was last known to be whole."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No beat begins after this; one that waits for its answer is not waited for."""
        self._done.set()

    def join(self) -> None:
        self._thread.join()

    def _beat(self) -> None:
        while not self._done.wait(self._every):
            asked_at = self._clock.monotonic()
            try:
                now = self._orchestrator.current(self._attempt)
                if now.status != IN_PROGRESS or now.id != self._attempt:
                    ended_by_us = now.id == self._attempt and self._reporting()
                    if not self._done.is_set() and not ended_by_us:
                        log.warning(
                            "attempt %s is no longer current: the task is %s", self._attempt.task_id, now.status
                        )
                        self._cancellation.set()
                    return
                self._orchestrator.extend(self._attempt)
                self.extended_at = asked_at
            except HeadgateError as error:
                log.warning("the lease of attempt %s could not be extended: %s", self._attempt.task_id, error)


@contextmanager
def heartbeat(
    orchestrator: Orchestrator,
    attempt: AttemptId,
    *,
    every: float,
    cancellation: threading.Event,
    reporting: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Extend the lease from this process while the block runs."""
    beating = Heartbeat(orchestrator, attempt, every=every, cancellation=cancellation, reporting=reporting)
    beating.start()
    try:
        yield
    finally:
        beating.stop()
        beating.join()
