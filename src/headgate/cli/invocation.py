"""What the global options of this command line said. Commands read it with `current()`."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Invocation:
    profile: str | None = None
    debug: bool = False


_current: ContextVar[Invocation | None] = ContextVar("headgate_invocation", default=None)


def current() -> Invocation:
    return _current.get() or Invocation()


def begin(invocation: Invocation) -> None:
    _current.set(invocation)
