"""`assert_retry_safe`: a task killed in each window of its attempt, retried, and compared with an undisturbed run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headgate.errors import Unsupported
from headgate.tasks import TaskDeclaration, task_of
from headgate.testing.crash import WINDOWS, CrashHarness, CrashReport, Job
from headgate.testing.place import Files, Place
from headgate.testing.running import without_graph


def assert_retry_safe(
    task: Callable[..., Any],
    *,
    files: Files,
    params: BaseModel | Mapping[str, Any] | None = None,
    same_files: bool = True,
) -> CrashReport:
    """Kill `task` in each window of its attempt, let the orchestrator retry it, and compare the branch.

    For each window that an undisturbed attempt passes, an attempt in a process of its own is killed there (`kill -9`)
    and its task is handed out again. The history has to be what it is without the kill, with the same files
    (`same_files=False` for a task two runs of which need not agree), one accepted result, and nothing left over.
    Raises `AssertionError` with everything that was found.
    """
    declaration = _without_spark(without_graph(task_of(task)))
    with tempfile.TemporaryDirectory(prefix="headgate-retry-") as folder:
        job = Job(declaration=declaration, files=files, params=params)
        report = CrashHarness(Place(Path(folder)), job, same_files=same_files).run(*WINDOWS)
    if report.findings:
        told = "\n".join(f"  {finding}" for finding in report.findings)
        raise AssertionError(f"task {declaration.name} cannot be retried safely:\n{told}")
    return report


def _without_spark(declaration: TaskDeclaration) -> TaskDeclaration:
    if declaration.takes_spark:
        raise Unsupported(
            message=f"task {declaration.name} takes Spark, and a process cannot be split while it has a session",
            hint="run it with run_task; what its windows do to a branch is the same as for a plain task",
        )
    return declaration
