"""What an attempt asks of a store, in the order in which it asks; lakes and graphs each implement it once.

The lifecycle knows only this. A store decides nothing: it reads, stages, and makes the one update it is told to make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.names import StagingName
from headgate.attempts.workspace import LocalWorkspace
from headgate.errors import Unsupported
from headgate.publication import CommitMetadata, Decision, Head, Outcome, Replace, Strength
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.io import StoreBlock, TaskInput
from headgate.tasks.protocols import Orchestrator, PolledAttempt


@dataclass(frozen=True, kw_only=True)
class StoreRequest:
    """Which store of which attempt is wanted."""

    declaration: TaskDeclaration
    attempt: PolledAttempt
    key: str
    """`workspace` or `graph`."""
    block: StoreBlock
    replace: Replace
    """Which heads on top of the input ref may be replaced: the task's declaration, or the settings."""
    name: StagingName
    workspace: LocalWorkspace
    orchestrator: Orchestrator


class AttemptStore(Protocol):
    """One store of one attempt. Each method is called at most once, from top to bottom, but for the reading ones."""

    @property
    def strength(self) -> Strength:
        """Who decides that the head is the expected one when this store updates it."""
        ...

    def open(self, cleanup: Cleanup) -> Any:
        """Make the input ref available on this machine; what the body gets for its argument."""
        ...

    def check_before(self) -> None:
        """The pre guardrails."""
        ...

    @property
    def stages_in_body(self) -> bool:
        """Whether the body writes where it is staged while it runs, so that `begin` must come before it."""
        ...

    def begin(self, cleanup: Cleanup) -> None:
        """Make the place that the body stages in, owned by `cleanup` from the start."""
        ...

    def check_after(self) -> None:
        """The post guardrails."""
        ...

    def changes(self) -> Sequence[str]:
        """What the body changed, for people: a kind and a path each. Empty means unchanged."""
        ...

    def stage(self, cleanup: Cleanup, metadata: CommitMetadata) -> None:
        """Write the changes where nobody reads yet, on top of the input ref; owned by `cleanup` from the start."""
        ...

    def revoke_predecessors(self) -> None:
        """Make sure that no earlier attempt of this task can publish any more."""
        ...

    def head(self) -> Head:
        """The target branch's head."""
        ...

    def prepare(self, cleanup: Cleanup, decision: Decision) -> None:
        """Make whatever the update needs, so that between the last fence and the update lies nothing else."""
        ...

    def publish(self, decision: Decision, metadata: CommitMetadata, *, timeout: float | None) -> Outcome:
        """Make the one update that was decided. A refusal raises, and leaves the target as it was.

        An answer that is lost is revoked and read back here: what is returned is final.
        """
        ...


StoreOpener: TypeAlias = Callable[[StoreRequest], AttemptStore]


def open_stores(
    openers: Mapping[str, StoreOpener],
    task_input: TaskInput,
    *,
    declaration: TaskDeclaration,
    attempt: PolledAttempt,
    name: StagingName,
    workspace: LocalWorkspace,
    orchestrator: Orchestrator,
    replace: Replace,
) -> dict[str, AttemptStore]:
    """The stores that an input names, by their keys; nothing is read from them yet."""
    stores = {}
    for key, block in task_input.blocks.items():
        if key not in openers:
            raise Unsupported(
                message=f"task {declaration.name} needs a {key}, and this worker has none",
                hint=f"run it where a {key} is configured",
            )
        stores[key] = openers[key](
            StoreRequest(
                declaration=declaration,
                attempt=attempt,
                key=key,
                block=block,
                replace=replace,
                name=name,
                workspace=workspace,
                orchestrator=orchestrator,
            )
        )
    return stores
