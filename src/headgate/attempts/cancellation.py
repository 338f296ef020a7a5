"""The word that an attempt is no longer wanted, and what is done the moment it comes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


class Cancellation(threading.Event):
    """An event that can stop what a thread waits for elsewhere, such as a job on a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self._stops: list[Callable[[], None]] = []

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` if the word comes while the block runs, from the thread that brings it; or has come already."""
        self._stops.append(stop)
        try:
            if self.is_set():
                self._call(stop)
            yield
        finally:
            self._stops.remove(stop)

    def add(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the word comes, for as long as this lives."""
        self._stops.append(stop)
        if self.is_set():
            self._call(stop)

    def set(self) -> None:
        super().set()
        for stop in tuple(self._stops):
            self._call(stop)

    @staticmethod
    def _call(stop: Callable[[], None]) -> None:
        try:
            stop()
        except Exception as error:
            log.warning("what a cancelled attempt had running could not be stopped: %s", error)
