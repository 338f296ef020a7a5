"""What an executor and whoever started it say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.attempts.report import AttemptReport
from headgate.errors import HeadgateError
from headgate.settings import Settings
from headgate.tasks.context import Progress
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.protocols import PolledAttempt
from headgate.telemetry import Observation


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What an executor is to be: the first thing it is told."""

    settings: Settings
    modules: tuple[str, ...]
    """Modules with tasks; `MODULE:TASK[,TASK…]` for some of them."""
    folder: Path
    """Where modules are looked for first."""
    debug: bool = False


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """What has to be known about a task outside of the processes that import it."""

    name: str
    module: str
    writes: str | None
    stages_in_body: bool
    """Whether the staging branch is there before the body ends."""
    heartbeat_seconds: float
    grace_seconds: float
    publish_seconds: float
    completion_seconds: float
    limit_seconds: float
    """Longest an attempt may take; 0 for no limit."""
    limit_ends_workflow: bool
    """Whether the orchestrator ends the workflow at the limit: then nothing is reported that would have it retried."""
    warnings: tuple[str, ...]
    task_def: Mapping[str, Any] | None
    """As a server is told; None for a task without an owner, which no server takes."""

    @classmethod
    def of(cls, declaration: TaskDeclaration, *, task_def: Mapping[str, Any] | None) -> TaskFacts:
        budget, timeout = declaration.budget, declaration.controls.timeout
        return cls(
            name=declaration.name,
            module=declaration.module,
            writes=declaration.writes,
            stages_in_body=declaration.spark_workspace,
            heartbeat_seconds=budget.heartbeat_interval_seconds,
            grace_seconds=budget.shutdown_grace_seconds,
            publish_seconds=budget.publish_timeout_seconds,
            completion_seconds=budget.completion_timeout_seconds,
            limit_seconds=timeout.seconds,
            limit_ends_workflow=timeout.policy == "TIME_OUT_WF",
            warnings=tuple(str(warning) for warning in declaration.warnings),
            task_def=task_def,
        )

    @property
    def longest_end(self) -> float:
        """Seconds within which a draining worker is done with an attempt of this task: body, publish, report."""
        return self.grace_seconds + self.publish_seconds + self.completion_seconds


# to an executor
@dataclass(frozen=True)
class Begin:
    attempt: PolledAttempt


@dataclass(frozen=True)
class Cancel:
    """The attempt with that worker id is no longer wanted."""

    worker_id: str


# from an executor
@dataclass(frozen=True)
class Ready:
    tasks: tuple[TaskFacts, ...]


@dataclass(frozen=True)
class Broken:
    """It cannot work, and ends."""

    error: HeadgateError


@dataclass(frozen=True)
class Entered:
    execution: str
    phase: str


@dataclass(frozen=True)
class Took:
    step: str
    seconds: float


@dataclass(frozen=True)
class Progressed:
    progress: Progress


@dataclass(frozen=True)
class Observed:
    seen: Observation


@dataclass(frozen=True)
class Ended:
    report: AttemptReport
    """Its error is there if it is one of ours: others may not outlive their process."""
