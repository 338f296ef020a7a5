"""The demonstration: a list of steps over one folder, on the embedded parts alone.

A part adds a step by writing a function `(Stage) -> str` that does the work and returns the line that tells what came
of it, and by naming it in `STEPS`; its module is imported when its turn comes. A step that needs something the machine
may lack names that need: it is then skipped with one line that says how to get it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from headgate.cli import console
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.settings import Settings, load

Need = Callable[[], str | None]
"""What the machine lacks and how to get it, in one line; None if it is there."""


def java() -> str | None:
    from headgate.cli import checks

    [finding] = checks.java(Settings())
    return None if finding.state is checks.State.OK else f"{finding.detail}; {finding.fix}"


def extra(name: str) -> Need:
    """The need for an extra of this package."""

    def lacks() -> str | None:
        from headgate.cli import checks

        findings = [f for f in checks.extras(Settings()) if f.subject == f"headgate[{name}]"]
        return next((f"{f.detail}; {f.fix}" for f in findings if f.state is not checks.State.OK), None)

    return lacks


class Step(NamedTuple):
    title: str
    run: str
    """The function that does it, as `module:name`."""
    needs: tuple[Need, ...] = ()


STEPS: tuple[Step, ...] = (
    Step("Write a project", "headgate.cli.demo:write"),
    Step("Publish songs to songs@main", "headgate.cli.demo_lake:publish"),
    Step("Publish a summary of what was published", "headgate.cli.demo_lake:publish_summary"),
    Step("Try to publish from a ref that is not the head any more", "headgate.cli.demo_lake:refuse"),
)


@dataclass
class Stage:
    """Where the steps play: a folder, its settings, and what the end of the demonstration tells."""

    folder: Path
    published: list[tuple[str, str, str]] = field(default_factory=list)
    """Address, ref, and what it holds."""
    look_next: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        """Of this folder alone: a demonstration must not reach a server that the environment names."""
        return load(start=self.folder, environ={}, home=self.folder).settings


def run(folder: Path | None, *, clock: Clock = SYSTEM_CLOCK) -> Stage:
    """Play every step in `folder` (a new temporary one if none is given), telling each as it goes."""
    stage = Stage(folder or Path(tempfile.mkdtemp(prefix="headgate-demo-")))
    console.say(f"Headgate's demonstration, in {stage.folder}")
    for number, step in enumerate(STEPS, start=1):
        console.say(f"[{number}/{len(STEPS)}] {step.title}")
        lacking = next((lack for need in step.needs if (lack := need())), None)
        if lacking:
            console.say(f"      skipped: {lacking}")
            continue
        module, _, name = step.run.partition(":")
        began = clock.monotonic()
        told = getattr(import_module(module), name)(stage)
        console.say(f"      {told} ({clock.monotonic() - began:.1f} s)")
    _tell_end(stage)
    return stage


def write(stage: Stage) -> str:
    from headgate.cli.project import write_project

    written = write_project(stage.folder)
    stage.look_next += [f"cd {stage.folder}", "less tasks.py", "headgate config", "headgate doctor"]
    return f"{len(written)} files: {', '.join(path.name for path in written)}"


def _tell_end(stage: Stage) -> None:
    console.say("\nPublished")
    for address, ref, what in stage.published:
        console.say(f"  {address}  {ref[:12]}  {what}")
    console.say("\nLook next")
    for line in stage.look_next:
        console.say(f"  {line}")
