"""What is known of an attempt: while it runs, and when it is over."""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from headgate._version import __version__
from headgate.attempts.cancellation import Cancellation
from headgate.attempts.records import NOT_REPORTED, AttemptRecord
from headgate.clock import Clock
from headgate.publication import Decision, Ref, Strength
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.failures import Phase, classify
from headgate.tasks.protocols import AttemptId, PolledAttempt
from headgate.telemetry import Recorder, Traces
from headgate.telemetry.metrics import COMPLETED, phase_took

CHANGES_SHOWN = 200
"""Changed paths that are recorded; an attempt may change more."""


@dataclass(frozen=True, kw_only=True)
class AttemptReport:
    """How an attempt ended."""

    execution: str
    attempt: AttemptId
    task: str
    status: str | None
    """What was reported to the orchestrator; None if nothing was, because nobody wanted it or it could not be told."""
    output: Mapping[str, Any] | None = None
    published: Ref | None = None
    """The ref on the target branch that is this attempt's result; the input ref if it changed nothing."""
    decision: Decision | None = None
    strength: Strength | None = None
    changes: tuple[str, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()
    """Every step with its seconds, in order."""
    phase: Phase | None = None
    """Where it failed."""
    error: BaseException | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()
    kept_at: Path | None = None

    @property
    def ok(self) -> bool:
        return self.status == "COMPLETED"

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.phases)

    @property
    def result(self) -> Any:
        return None if self.output is None else self.output.get("result")


@dataclass(kw_only=True)
class Run:
    """An attempt while it runs: filled in by the lifecycle, read by whoever has to report or clean up."""

    declaration: TaskDeclaration
    attempt: PolledAttempt
    execution: str
    clock: Clock
    started_at: datetime
    on_phase: Callable[[str, float], None]
    on_enter: Callable[[str, str], None]
    recorder: Recorder
    traces: Traces
    cancellation: Cancellation = field(default_factory=Cancellation)
    phase: Phase = Phase.INPUT
    phases: list[tuple[str, float]] = field(default_factory=list)
    changes: tuple[str, ...] = ()
    decision: Decision | None = None
    strength: Strength | None = None
    published: Ref | None = None
    moved_head: bool = False
    """Whether the target branch shows something of this attempt that the orchestrator may not accept."""
    output: dict[str, Any] | None = None
    status: str | None = None
    error: BaseException | None = None
    reason: str = ""
    warnings: list[str] = field(default_factory=list)
    kept_at: Path | None = None

    @contextmanager
    def during(self, phase: Phase, step: str = "") -> Iterator[None]:
        """Be in a phase, and take its time; `step` names a part of it."""
        self.phase = phase
        self.on_enter(self.execution, str(phase))
        begun = self.clock.monotonic()
        try:
            with self.traces.phase(step or str(phase)):
                yield
        finally:
            seconds = self.clock.monotonic() - begun
            self.took(phase, seconds, step)

    def took(self, phase: Phase, seconds: float, step: str = "") -> None:
        self.phases.append((step or str(phase), seconds))
        self.on_phase(step or str(phase), seconds)
        self.recorder.record(phase_took(self.declaration.name, str(phase), seconds))

    @property
    def outcome(self) -> str:
        """How it ended, in a word that metrics use: `completed`, or the cause in the failure table."""
        return COMPLETED if self.error is None else str(classify(self.phase, self.error).cause)

    def report(self) -> AttemptReport:
        return AttemptReport(
            execution=self.execution,
            attempt=self.attempt.id,
            task=self.declaration.name,
            status=self.status,
            output=self.output if self.status == "COMPLETED" else None,
            published=self.published,
            decision=self.decision,
            strength=self.strength,
            changes=self.changes,
            phases=tuple(self.phases),
            phase=self.phase if self.error is not None else None,
            error=self.error,
            reason=self.reason,
            warnings=tuple(self.warnings),
            kept_at=self.kept_at,
        )

    def record(self) -> AttemptRecord:
        """What is kept of it on this machine."""
        told = self.attempt
        return AttemptRecord(
            execution=self.execution,
            orchestrator=told.id.orchestrator,
            workflow=told.id.workflow,
            module=self.declaration.module,
            task=self.declaration.name,
            reference_task=told.reference_task,
            task_id=told.id.task_id,
            retry_count=told.id.retry_count,
            started_at=self.started_at,
            input=told.input,
            ended_at=self.clock.now(),
            status=self.status or NOT_REPORTED,
            phase=str(self.phase) if self.error is not None else "",
            error=type(self.error).__name__ if self.error is not None else "",
            reason=self.reason,
            move=str(self.decision.move) if self.decision else "",
            why=self.decision.reason if self.decision else "",
            strength=str(self.strength) if self.strength else "",
            output=self.output if self.status == "COMPLETED" else None,
            phases=tuple(self.phases),
            changes=self.changes[:CHANGES_SHOWN],
            kept_at=str(self.kept_at) if self.kept_at else None,
        )

    def for_keeping(self) -> dict[str, Any]:
        """What is needed to understand a failure and to run it again, beside the files themselves."""
        error = self.error
        return {
            "task": self.declaration.name,
            "module": self.declaration.module,
            "execution": self.execution,
            "orchestrator": self.attempt.id.orchestrator,
            "workflow": self.attempt.id.workflow,
            "task_id": self.attempt.id.task_id,
            "retry_count": self.attempt.id.retry_count,
            "started_at": self.started_at.isoformat(),
            "ended_at": self.clock.now().isoformat(),
            "input": dict(self.attempt.input),
            "phase": str(self.phase),
            "error": type(error).__name__ if error is not None else "",
            "reason": self.reason,
            "traceback": "".join(traceback.format_exception(error)) if error is not None else "",
            "changes": list(self.changes[:CHANGES_SHOWN]),
            "versions": {"headgate": __version__, "python": sys.version.split()[0], "platform": platform.platform()},
        }
