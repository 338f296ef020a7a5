"""One trace of each attempt, one span of each of its phases.

Attempts ask `Traces` for their spans. `NO_TRACES` makes none; `headgate.telemetry.open_telemetry` makes those of
OpenTelemetry, under which the spans of instrumented libraries that a body uses find their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

TellOutcome: TypeAlias = Callable[[str], None]


class Traces(Protocol):
    """Opens spans; what runs while one is open belongs to it. An error that leaves one marks it."""

    def attempt(self, name: str, facts: Mapping[str, str | int]) -> AbstractContextManager[TellOutcome]:
        """The trace of one attempt, and what to call with how it ended: `completed`, or the cause."""
        ...

    def phase(self, name: str) -> AbstractContextManager[object]:
        """One phase of the attempt whose trace is open."""
        ...

    def close(self) -> None:
        """Send what is still held back."""
        ...


class _NoTraces:
    def attempt(self, name: str, facts: Mapping[str, str | int]) -> AbstractContextManager[TellOutcome]:
        return _UNTOLD

    def phase(self, name: str) -> AbstractContextManager[object]:
        return _NOTHING

    def close(self) -> None:
        return None


def _told_nobody(outcome: str) -> None:
    return None


_NOTHING, _UNTOLD = nullcontext(), nullcontext(_told_nobody)
NO_TRACES: Traces = _NoTraces()
