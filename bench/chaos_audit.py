"""What must hold of a workflow after everything that was done to it: each step visible once, as its output says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bench.chaos_tasks import text_of
from headgate.lake.interface import Lake
from headgate.orchestrators.conductor.workflows import ServerWorkflow
from headgate.publication import CommitMetadata, Ref

HARMS = ("lost", "duplicated", "mismatched")


@dataclass(frozen=True)
class Started:
    """A workflow, the branch that it alone writes, and where that began."""

    workflow: str
    token: str
    branch: str
    base: Ref
    steps: int


@dataclass(frozen=True)
class Harmed:
    harm: str
    what: str

    def __str__(self) -> str:
        return f"{self.harm}: {self.what}"


def audit(started: Started, now: ServerWorkflow, lake: Lake, repository: str) -> Iterator[Harmed]:
    """Everything that is wrong with a workflow that is over."""
    head = lake.head(repository, started.branch).ref
    visible: list[tuple[Ref, str]] = []
    for commit in lake.log(repository, head):
        if commit.ref == started.base:
            break
        made_by = CommitMetadata.from_map(commit.metadata)
        visible.append((commit.ref, made_by.reference_task if made_by else "nobody"))
    visible.reverse()
    refs = [ref for ref, _ in visible]
    accepted = {
        task.reference: Ref(task.output["workspace"]["ref"])
        for task in sorted(now.tasks, key=lambda task: task.reference)
        if task.status == "COMPLETED"
    }
    where = f"workflow {now.id} ({now.status}) on {started.branch}"
    for reference, ref in accepted.items():
        if ref not in refs:
            yield Harmed("lost", f"{where}: {ref} of {reference} was accepted and is not in the history {visible}")
    for reference, times in Counter(by for _, by in visible).items():
        if times > 1:
            yield Harmed("duplicated", f"{where}: {reference} is visible {times} times: {visible}")
    # The last attempt may have published without being accepted, if nobody retried it: that is all there may be more.
    more = refs[len(accepted) :]
    if refs[: len(accepted)] != list(accepted.values()) or len(more) > (now.status != "COMPLETED"):
        yield Harmed("mismatched", f"{where}: the history is {visible}, and {accepted} was accepted")
    if now.status == "COMPLETED":
        told = now.output.get("workspace") or {}
        if told.get("ref") != head or len(accepted) != started.steps:
            yield Harmed("mismatched", f"{where}: its output is {told}, and the head is {head}")
        for step in range(started.steps):
            with lake.open(repository, head, f"{step}.txt") as stream:
                if stream.read().decode() != text_of(started.token, step):
                    yield Harmed("mismatched", f"{where}: the file of step {step} is not what it wrote")
