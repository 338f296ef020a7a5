"""What an attempt owns, given back on every path: best effort, logged, and without a say in the result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

log = logging.getLogger(__name__)


class Cleanup(ExitStack):
    """Runs its actions in reverse order; one that fails is logged, and the next ones still run."""

    def later(self, what: str, action: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
        """Do `action` at the end. `what` says in the log what could not be done."""
        self.callback(_tried, what, action, args, kwargs)


def _tried(what: str, action: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        action(*args, **kwargs)
    except Exception as error:
        log.warning("could not %s: %s; `headgate gc` tries again", what, error)
