"""Keeping the lease while an attempt works, and finding out that it is no longer wanted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.attempts.fence import IN_PROGRESS
from headgate.errors import HeadgateError
from headgate.tasks.protocols import AttemptId, Orchestrator

log = logging.getLogger(__name__)


@contextmanager
def heartbeat(
    orchestrator: Orchestrator, attempt: AttemptId, *, every: float, cancellation: threading.Event
) -> Iterator[None]:
    """Extend the lease every so many seconds while the block runs.

    `cancellation` is set as soon as the orchestrator says that the attempt is over or somebody else's; from then on
    nothing is extended. An orchestrator that does not answer is asked again at the next beat.
    """
    done = threading.Event()
    thread = threading.Thread(
        target=_beat, args=(orchestrator, attempt, every, cancellation, done), name="headgate-heartbeat", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _beat(
    orchestrator: Orchestrator, attempt: AttemptId, every: float, cancellation: threading.Event, done: threading.Event
) -> None:
    while not done.wait(every):
        try:
            now = orchestrator.current(attempt)
            if now.status != IN_PROGRESS or now.id != attempt:
                if not done.is_set():
                    log.warning("attempt %s is no longer current: the task is %s", attempt.task_id, now.status)
                    cancellation.set()
                return
            orchestrator.extend(attempt)
        except HeadgateError as error:
            log.warning("the lease of attempt %s could not be extended: %s", attempt.task_id, error)
