"""The publication protocol, case by case, by real attempts on fresh branches of a repository: `doctor --protocol`.

The attempts are handed out by a local orchestrator in a temporary folder; the lake is the one of the settings. Every
branch that is made here is deleted again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from headgate.attempts.kept import KeepFailed, KeepLimits
from headgate.attempts.lake_store import lake_opener
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.names import PREFIX
from headgate.attempts.report import AttemptReport
from headgate.attempts.runtime import AttemptOptions, Runtime
from headgate.errors import HeadgateError
from headgate.ids import ULIDS
from headgate.lake.interface import Changes, Lake
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import CommitMetadata, PublishId, Ref
from headgate.tasks import TaskDeclaration, task, task_of

_FOLDER = "headgate-protocol"


class Params(BaseModel):
    text: str = ""


class Result(BaseModel):
    files: int


def _write(workspace: Path, params: Params) -> Result:
    if params.text:
        (workspace / _FOLDER / "file.txt").write_text(params.text)
    return Result(files=1)


_TASK: TaskDeclaration = task_of(task(name="headgate_protocol", workspace=f"{_FOLDER}/")(_write))


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    holds: bool
    detail: str


class Protocol:
    """Runs the cases against one repository."""

    def __init__(self, lake: Lake, repository: str, folder: Path) -> None:
        self._lake, self._repository = lake, repository
        self._orchestrator = LocalOrchestrator(folder / "orchestrator.db")
        self._runtime = Runtime(
            orchestrator=self._orchestrator,
            stores={"workspace": lake_opener(lambda block: lake)},
            options=AttemptOptions(workspace_root=folder / "work", keep=KeepLimits(mode=KeepFailed.NONE)),
            wait=lambda seconds: None,
        )
        self._made: list[str] = []

    def run(self, start: Ref) -> Iterator[Case]:
        """Every case, as it is decided. `start` is where the fresh target branches begin."""
        cases: dict[str, Callable[[], str]] = {
            "head is the input ref: merged": self._merged,
            "abandoned publication: replaced": self._replaced,
            "branch has moved on: fenced": self._fenced,
            "a person's commit: fenced": self._person,
            "no change, head is the input ref: completed with it": self._unchanged,
            "no change, abandoned publication: moved back": self._relocated,
            "no change, branch has moved on: fenced": self._unchanged_fenced,
        }
        self._start = start
        try:
            for name, case in cases.items():
                try:
                    problem = case()
                except HeadgateError as error:
                    problem = str(error)
                yield Case(name=name, holds=not problem, detail=problem or "as it should be")
            left = [b.name for b in self._lake.branches(self._repository, prefix=PREFIX) if self._ours(b.name)]
            yield Case(name="every staging branch is gone", holds=not left, detail=", ".join(left) or "none is left")
        finally:
            self._orchestrator.close()
            for branch in self._made:
                with suppress(HeadgateError):
                    self._lake.delete_branch(self._repository, branch)

    # cases: what is wrong, or ""
    def _merged(self) -> str:
        branch, base = self._target()
        report = self._attempt(branch, base, "ours")
        return self._history(branch, [report.published, base]) or _completed(report)

    def _replaced(self) -> str:
        branch, base = self._target()
        abandoned = self._abandoned(branch, base)
        report = self._attempt(branch, base, "ours")
        wrong = self._history(branch, [report.published, base]) or _completed(report)
        return wrong or ("the abandoned commit was kept" if report.published == abandoned else "")

    def _fenced(self) -> str:
        branch, base = self._target()
        first = self._publish(branch, base, "first")
        second = self._publish(branch, first, "second")
        return _refused(self._attempt(branch, base, "ours")) or self._history(branch, [second, first, base])

    def _person(self) -> str:
        branch, base = self._target()
        theirs = self._publish(branch, base, "theirs")
        return _refused(self._attempt(branch, base, "ours")) or self._history(branch, [theirs, base])

    def _unchanged(self) -> str:
        branch, base = self._target()
        return _completed(self._attempt(branch, base, ""), base) or self._history(branch, [base])

    def _relocated(self) -> str:
        branch, base = self._target()
        self._abandoned(branch, base)
        return _completed(self._attempt(branch, base, ""), base) or self._history(branch, [base])

    def _unchanged_fenced(self) -> str:
        branch, base = self._target()
        first = self._publish(branch, base, "first")
        second = self._publish(branch, first, "second")
        return _refused(self._attempt(branch, base, "")) or self._history(branch, [second, first, base])

    # how a case is set up
    def _target(self) -> tuple[str, Ref]:
        branch = f"protocol-{ULIDS.new().lower()}"
        self._made.append(branch)
        self._lake.create_branch(self._repository, branch, at=self._start)
        return branch, self._publish(branch, self._start, "as it began")

    def _publish(self, branch: str, base: Ref, text: str, metadata: dict[str, str] | None = None) -> Ref:
        """A commit on the target, through a branch and a merge, by nobody's task unless the metadata says so."""
        source = f"headgate-protocol-{ULIDS.new().lower()}"
        self._made.append(source)
        self._lake.create_branch(self._repository, source, at=base)
        changes = Changes(puts={f"{_FOLDER}/file.txt": text.encode()})
        self._lake.commit(self._repository, source, changes, message=text)
        return self._lake.merge(
            self._repository, source, branch, expected_head=base, message=text, metadata=metadata or {}
        )

    def _abandoned(self, branch: str, base: Ref) -> Ref:
        """A publication of a task that then failed: the orchestrator never accepted it."""
        submitted = self._orchestrator.submit(_TASK.name, self._input(branch, base, ""), retry=TaskRule(count=0))
        polled = self._orchestrator.poll(_TASK.name, workflow=submitted.workflow)
        assert polled is not None
        metadata = CommitMetadata(
            publish_id=PublishId(ULIDS.new()),
            expected_head=base,
            orchestrator=self._orchestrator.id,
            workflow=polled.id.workflow,
            reference_task=polled.reference_task,
            task_id=polled.id.task_id,
        )
        head = self._publish(branch, base, "abandoned", metadata.to_map())
        self._orchestrator.fail(polled.id, reason="its worker died after it had published", terminal=True)
        return head

    def _attempt(self, branch: str, base: Ref, text: str) -> AttemptReport:
        submitted = self._orchestrator.submit(_TASK.name, self._input(branch, base, text), retry=TaskRule(count=0))
        polled = self._orchestrator.poll(_TASK.name, workflow=submitted.workflow)
        assert polled is not None
        return run_attempt(self._runtime, _TASK, polled)

    def _input(self, branch: str, base: Ref, text: str) -> dict[str, object]:
        block = {"repository": self._repository, "branch": branch, "ref_type": "commit", "ref": base}
        return {"workspace": block, "params": {"text": text}}

    def _history(self, branch: str, expected: list[Ref | None]) -> str:
        head = self._lake.head(self._repository, branch).ref
        found = [commit.ref for _, commit in zip(expected, self._lake.log(self._repository, head), strict=False)]
        return "" if found == expected else f"the history is {found}, and should be {expected}"

    def _ours(self, branch: str) -> bool:
        return self._orchestrator.id.replace("-", "_d") in branch


def _completed(report: AttemptReport, ref: Ref | None = None) -> str:
    if not report.ok:
        return f"the attempt failed: {report.reason}"
    return "" if ref in (None, report.published) else f"it completed with {report.published}, not {ref}"


def _refused(report: AttemptReport) -> str:
    return "the attempt was not fenced" if report.ok else ""


def run_protocol(lake: Lake, repository: str, start: Ref) -> list[Case]:
    """Every case of the protocol on one repository."""
    with tempfile.TemporaryDirectory(prefix="headgate-protocol-") as folder:
        return list(Protocol(lake, repository, Path(folder)).run(start))
