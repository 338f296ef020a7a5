"""Threads of which exactly one runs, handed on in an order that somebody chooses: a race that can be run again.

A thread gives way before every call of the simulated store. Whoever gives way asks for the next one and wakes it, so
that a thread which is chosen again goes on without a switch. Nothing here waits for time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """The process is gone: nothing it still does has an effect."""


class Actor:
    """A process of the simulation and where it stands."""

    def __init__(self, name: str, work: Callable[[Actor], None]) -> None:
        self.name = name
        self.at = "start"
        self.dead = False
        self.ended = False
        self.fault = ""
        """What happens to its next call; empty if nothing does."""
        self.failure: BaseException | None = None
        self._work = work
        self._go = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return self.name


class Baton:
    """Who runs. `choose` is asked at each step, with those that have not ended."""

    def __init__(self, choose: Callable[[list[Actor]], Actor]) -> None:
        self._choose = choose
        self._actors: list[Actor] = []
        self._over = threading.Semaphore(0)

    def add(self, actor: Actor) -> None:
        actor._thread = threading.Thread(target=self._run, args=(actor,), name=actor.name, daemon=True)
        self._actors.append(actor)

    def run(self) -> None:
        """Let all of them run to their ends; the first failure of any is raised here."""
        actors = list(self._actors)
        for actor in actors:
            assert actor._thread is not None
            actor._thread.start()
        if actors:
            self._next()._go.release()
            self._over.acquire()
        for actor in actors:
            assert actor._thread is not None
            actor._thread.join()
        for actor in actors:
            if actor.failure is not None:
                raise actor.failure

    def give_way(self, actor: Actor, at: str) -> None:
        """Let others run; returns when it is this actor's turn to make the call it stands before."""
        if actor.dead:
            raise Killed
        actor.at = at
        following = self._next()
        if following is not actor:
            following._go.release()
            actor._go.acquire()
        if actor.dead:
            raise Killed

    def _next(self) -> Actor:
        try:
            return self._choose(self._actors)
        except BaseException as problem:
            # Found wrong: nobody does anything any more, and all of them end.
            for actor in self._actors:
                actor.dead = True
            self._actors[0].failure = problem
            self._choose = lambda actors: actors[0]
            return self._actors[0]

    def _run(self, actor: Actor) -> None:
        actor._go.acquire()
        try:
            if not actor.dead:
                actor._work(actor)
        except Killed:
            pass
        except BaseException as problem:
            actor.failure = actor.failure or problem
            for other in self._actors:
                other.dead = True
        actor.ended = True
        self._actors.remove(actor)
        if self._actors:
            self._next()._go.release()
        else:
            self._over.release()
