"""The parts an attempt runs with, all handed in: tests hand in the same ones, or one that fails in a chosen way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from headgate.attempts.cancellation import Cancellation
from headgate.attempts.kept import KeepLimits
from headgate.attempts.records import AttemptRecords
from headgate.attempts.stores import StoreOpener
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.ids import ULIDS, IdSource
from headgate.publication import Replace
from headgate.tasks.context import Progress
from headgate.tasks.protocols import Orchestrator, PolledAttempt, SparkProvider
from headgate.telemetry import NO_TRACES, SILENT, Recorder, Traces


@dataclass(frozen=True, kw_only=True)
class AttemptOptions:
    """What a person may set about all attempts on this machine."""

    workspace_root: Path
    keep: KeepLimits = field(default_factory=KeepLimits)
    replace: Replace = Replace.AUTO
    """`any` here holds for every task; `auto` leaves it to each task's declaration."""


def _nobody_watches_phases(step: str, seconds: float) -> None:
    return None


def _nobody_watches_progress(progress: Progress) -> None:
    return None


def _nobody_follows(execution: str, phase: str) -> None:
    return None


def _nothing_to_hide(text: str) -> str:
    return text


KeepLease: TypeAlias = Callable[[PolledAttempt, Cancellation], AbstractContextManager[object]]
"""Keeps an attempt's lease while the block runs, and sets the flag when the attempt is no longer wanted."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Everything `run_attempt` needs and does not make itself."""

    orchestrator: Orchestrator
    stores: Mapping[str, StoreOpener]
    """By input key: `workspace`, `graph`."""
    options: AttemptOptions
    records: AttemptRecords | None = None
    spark: SparkProvider | None = None
    clock: Clock = SYSTEM_CLOCK
    ids: IdSource = ULIDS
    wait: Callable[[float], object] = time.sleep
    """Between two tries to report; nothing else waits."""
    on_phase: Callable[[str, float], None] = _nobody_watches_phases
    """Told of each step when it ends, with its seconds."""
    on_progress: Callable[[Progress], None] = _nobody_watches_progress
    on_enter: Callable[[str, str], None] = _nobody_follows
    """Told of each phase when it begins: the execution, and the phase."""
    keep_lease: KeepLease | None = None
    """None where the attempt keeps it itself, from a thread of this process."""
    redact: Callable[[str], str] = _nothing_to_hide
    """Takes secrets out of what is told to the orchestrator."""
    recorder: Recorder = SILENT
    """Takes the metrics of attempts."""
    traces: Traces = NO_TRACES
