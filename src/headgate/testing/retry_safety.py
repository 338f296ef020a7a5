"""`assert_retry_safe`: a task killed in each window of its attempt, retried, and compared with an undisturbed run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headgate.errors import Unsupported
from headgate.tasks import TaskDeclaration, task_of
from headgate.testing.addresses import address_of
from headgate.testing.crash import CrashHarness, CrashReport, Job, windows
from headgate.testing.place import Files, Place


def assert_retry_safe(
    task: Callable[..., Any],
    *,
    files: Files | None = None,
    schema: str | None = None,
    rows: Iterable[Mapping[str, Any]] = (),
    params: BaseModel | Mapping[str, Any] | None = None,
    same_files: bool = True,
) -> CrashReport:
    """Kill `task` in each window of its attempt, let the orchestrator retry it, and compare the branch.

    For each window that an undisturbed attempt passes, an attempt in a process of its own is killed there (`kill -9`)
    and its task is handed out again. The history has to be what it is without the kill, with the same files or rows
    (`same_files=False` for a task two runs of which need not agree), one accepted result, and nothing left over.
    A task on a graph gets one with this `schema` and these `rows`. Raises `AssertionError` with everything that was
    found.
    """
    declaration = _without_spark(task_of(task))
    if "graph" in declaration.stores:
        address_of(declaration)
    with tempfile.TemporaryDirectory(prefix="headgate-retry-") as folder:
        job = Job(declaration=declaration, files=files or {}, schema=schema, rows=tuple(rows), params=params)
        report = CrashHarness(Place(Path(folder)), job, same_files=same_files).run(*windows(job))
    if report.findings:
        told = "\n".join(f"  {finding}" for finding in report.findings)
        raise AssertionError(f"task {declaration.name} cannot be retried safely:\n{told}")
    return report


def _without_spark(declaration: TaskDeclaration) -> TaskDeclaration:
    if declaration.takes_spark:
        raise Unsupported(
            message=f"task {declaration.name} takes Spark, and each of its kills would need a session of its own",
            hint="run it with run_task; what its windows do to a branch is the same as for a plain task",
        )
    return declaration
