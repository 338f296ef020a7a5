"""The demonstration: a list of steps over one folder, on the embedded parts alone.

A part adds a step by writing a function `(Stage) -> str` that does the work and returns the line that tells what came
of it, and by naming it in `STEPS`; its module is imported when its turn comes. Steps do what a person would do, with
`stage.headgate(…)`, which shows the command line. A step that needs something the machine may lack names that need: it
is then skipped with one line that says how to get it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from headgate.cli import console
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import HeadgateError
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
    Step("Write the songs project", "headgate.cli.demo_songs:write"),
    Step("Check its tasks", "headgate.cli.demo_songs:check"),
    Step("Take songs in, build features, publish both", "headgate.cli.demo_songs:publish"),
    Step("Build the features with Spark", "headgate.cli.demo_songs:spark", (extra("spark"), java)),
    Step("Kill an attempt between its publish and its completion", "headgate.cli.demo_songs:crash"),
    Step("Retry it: the abandoned publication is replaced", "headgate.cli.demo_songs:recover"),
    Step("Load the features into a graph, one commit", "headgate.cli.demo_graph:load", (extra("graph"),)),
    Step("Ask the graph which artists have the most energy", "headgate.cli.demo_graph:ask", (extra("graph"),)),
)

_LEADING_ELSEWHERE = ("HEADGATE_", "CONDUCTOR_", "LAKECTL_")


@dataclass
class Stage:
    """Where the steps play: a folder, and what the end of the demonstration tells."""

    folder: Path
    published: list[tuple[str, str, str]] = field(default_factory=list)
    """Address, ref, and what it holds."""
    look_next: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """What a step leaves for the ones after it."""

    @property
    def settings(self) -> Settings:
        return load(start=self.folder, environ={}, home=self.folder).settings

    def headgate(self, *args: str, exit_code: int = 0, program: tuple[str, ...] = ("-m", "headgate.cli.main")) -> str:
        """Run a command line in the folder, as a process of its own, and return what it printed.

        Variables that name servers and stores are left out: a demonstration must not reach what the environment names.
        """
        console.say(f"      $ headgate {shlex.join(args)}")
        env = {name: value for name, value in os.environ.items() if not name.startswith(_LEADING_ELSEWHERE)}
        line = [sys.executable, *program, *args]
        done = subprocess.run(line, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode != exit_code:
            said = (done.stderr or done.stdout).strip()
            raise HeadgateError(
                message=f"`headgate {shlex.join(args)}` ended with {done.returncode}: {said}",
                hint=f"its folder is {self.folder}",
            )
        return done.stdout

    def headgate_json(self, *args: str) -> Any:
        """Run a command line with `--json`, and return what it said."""
        return json.loads(self.headgate(*args, "--json"))


def run(folder: Path | None, *, clock: Clock = SYSTEM_CLOCK) -> Stage:
    """Play every step in `folder` (a new temporary one if none is given), telling each as it goes."""
    stage = Stage((folder or Path(tempfile.mkdtemp(prefix="headgate-demo-"))).resolve())
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


def _tell_end(stage: Stage) -> None:
    console.say("\nPublished")
    for address, ref, what in stage.published:
        console.say(f"  {address}  {ref[:12]}  {what}")
    console.say("\nLook next")
    for line in stage.look_next:
        console.say(f"  {line}")
