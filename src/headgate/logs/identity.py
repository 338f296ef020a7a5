"""The facts that stand on every line logged in a block: whose attempt it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_bound: ContextVar[Mapping[str, Any] | None] = ContextVar("headgate_log_identity", default=None)


@contextmanager
def bound(**facts: Any) -> Iterator[None]:
    """Put facts on every line that is logged in this block, and in what it calls or awaits."""
    token = _bound.set({**identity(), **facts})
    try:
        yield
    finally:
        _bound.reset(token)


def identity() -> Mapping[str, Any]:
    """The facts bound where we are."""
    return _bound.get() or {}
