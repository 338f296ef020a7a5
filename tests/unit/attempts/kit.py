"""A lake, a local orchestrator and a runtime in a temporary folder, and tasks to run on them."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headgate import failpoints
from headgate.attempts.kept import KeepFailed, KeepLimits
from headgate.attempts.lake_store import lake_opener
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.records import AttemptRecords
from headgate.attempts.report import AttemptReport
from headgate.attempts.runtime import AttemptOptions, Runtime
from headgate.failpoints import Failpoint
from headgate.ids import ULIDS
from headgate.lake import Changes, EmbeddedLake, Source
from headgate.lake.opening import OpenLake
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import Ref
from headgate.tasks import TaskDeclaration, WorkspaceSpec, task, task_of
from headgate.tasks.protocols import PolledAttempt

_REPOSITORY = "songs"
_numbers = itertools.count()


def fresh_repository() -> str:
    """A name for a kit on a server that is shared."""
    return f"{_REPOSITORY}-{ULIDS.new().lower()}"


class Params(BaseModel):
    text: str = "new"
    fail: bool = False


class Result(BaseModel):
    files: int


def declared(body: Callable[..., Any], *, workspace: WorkspaceSpec | str | None = "/", **more: Any) -> TaskDeclaration:
    """The declaration of a body; each gets a name of its own."""
    return task_of(task(name=f"{body.__name__}_{next(_numbers)}", workspace=workspace, **more)(body))


def count(workspace: Path) -> Result:
    return Result(files=sum(path.is_file() for path in workspace.rglob("*")))


def write(workspace: Path, params: Params) -> Result:
    (workspace / "out.txt").write_text(params.text)
    return count(workspace)


def look(workspace: Path, params: Params) -> Result:
    return count(workspace)


WRITE, LOOK = declared(write), declared(look)
READ_ONLY = declared(look, workspace=WorkspaceSpec(read_only=True))


@dataclass
class Kit:
    """Everything an attempt needs, for real, below one folder."""

    folder: Path
    lake: OpenLake
    orchestrator: LocalOrchestrator
    records: AttemptRecords
    runtime: Runtime
    input_ref: Ref
    repository: str = _REPOSITORY
    retry: TaskRule = field(default_factory=lambda: TaskRule(delay_seconds=0))

    @classmethod
    def make(cls, folder: Path, lake: OpenLake | None = None, *, repository: str = _REPOSITORY) -> Kit:
        """A new one, or the one that is in the folder; on an embedded lake in it, unless another is given."""
        lake = lake or EmbeddedLake(folder / "lake", create=True)
        if repository not in lake.repositories():
            lake.create_repository(repository)
            puts: dict[str, Source] = {"a.txt": b"a", "deep/b.txt": b"b"}
            lake.commit(repository, "main", Changes(puts=puts), message="as it began")
        begun = [commit.ref for commit in lake.log(repository, lake.resolve(repository, "main")) if commit.parents]
        orchestrator = LocalOrchestrator(folder / "orchestrator.db")
        records = AttemptRecords(folder / "attempts.db")
        runtime = Runtime(
            orchestrator=orchestrator,
            stores={"workspace": lake_opener(lambda block: lake)},
            options=AttemptOptions(workspace_root=folder / "work", keep=KeepLimits(mode=KeepFailed.NONE)),
            records=records,
            wait=lambda seconds: None,
        )
        return cls(folder, lake, orchestrator, records, runtime, begun[-1], repository)

    def close(self) -> None:
        self.lake.close()
        self.orchestrator.close()
        self.records.close()

    def with_options(self, **changes: Any) -> Kit:
        return replace(self, runtime=replace(self.runtime, options=replace(self.runtime.options, **changes)))

    def with_parts(self, **changes: Any) -> Kit:
        return replace(self, runtime=replace(self.runtime, **changes))

    def block(self, ref: str | None = None, branch: str = "main") -> dict[str, str]:
        return {"repository": self.repository, "branch": branch, "ref_type": "commit", "ref": ref or self.input_ref}

    def submit(self, declaration: TaskDeclaration, ref: str | None = None, **params: Any) -> PolledAttempt:
        """Start a workflow and poll its first attempt."""
        task_input: Mapping[str, Any] = {"params": params}
        if declaration.workspace is not None:
            task_input = {"workspace": self.block(ref), **task_input}
        submitted = self.orchestrator.submit(declaration.name, task_input, retry=self.retry)
        return self.poll(declaration, submitted.workflow)

    def poll(self, declaration: TaskDeclaration, workflow: str | None = None) -> PolledAttempt:
        attempt = self.orchestrator.poll(declaration.name, workflow=workflow)
        assert attempt is not None
        return attempt

    def run(self, declaration: TaskDeclaration, attempt: PolledAttempt | None = None, **params: Any) -> AttemptReport:
        return run_attempt(self.runtime, declaration, attempt or self.submit(declaration, **params))

    # what there is to see
    def head(self, branch: str = "main") -> Ref:
        return self.lake.head(self.repository, branch).ref

    def history(self, branch: str = "main") -> list[Ref]:
        """Oldest first, from the input ref on."""
        refs = [commit.ref for commit in self.lake.log(self.repository, self.head(branch))]
        return refs[: refs.index(self.input_ref) + 1][::-1]

    def files(self, ref: Ref | None = None) -> dict[str, bytes]:
        found = {}
        for item in self.lake.objects(self.repository, ref or self.head()):
            with self.lake.open(self.repository, ref or self.head(), item.path) as stream:
                found[item.path] = stream.read()
        return found

    def staging_branches(self) -> list[str]:
        return [branch.name for branch in self.lake.branches(self.repository, prefix="headgate-staging-")]

    def workspaces(self) -> list[Path]:
        root = self.runtime.options.workspace_root
        return [path for path in root.iterdir() if not path.name.startswith(".failed")] if root.exists() else []

    def assert_nothing_left(self) -> None:
        assert self.staging_branches() == []
        assert self.workspaces() == []

    def somebody_commits(self, text: str = "theirs", branch: str = "main") -> Ref:
        """A person's commit: no metadata of ours."""
        return self.lake.commit(self.repository, branch, Changes(puts={"person.txt": text.encode()}), message="by hand")


