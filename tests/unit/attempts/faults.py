"""Real parts that fail in one chosen way: the call is made first, or not at all, and then the answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headgate.clock import SYSTEM_CLOCK


@dataclass
class Faulty:
    """Hands every call on to `real`, but for those in `faults`, which get the real method to do with as they like."""

    real: Any
    faults: dict[str, Callable[..., Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            fault = self.faults.get(name)
            return fault(found, *args, **kwargs) if fault else found(*args, **kwargs)

        return call


def lost_after(error: BaseException) -> Callable[..., Any]:
    """The call takes effect, and its answer is lost."""

    def fault(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        call(*args, **kwargs)
        raise error

    return fault


def lost_before(error: BaseException) -> Callable[..., Any]:
    """The call never gets there."""

    def fault(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise error

    return fault


def first_only(fault: Callable[..., Any]) -> Callable[..., Any]:
    """The fault shows once; later calls get through."""
    shown = []

    def once(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if shown:
            return call(*args, **kwargs)
        shown.append(True)
        return fault(call, *args, **kwargs)

    return once


class SteppingClock:
    """Passes a little time at every look, and what is waited for."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return SYSTEM_CLOCK.now()

    def monotonic(self) -> float:
        self._seconds += 0.001
        return self._seconds

    def wait(self, seconds: float) -> None:
        self._seconds += seconds
