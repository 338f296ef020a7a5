"""What a body logs, sent to the orchestrator's log of the task: in batches, bounded, and never in the body's way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headgate.errors import HeadgateError
from headgate.logs import FactsFormatter
from headgate.tasks.protocols import AttemptId, Orchestrator

log = logging.getLogger(__name__)

MOST_LINES = 1000
"""Lines of one attempt that are sent; it may log more, and all of them are in this machine's log."""
_LONGEST_LINE = 4000
_EVERY = 2.0
"""Seconds between two batches while the body runs."""


class TaskLog(logging.Handler):
    """Holds lines until the next batch; an orchestrator that does not take one costs its lines and nothing else."""

    def __init__(self, orchestrator: Orchestrator, attempt: AttemptId, *, redact: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(FactsFormatter("%(levelname)s %(message)s"))
        self._orchestrator, self._attempt, self._redact = orchestrator, attempt, redact
        self._held: list[str] = []
        self._room = MOST_LINES
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._room <= 0:
            return
        self._room -= 1
        line = self._redact(self.format(record))[:_LONGEST_LINE]
        self._held.append(line if self._room else f"{line}\n(more lines are in the log of the worker)")
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_now_and_then, name="headgate-task-log", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Send what is still held."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._send()

    def _send_now_and_then(self) -> None:
        while not self._over.wait(_EVERY):
            self._send()

    def _send(self) -> None:
        self.acquire()
        lines, self._held = self._held, []
        self.release()
        if not lines:
            return
        try:
            self._orchestrator.log(self._attempt, "\n".join(lines))
        except HeadgateError as error:
            log.info("%d lines did not reach the log of task %s: %s", len(lines), self._attempt.task_id, error)


@contextmanager
def task_log(
    logger: logging.Logger, orchestrator: Orchestrator, attempt: AttemptId, *, redact: Callable[[str], str]
) -> Iterator[None]:
    """Send what is logged on `logger` in the block to the task's log."""
    handler = TaskLog(orchestrator, attempt, redact=redact)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.finish()
