"""The jobs that prove the runtime: changed, unchanged and read-only, after an abandoned publication or not."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from headgate.tasks import TaskContext, TaskDeclaration, WorkspaceSpec, task, task_of
from headgate.testing.crash import Job

FILES = {"keep.txt": "kept", "deep/change.txt": "old", "deep/er/remove.txt": "gone soon", "outside/other.txt": "theirs"}


class CrashParams(BaseModel):
    changes: bool
    abandons: bool = False
    """Whether the first attempt writes something else than the later ones, for them to replace."""


class Left(BaseModel):
    files: int


def _count(workspace: Path) -> Left:
    return Left(files=sum(path.is_file() for path in workspace.rglob("*")))


@task(name="crash_write", workspace=WorkspaceSpec(exclude=["outside/*"]))
def write(workspace: Path, params: CrashParams, context: TaskContext) -> Left:
    if params.abandons and context.attempt.retry_count == 0:
        (workspace / "abandoned.txt").write_text("nobody accepted this")
    elif params.changes:
        for number in range(3):
            (workspace / "new").mkdir(exist_ok=True)
            (workspace / "new" / f"{number}.txt").write_text(f"new {number}")
        (workspace / "deep" / "change.txt").write_text("changed")
        (workspace / "deep" / "er" / "remove.txt").unlink()
    return _count(workspace)


@task(name="crash_read", workspace=WorkspaceSpec(read_only=True))
def read(workspace: Path, params: CrashParams) -> Left:
    return _count(workspace)


WRITE: TaskDeclaration = task_of(write)
READ: TaskDeclaration = task_of(read)


def _job(declaration: TaskDeclaration, *, changes: bool, abandoned_by: TaskDeclaration | None = None) -> Job:
    params = CrashParams(changes=changes, abandons=abandoned_by is not None)
    return Job(declaration=declaration, files=FILES, params=params, abandoned_by=abandoned_by)


JOBS = {
    "changed": _job(WRITE, changes=True),
    "changed, after an abandoned publication": _job(WRITE, changes=True, abandoned_by=WRITE),
    "unchanged": _job(WRITE, changes=False),
    "unchanged, after an abandoned publication": _job(WRITE, changes=False, abandoned_by=WRITE),
    "read-only": _job(READ, changes=False),
    "read-only, after an abandoned publication": _job(READ, changes=False, abandoned_by=WRITE),
}
