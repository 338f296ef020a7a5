"""How far a transfer is: files, bytes, rate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from headgate.clock import SYSTEM_CLOCK, Clock

EVERY_SECONDS = 10.0
_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True, kw_only=True)
class Transferred:
    """What was moved since the beginning."""

    files: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.files:,} files, {shown_bytes(self.bytes)}, {shown_bytes(self.rate)}/s"


def shown_bytes(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {_UNITS[-1]}"


class Meter:
    """A `Progress` that adds up, and says how far it is every so often: for logs, where a bar has no place."""

    def __init__(
        self,
        *,
        say: Callable[[Transferred], None] | None = None,
        every_seconds: float = EVERY_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._say = say
        self._every = every_seconds
        self._clock = clock
        self._began = self._said = clock.monotonic()
        self._files = self._bytes = 0
        self._guard = threading.Lock()

    def __call__(self, files: int, size: int) -> None:
        with self._guard:
            self._files += files
            self._bytes += size
            now = self._clock.monotonic()
            due = self._say is not None and now - self._said >= self._every
            if due:
                self._said = now
        if due and self._say is not None:
            self._say(self.transferred)

    @property
    def transferred(self) -> Transferred:
        return Transferred(files=self._files, bytes=self._bytes, seconds=self._clock.monotonic() - self._began)
