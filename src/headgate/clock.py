"""Time as a part that is handed in, so that a test can replay it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, in UTC. For records and messages; no decision about safety rests on it."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards: for durations and deadlines."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM_CLOCK = SystemClock()
