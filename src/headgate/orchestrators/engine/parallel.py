"""Running a workflow to its end in executor processes: fork branches side by side, bodies ended at their limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.clock import Clock
from headgate.errors import Transient
from headgate.orchestrators.engine.runner import LONGEST_WAIT, SHORTEST_WAIT
from headgate.orchestrators.engine.steps import Fork, WorkflowDefinition, every
from headgate.orchestrators.executors import Listener, Pool, Setup
from headgate.orchestrators.executors.burial import Burial
from headgate.orchestrators.local import LocalOrchestrator
from headgate.orchestrators.local_records import WorkflowRecord
from headgate.orchestrators.machine import Machine
from headgate.tasks.declaration import TaskDeclaration

_TICK = 0.2


def executors_wanted(definition: WorkflowDefinition, declarations: Mapping[str, TaskDeclaration]) -> int:
    """How many executors a workflow gains from: none where nothing runs side by side and no body has a limit."""
    widest = max((len(step.branches) for step in every(definition.steps) if isinstance(step, Fork)), default=1)
    limited = any(declarations[step.name].controls.timeout.seconds for step in definition.simple)
    return min(widest, os.cpu_count() or 1) if widest > 1 else int(limited)


def run_in_executors(
    machine: Machine,
    workflow: WorkflowRecord,
    *,
    modules: Sequence[str],
    executors: int,
    listener: Listener,
    folder: Path | None = None,
    debug: bool = False,
) -> WorkflowRecord:
    """Run a workflow that was started or resumed here until it is over; `Fenced` if another one takes it over."""
    settings = machine.settings.model_copy(update={"orchestrator": "embedded"})
    setup = Setup(settings=settings, modules=tuple(modules), folder=folder or Path.cwd(), debug=debug)
    burial = Burial(
        machine.engine,
        lambda repository: machine.lakes.of_repository(repository).lake,
        machine.records,
        clock=machine.clock,
    )
    pool = Pool(
        setup, size=executors, orchestrator=machine.engine, burial=burial, listener=listener, clock=machine.clock
    )
    try:
        pool.start()
        polling = _Polling(machine.engine, pool, workflow, machine.clock)
        polling.start()
        try:
            while polling.alive or not pool.idle:
                pool.tend(_TICK)
                if pool.broken:
                    raise Transient(message=pool.broken, hint="headgate run --resume goes on with the workflow")
        except KeyboardInterrupt:
            # Nothing is reported of what is cut off here: the workflow can be resumed, and no retry is used up.
            for running in pool.running():
                running.cancellation.set()
            raise
        finally:
            polling.stop()
    finally:
        pool.close()
    if polling.error is not None:
        raise polling.error
    return machine.engine.workflow(workflow.id)


class _Polling:
    """Hands the attempts of one workflow to free executors, in a thread of its own, until the workflow is over."""

    def __init__(self, engine: LocalOrchestrator, pool: Pool, workflow: WorkflowRecord, clock: Clock) -> None:
        self._engine, self._pool, self._workflow, self._clock = engine, pool, workflow, clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-poll", daemon=True)
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self._engine.workflow(self._workflow.id).over:
                wait = self._hand_out()
                if wait:
                    self._stop.wait(wait)
        except BaseException as error:
            self.error = error

    def _hand_out(self) -> float:
        """One attempt to the next free executor; seconds to wait if there is none to be had."""
        slot = self._pool.take(stop=self._stop)
        if slot is None:
            return 0.0
        polled = None
        try:
            polled = self._engine.poll(None, workflow=self._workflow.id, epoch=self._workflow.epoch)
        finally:
            if polled is None:
                self._pool.give_back(slot)
        if polled is not None:
            self._pool.begin(slot, polled)
            return 0.0
        due = self._engine.next_due(self._workflow.id)
        wait = _TICK if due is None else (due - self._clock.now()).total_seconds()
        return min(max(wait, SHORTEST_WAIT), LONGEST_WAIT)
