"""What a task body raises to say how it ended. A business "no" is none of these: it is an ordinary result."""

from __future__ import annotations


class TaskSignal(Exception):
    """Raised by a body; carries one short reason for the orchestrator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TaskFailed(TaskSignal):
    """This attempt failed; another one may succeed."""


class TaskTerminalError(TaskSignal):
    """The task can never succeed with this input: no retry."""


class TaskCancelled(TaskSignal):
    """The attempt is no longer wanted; nothing is reported and nothing is published."""

    def __init__(self, reason: str = "the attempt was cancelled") -> None:
        super().__init__(reason)
