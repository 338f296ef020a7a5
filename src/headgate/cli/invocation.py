"""What the global options of this command line said. Commands read it with `current()`."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.settings import Loaded, Settings


@dataclass(frozen=True, kw_only=True)
class Invocation:
    profile: str | None = None
    debug: bool = False

    @cached_property
    def loaded(self) -> Loaded:
        """The settings with their sources, read once, with logging set up as they say."""
        from headgate.cli import console
        from headgate.orchestrators.logging_up import set_up_logging
        from headgate.settings import load

        loaded = load(profile=self.profile)
        for warning in loaded.warnings:
            console.note(f"warning: {warning}")
        set_up_logging(loaded.settings, debug=self.debug)
        return loaded

    @property
    def settings(self) -> Settings:
        return self.loaded.settings


_current: ContextVar[Invocation | None] = ContextVar("headgate_invocation", default=None)


def current() -> Invocation:
    return _current.get() or Invocation()


def begin(invocation: Invocation) -> None:
    _current.set(invocation)
