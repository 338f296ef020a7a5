"""An executor from inside: import the tasks once, then run one attempt after the other, bodies in the main thread.

It ends itself when the connection does: whoever started it keeps its leases, and is gone.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from headgate.attempts.cancellation import Cancellation
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.report import AttemptReport
from headgate.errors import HeadgateError, InvalidTask
from headgate.logs import bound
from headgate.orchestrators.executors.messages import (
    Begin,
    Broken,
    Cancel,
    Ended,
    Entered,
    Observed,
    Progressed,
    Ready,
    Setup,
    TaskFacts,
    Took,
)
from headgate.orchestrators.logging_up import set_up_logging
from headgate.orchestrators.machine import Machine
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.loading import load_named
from headgate.tasks.protocols import PolledAttempt
from headgate.tasks.taskdef import task_def
from headgate.telemetry import Observation

_PR_SET_PDEATHSIG = 1


def main(descriptor: int) -> None:
    """Serve the other end of a socket until it is closed."""
    _end_with_the_parent()
    # A platform may send its signals to every process at once: what they mean is decided by who started us. A handler,
    # and not SIG_IGN, since programs that a body starts would inherit that.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    # What a body prints is about the work, never a result of the command that runs it.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    connection: Connection[Any, Any] = Connection(descriptor)
    setup: Setup = connection.recv()
    set_up_logging(setup.settings, debug=setup.debug)
    with Machine(setup.settings) as machine:
        try:
            declarations = declared(setup)
        except HeadgateError as error:
            connection.send(Broken(error))
            return
        _Executor(connection, machine, declarations).serve(setup)


def declared(setup: Setup) -> dict[str, TaskDeclaration]:
    """The tasks of the modules, by name."""
    found: dict[str, TaskDeclaration] = {}
    for module in setup.modules:
        name, _, wanted = module.partition(":")
        for declaration in load_named(name, [task for task in wanted.split(",") if task], folder=setup.folder):
            other = found.setdefault(declaration.name, declaration)
            if other.source != declaration.source:
                raise InvalidTask(
                    message=f"two tasks are named {declaration.name}: {other.source} and {declaration.source}",
                    hint="give one of them a name of its own",
                )
    return found


def facts_of(declaration: TaskDeclaration, *, owner_email: str | None) -> TaskFacts:
    try:
        told = task_def(declaration, owner_email=owner_email)
    except InvalidTask:
        told = None
    return TaskFacts.of(declaration, task_def=told)


class _Executor:
    def __init__(
        self, connection: Connection[Any, Any], machine: Machine, declarations: dict[str, TaskDeclaration]
    ) -> None:
        self._connection, self._declarations = connection, declarations
        self._sending = threading.Lock()
        self._waiting: queue.SimpleQueue[PolledAttempt] = queue.SimpleQueue()
        self._current: tuple[str, Cancellation] | None = None
        self._cancelled: set[str] = set()
        self._runtime = replace(
            machine.runtime(recorder=self),
            on_phase=lambda step, seconds: self._tell(Took(step, seconds)),
            on_enter=lambda execution, phase: self._tell(Entered(execution, phase)),
            on_progress=lambda progress: self._tell(Progressed(progress)),
            keep_lease=self._lease_kept_outside,
        )
        self._owner_email = machine.settings.owner_email

    def serve(self, setup: Setup) -> None:
        threading.Thread(target=self._listen, name="headgate-listen", daemon=True).start()
        facts = [facts_of(one, owner_email=self._owner_email) for one in self._declarations.values()]
        self._tell(Ready(tuple(facts)))
        while True:
            attempt = self._waiting.get()
            with bound(task=attempt.task_name, workflow=attempt.id.workflow, task_id=attempt.id.task_id):
                report = run_attempt(self._runtime, self._declarations[attempt.task_name], attempt)
            self._tell(Ended(_that_can_travel(report)))

    def record(self, seen: Observation) -> None:
        self._tell(Observed(seen))

    def _tell(self, message: Any) -> None:
        with self._sending:
            try:
                self._connection.send(message)
            except OSError:
                os._exit(0)

    def _listen(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            match message:
                case Begin(attempt=attempt):
                    self._waiting.put(attempt)
                case Cancel(worker_id=worker_id):
                    self._cancelled.add(worker_id)
                    current = self._current
                    if current is not None and current[0] == worker_id:
                        current[1].set()

    @contextmanager
    def _lease_kept_outside(self, attempt: PolledAttempt, cancellation: Cancellation) -> Iterator[None]:
        worker_id = attempt.id.worker_id
        self._current = (worker_id, cancellation)
        if worker_id in self._cancelled:  # the word came before there was anybody to take it
            cancellation.set()
        try:
            yield
        finally:
            self._current = None
            self._cancelled.discard(worker_id)


def _that_can_travel(report: AttemptReport) -> AttemptReport:
    return report if report.error is None or isinstance(report.error, HeadgateError) else replace(report, error=None)


def _end_with_the_parent() -> None:
    """Have the system end this process when the thread that started it ends, stuck or not. Linux alone can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
