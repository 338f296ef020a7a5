"""The steps of the demonstration over the songs example: published, killed, and published again."""

from __future__ import annotations

import signal
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from headgate.cli.demo import Stage
from headgate.cli.project import write_files
from headgate.errors import HeadgateError
from headgate.lake import MAIN, EmbeddedLake

STORE = "songs"
ADDRESS = f"{STORE}@{MAIN}"
SPARK = "spark"
"""The branch of the step with Spark."""
MODULE = "examples.songs.tasks"
WORKFLOW = "examples/songs/workflow.json"

# Kills the process once the head has moved and before the orchestrator has heard of it.
_KILLED = -signal.SIGKILL
_KILLED_AFTER_PUBLISH = """
import os, signal, sys
from headgate.cli.main import run
from headgate.failpoints import Failpoint, arm
arm(lambda point: os.kill(os.getpid(), signal.SIGKILL) if point is Failpoint.ATTEMPT_PUBLISHED else None)
sys.exit(run(sys.argv[1:]))
"""


def write(stage: Stage) -> str:
    """The example as the package carries it, with settings that name the embedded parts."""
    write_files(stage.folder, {"headgate.toml": "headgate.toml.in"})
    target = stage.folder / "examples" / "songs"
    target.mkdir(parents=True)
    (target.parent / "__init__.py").touch()
    for item in songs().iterdir():
        if item.is_file():
            (target / item.name).write_bytes(item.read_bytes())
    stage.headgate("lake", "init", STORE)
    stage.look_next += [f"cd {stage.folder}", "less examples/songs/tasks.py"]
    return f"headgate.toml and {', '.join(sorted(path.name for path in target.iterdir()))}"


def songs() -> Traversable:
    """The songs example: in the wheel it lies in the package, in a checkout of the source beside it."""
    packaged = resources.files("headgate") / "_examples" / "songs"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "examples" / "songs"


def check(stage: Stage) -> str:
    tasks = stage.headgate_json("check", MODULE)
    return f"{len(tasks)} tasks: {', '.join(task['name'] for task in tasks)}"


def publish(stage: Stage) -> str:
    ran = stage.headgate_json("run", WORKFLOW, "--tasks", MODULE, "--on", ADDRESS)
    reports = ran["tasks"]
    stage.facts["features"] = reports[-1]
    for report in reports:
        stage.published.append((ADDRESS, report["published"], f"{report['name']}: {told(report)}"))
    stage.look_next += [
        f"headgate log {STORE}",
        f"headgate why {ADDRESS} features/songs.jsonl",
        f"headgate lake ls {ADDRESS}",
        f"headgate workflows {ran['workflow']}",
        "headgate attempts",
    ]
    return " -> ".join(str(report["published"])[:12] for report in reports) + ", each visible all at once"


def spark(stage: Stage) -> str:
    """On a branch of its own: Spark writes the features as parts, and would take away the plain task's file."""
    address = f"{STORE}@{SPARK}"
    stage.headgate("branch", "create", address)
    [report] = stage.headgate_json("run", f"{MODULE}:features_on_spark", "--on", address)
    stage.published.append((address, report["published"], f"{report['task']}: {told(report)}"))
    plain = stage.facts["features"]
    if report["output"]["result"] != plain["output"]["result"]:
        raise HeadgateError(message=f"Spark built other features: {told(report)}", hint="this is a fault of Headgate")
    stage.look_next += [f"headgate lake ls {address} features"]
    return f"{plain['published'][:12]} -> {report['published'][:12]}: the same numbers as the plain task's"


def crash(stage: Stage) -> str:
    stage.facts["accepted"] = stage.facts["features"]["published"]
    line = ("run", f"{MODULE}:features", "--params", '{"fast_from": 110}', "--on", ADDRESS)
    stage.headgate(*line, exit_code=_KILLED, program=("-c", _KILLED_AFTER_PUBLISH))
    with _lake(stage) as lake:
        stage.facts["abandoned"] = lake.head(STORE, MAIN).ref
    return f"the head is {stage.facts['abandoned'][:12]}, and nobody has accepted it: an abandoned publication"


def recover(stage: Stage) -> str:
    running = stage.headgate_json("status")["running"]
    workflow = next(attempt["workflow"] for attempt in running)
    [report] = stage.headgate_json("run", f"{MODULE}:features", "--retry", workflow)
    stage.published.append((ADDRESS, report["published"], f"{report['task']} again: {told(report)}"))
    with _lake(stage) as lake:
        history = [commit.ref for commit in lake.log(STORE, lake.head(STORE, MAIN).ref)]
    if history[:2] != [report["published"], stage.facts["accepted"]] or stage.facts["abandoned"] in history:
        raise HeadgateError(message=f"the history is {history}", hint="this is a fault of Headgate")
    return f"{history[1][:12]} -> {history[0][:12]}: the abandoned commit is nobody's parent"


def told(report: dict[str, Any]) -> str:
    return ", ".join(f"{value} {name}" for name, value in report["output"]["result"].items())


def _lake(stage: Stage) -> EmbeddedLake:
    root = stage.settings.store(STORE).root
    if root is None:
        raise HeadgateError(message=f"the store {STORE} of the demonstration has no folder")
    return EmbeddedLake(root)
