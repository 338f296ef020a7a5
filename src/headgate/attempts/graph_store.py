"""A graph as the lifecycle asks for it: a transaction for the body, then one publish that the manifest decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.judging import fenced
from headgate.attempts.stores import AttemptStore, StoreOpener, StoreRequest
from headgate.errors import Conflict, InvalidInput, OutcomeUnknown
from headgate.graph.graph import Graph
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.graph.write.task import Judged, judged_head, publish_changes, publish_instead
from headgate.graph.write.transaction import Transaction
from headgate.publication import (
    CommitMetadata,
    Decision,
    Head,
    Move,
    Outcome,
    Published,
    Ref,
    Strength,
    Unknown,
)
from headgate.tasks.io import GraphBlock
from headgate.tasks.specs import GraphSpec


def graph_opener(graphs: Callable[[GraphBlock], Graph]) -> StoreOpener:
    """Opens the graph that `graphs` finds for an input block."""

    def opened(request: StoreRequest) -> AttemptStore:
        assert isinstance(request.block, GraphBlock)
        return GraphAttemptStore(graphs(request.block), request, request.block)

    return opened


class GraphAttemptStore:
    """The graph of one attempt. Nothing is stored before the publish: staging checks, and keeps what is pending."""

    def __init__(self, graph: Graph, request: StoreRequest, block: GraphBlock) -> None:
        assert request.declaration.graph is not None
        self._graph, self._request, self._block = graph, request, block
        self._spec: GraphSpec = request.declaration.graph
        self._transaction: Transaction | None = None
        self._judged: Judged | None = None
        self._incarnation: str | None = None

    @property
    def strength(self) -> Strength:
        return Strength.HARD

    # before the body
    def open(self, cleanup: Cleanup) -> Transaction:
        base = self._graph.base(commit=self._block.ref)
        if base.branch != self._block.branch and self._block.branch not in self._graph.branches():
            raise InvalidInput(
                message=f"the graph has no branch {self._block.branch}", hint="name a branch in the task's input"
            )
        self._incarnation = self._graph.base(branch=self._block.branch).incarnation
        for name in self._spec.types:
            base.type(name)
        self._transaction = Transaction(
            self._graph.store,
            base,
            WriteRequest(writer=Writer.TASK, branch=self._block.branch),
            types=tuple(self._spec.types) or None,
            writable=not self._spec.read_only,
        )
        cleanup.later("drop the scratch tables of the transaction", self._transaction.rollback)
        return self._transaction

    def check_before(self) -> None:
        return

    @property
    def stages_in_body(self) -> bool:
        return False

    def begin(self, cleanup: Cleanup) -> None:
        return

    # after the body
    def check_after(self) -> None:
        return

    def changes(self) -> Sequence[str]:
        return [f"{name}: {told}" for name, told in self._opened.told().items()]

    # staging
    def stage(self, cleanup: Cleanup, metadata: CommitMetadata) -> None:
        """Check the changes against the input ref; files are written when the head they go on is known."""
        self._opened.check()

    def revoke_predecessors(self) -> None:
        """An earlier attempt that is still publishing meets this one's decision in the manifest, not before."""
        return

    # publishing
    def head(self) -> Head:
        self._judged = judged_head(
            self._graph.store, self._block.branch, self._block.ref, self._spec.types, exact=self._spec.exact
        )
        return self._judged.head

    def prepare(self, cleanup: Cleanup, decision: Decision) -> None:
        return

    def publish(self, decision: Decision, metadata: CommitMetadata, *, timeout: float | None) -> Outcome:
        assert self._judged is not None
        request = WriteRequest(
            branch=self._block.branch,
            incarnation=self._incarnation,
            writer=Writer.TASK,
            actor=f"task:{self._request.declaration.name}",
            message=self._message(),
            publish_id=str(metadata.publish_id),
            metadata=metadata.to_map(),
            replaces="" if decision.move is Move.MERGE else str(self._judged.head.ref),
            onto="" if decision.move is Move.MERGE else self._block.ref,
        )
        store, changes, judged = self._graph.store, self._opened.prepare_on, self._judged
        under = self._opened.staged_under
        try:
            if decision.move is Move.MERGE:
                done = self._opened.published(
                    lambda: publish_changes(store, request, changes, judged, timeout=timeout, staged_under=under)
                )
            else:
                brought = changes if decision.move is Move.REPLACE else None
                done = self._opened.published(
                    lambda: publish_instead(store, request, brought, judged, timeout=timeout, staged_under=under)
                )
        except Conflict as lost:
            raise self._lost_the_race(lost) from lost
        except OutcomeUnknown as unknown:
            return Unknown(publish_id=metadata.publish_id, reason=unknown.summary)
        return Published(ref=Ref(done.commit), strength=Strength.HARD)

    @property
    def _opened(self) -> Transaction:
        assert self._transaction is not None
        return self._transaction

    def _lost_the_race(self, lost: Conflict) -> Exception:
        now = self._graph.head(self._block.branch)
        head = Head(branch=self._block.branch, ref=Ref(now.id), parents=(Ref(now.parent),) if now.parent else ())
        return fenced(head, input_ref=self._block.input_ref, reason=lost.summary)

    def _message(self) -> str:
        attempt = self._request.attempt
        return f"{attempt.reference_task}: {self._request.declaration.name} (retry {attempt.id.retry_count})"
