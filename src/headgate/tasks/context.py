"""What a task body may ask about the attempt it runs in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from headgate.tasks.protocols import AttemptId
from headgate.tasks.signals import TaskCancelled


class Logger(Protocol):
    """The part of a structlog logger that bodies use: an event, and facts by keyword."""

    def debug(self, event: str, *args: Any, **kw: Any) -> Any: ...
    def info(self, event: str, *args: Any, **kw: Any) -> Any: ...
    def warning(self, event: str, *args: Any, **kw: Any) -> Any: ...
    def error(self, event: str, *args: Any, **kw: Any) -> Any: ...
    def exception(self, event: str, *args: Any, **kw: Any) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a body says it is. `total` is None where nobody knows."""

    done: float
    total: float | None = None
    message: str = ""

    @property
    def told(self) -> str:
        """For people: `3 of 10 rendering`."""
        of = f" of {self.total:g}" if self.total else ""
        return f"{self.done:g}{of} {self.message}".rstrip()


def _plain_logger() -> Logger:
    import structlog  # costs time that declaring a task need not pay

    logger: Logger = structlog.get_logger("headgate.task")
    return logger


def _nobody_looks(progress: Progress) -> None:
    return None


_NO_ATTEMPT = AttemptId(
    orchestrator="none", workflow="none", task_id="none", retry_count=0, poll_count=1, worker_id="none"
)


@dataclass(frozen=True, kw_only=True)
class TaskContext:
    """The attempt a body runs in: whose it is, where to log, and whether it is still wanted.

    Every field has a default, so that a unit test calls a body with `TaskContext()`.
    """

    task_name: str = ""
    attempt: AttemptId = _NO_ATTEMPT
    execution: str = "none"
    """The id of this run of the body; it names the staging branch and the local workspace."""
    logger: Logger = field(default_factory=_plain_logger)
    on_progress: Callable[[Progress], None] = _nobody_looks
    cancellation: threading.Event = field(default_factory=threading.Event)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell whoever watches how far the body is."""
        self.on_progress(Progress(done=done, total=total, message=message))

    @property
    def cancelled(self) -> bool:
        """Whether the attempt is no longer wanted: nothing it does from here on will be published."""
        return self.cancellation.is_set()

    def raise_if_cancelled(self) -> None:
        """Leave the body by `TaskCancelled` if the attempt is no longer wanted."""
        if self.cancelled:
            raise TaskCancelled()
