"""A workflow as values: the steps of a definition that has been read and can be run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headgate.orchestrators.engine.conditions import Condition


@dataclass(frozen=True, kw_only=True)
class Simple:
    """A task that a worker runs."""

    reference: str
    where: str
    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False
    retries: int | None = None
    """Instead of the count of the task's rule."""
    start_delay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One of several sequences, chosen by a value."""

    reference: str
    where: str
    selector: Any
    cases: Mapping[str, tuple[Step, ...]]
    default: tuple[Step, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Sequences that run side by side."""

    reference: str
    where: str
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Join:
    """Waits for tasks of the fork before it."""

    reference: str
    where: str
    join_on: tuple[str, ...]
    begun_with: tuple[str, ...] = ()
    """The tasks that are scheduled together with the fork."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A sequence that is run again while its condition holds, once at least."""

    reference: str
    where: str
    body: tuple[Step, ...]
    condition: Condition
    input: Mapping[str, Any] = field(default_factory=dict)


Step: TypeAlias = Simple | Switch | Fork | Join | Loop


@dataclass(frozen=True, kw_only=True)
class WorkflowDefinition:
    """A workflow that can be run."""

    name: str
    version: int
    steps: tuple[Step, ...]
    input_names: tuple[str, ...] = ()
    input_template: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 0.0
    where: str = ""

    @property
    def simple(self) -> list[Simple]:
        """The tasks that workers run, in the order they are written."""
        return [step for step in every(self.steps) if isinstance(step, Simple)]


def inside(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The sequences a step holds."""
    match step:
        case Switch():
            return (*step.cases.values(), step.default)
        case Fork():
            return step.branches
        case Loop():
            return (step.body,)
        case _:
            return ()


def heads(steps: tuple[Step, ...]) -> Iterator[str]:
    """The tasks that a sequence may begin with."""
    for step in steps[:1]:
        if isinstance(step, Simple):
            yield step.reference
        for sequence in inside(step):
            yield from heads(sequence)


def every(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, those inside others included, each before what it holds."""
    for step in steps:
        yield step
        for sequence in inside(step):
            yield from every(sequence)