class Crashed(BaseException):
    """Stands for the end of the process: nothing may report after it."""


@contextmanager
def crash_at(point: Failpoint, error: BaseException | None = None) -> Iterator[None]:
    """End the attempt at a failpoint, which must be reached; by default as if the process had died there."""
    reached = []

    def stop(here: Failpoint) -> None:
        if here is point and not reached:
            reached.append(here)
            raise error or Crashed(point)

    failpoints.arm(stop)
    try:
        yield
    except Crashed:
        pass
    finally:
        failpoints.arm(None)
    assert reached, f"{point} was never reached"


@contextmanager
def at(point: Failpoint, action: Callable[[], object]) -> Iterator[None]:
    """Do something between two steps of the attempt, once; the point must be reached."""
    reached = []

    def do(here: Failpoint) -> None:
        if here is point and not reached:
            reached.append(here)
            action()

    failpoints.arm(do)
    try:
        yield
    finally:
        failpoints.arm(None)
    assert reached, f"{point} was never reached"


def run_in_child(code: str, folder: Path) -> int:
    """Run `code` in a process of its own, with a kit on `folder` as `kit`; its exit code, negative for a signal."""
    root = Path(__file__).parents[3]
    lines = [
        "from pathlib import Path",
        "from tests.unit.attempts.kit import *",
        f"kit = Kit.make(Path({str(folder)!r}))",
    ]
    script = "\n".join([*lines, code])
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def die() -> None:
    """The end of the process, as the system sees it: nothing runs after this."""
    os.kill(os.getpid(), signal.SIGKILL)
