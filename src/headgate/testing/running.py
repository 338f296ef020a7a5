"""Running a task in a test as it runs in production, and what there is to assert on afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from headgate.attempts import AttemptReport
from headgate.errors import Unsupported
from headgate.publication import Ref
from headgate.tasks import TaskDeclaration, task_of
from headgate.testing.place import Files, Place, Target


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a task ended, and what its branch holds since."""

    status: str | None
    """`COMPLETED`, `FAILED` or `FAILED_WITH_TERMINAL_ERROR`, as the orchestrator was told."""
    result: Any
    """What the next task gets of it: the result as JSON data. None unless it completed."""
    changed: Mapping[str, str]
    """What the body did to each path: `added`, `changed` or `removed`."""
    files: Mapping[str, bytes]
    """All files at the branch's head."""
    history: tuple[Ref, ...]
    """The branch from the input ref on, oldest first: one ref if nothing was published, two if something was."""
    report: AttemptReport = field(repr=False)
    """Everything else: the phases with their times, the decision about the head, the warnings."""

    @property
    def ok(self) -> bool:
        return self.report.ok

    @property
    def reason(self) -> str:
        """Why it failed, in the words the orchestrator was told."""
        return self.report.reason

    @property
    def error(self) -> BaseException | None:
        return self.report.error

    def text(self, path: str) -> str:
        """One file at the branch's head."""
        return self.files[path].decode()


class TaskRunner:
    """Runs tasks, one after the other, on a branch of its own."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._target: Target | None = None

    def __call__(
        self,
        task: Callable[..., Any],
        *,
        files: Files | None = None,
        params: BaseModel | Mapping[str, Any] | None = None,
    ) -> Ran:
        """Run one attempt of `task` from the branch's head. It does not raise if the task fails: see `Ran.status`.

        `files` (contents by path, or a folder) are committed first, on top of what the branch has.
        """
        declaration = without_graph(task_of(task))
        target = self._start_from(files)
        workflow = self._place.submit(declaration, target, params)
        attempt = self._place.poll(declaration, workflow)
        assert attempt is not None
        report = self._place.run(declaration, attempt)
        return Ran(
            status=report.status,
            result=report.result,
            changed=dict(_kind_of(line) for line in report.changes),
            files=self._place.files(target),
            history=self._place.history(target),
            report=report,
        )

    def _start_from(self, files: Files | None) -> Target:
        place, target = self._place, self._target
        if target is None:
            target = place.new_target(files)
        elif files:
            target = place.with_files(target, files)
        else:
            target = Target(repository=target.repository, input_ref=place.head(target))
        self._target = target
        return target


def without_graph(declaration: TaskDeclaration) -> TaskDeclaration:
    """The declaration, which must not need a graph."""
    if "graph" in declaration.stores:
        raise Unsupported(
            message=f"task {declaration.name} needs a graph, and tests have only a lake",
            hint="call the task as a function with a transaction of a graph made for the test",
        )
    return declaration


def _kind_of(line: str) -> tuple[str, str]:
    kind, _, path = line.partition(" ")
    return path, kind
