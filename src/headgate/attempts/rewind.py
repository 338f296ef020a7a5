"""Moving a head back by hand, under the hard fence, with a record of who and why."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from typing import Any, Protocol

from headgate.attempts.records import AttemptRecords, RewindRecord
from headgate.clock import Clock
from headgate.errors import Fenced, InvalidInput
from headgate.ids import IdSource
from headgate.lake.interface import Lake
from headgate.publication import Ref


class RunningTask(Protocol):
    """What is asked about a task that is not over."""

    @property
    def workflow(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def input(self) -> Any: ...


def refuse_running(running: Iterable[RunningTask], store: str, branch: str) -> None:
    """Raise while an attempt on a branch of a repository or a graph runs."""
    for task in running:
        for key, name in (("workspace", "repository"), ("graph", "graph")):
            block = task.input.get(key) or {}
            if (block.get(name), block.get("branch")) == (store, branch):
                raise Fenced(
                    message=f"workflow {task.workflow} (task {task.name}) works on {store}@{branch}",
                    hint="wait until it is over, or end it",
                )


def plan_rewind(
    lake: Lake, *, repository: str, branch: str, to: str, running: Iterable[RunningTask]
) -> tuple[Ref, Ref]:
    """The head as it is, and the ref it is to go back to. Refused while an attempt on the branch runs."""
    refuse_running(running, repository, branch)
    head = lake.head(repository, branch).ref
    target = lake.resolve(repository, to)
    if target == head:
        raise InvalidInput(message=f"{repository}@{branch} is at {head} already", hint="there is nothing to move")
    if all(commit.ref != target for commit in lake.log(repository, head)):
        raise InvalidInput(
            message=f"{target} is not in the history of {repository}@{branch}",
            hint="a head is only moved back; to bring in other work, merge it",
        )
    return head, target


def rewind(
    lake: Lake,
    records: AttemptRecords,
    *,
    repository: str,
    branch: str,
    head: Ref,
    to: Ref,
    why: str,
    clock: Clock,
    ids: IdSource,
) -> RewindRecord:
    """Move the head from `head` to `to`, if it is still at `head`; the move is recorded before it is made."""
    record = RewindRecord(
        store=repository, branch=branch, from_ref=head, to_ref=to, who=getpass.getuser(), why=why, at=clock.now()
    )
    records.rewound(record)
    scratch = f"headgate-rewind-{ids.new()}"
    lake.create_branch(repository, scratch, at=to)
    try:
        lake.move_head(repository, branch, to_branch=scratch, expected_head=head)
    finally:
        lake.delete_branch(repository, scratch)
    return record
