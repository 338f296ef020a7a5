"""Threads that run one at a time, in an order a seed decides: a race that can be run again.

A thread gives way before every call of a part that is watched. Nothing here waits for time: the scheduler lets one
thread go on and is woken when that thread gives way again or ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Turn:
    """One thread and where it stands."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.at = "start"
        self.ended = False
        self.error: BaseException | None = None
        self._work = work
        self._go, self._gave_way = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        _current.turn = self
        self._go.acquire()
        try:
            self._work()
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self._gave_way.release()

    def give_way(self, at: str) -> None:
        self.at = at
        self._gave_way.release()
        self._go.acquire()

    def step(self) -> None:
        """Let the thread go on to its next watched call, or to its end."""
        self._go.release()
        self._gave_way.acquire()
        if self.ended:
            self._thread.join()


class _Current(threading.local):
    turn: Turn | None = None


_current = _Current()


def current_turn() -> Turn | None:
    """Whose turn the calling thread is; None for threads that nobody schedules."""
    return _current.turn


class Watched:
    """A real part, each of whose calls is a place to give way. Threads of its own, heartbeats, pass freely."""

    def __init__(self, part: Any, name: str) -> None:
        self._part, self._name = part, name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._part, attribute)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if _current.turn is not None:
                _current.turn.give_way(f"{self._name}.{attribute}")
            return found(*args, **kwargs)

        return call
