"""What a task needs from above and cannot import: the orchestrator, Spark, a graph transaction.

Upper layers implement these; attempts get the objects handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from headgate.publication import Ref, TaskFate


@dataclass(frozen=True, kw_only=True)
class AttemptId:
    """The identity of one execution handed out by the orchestrator.

    Every poll uses a fresh worker id, since an orchestrator may hand out one task id again with the same counts.
    """

    orchestrator: str
    workflow: str
    task_id: str
    retry_count: int
    poll_count: int
    worker_id: str


@dataclass(frozen=True, kw_only=True)
class PolledAttempt:
    """What a poll hands out: whose attempt it is, what the task is called, its input."""

    id: AttemptId
    task_name: str
    reference_task: str
    input: Mapping[str, Any]
    seq: int = 0
    iteration: int = 0
    response_seconds: float = 600.0
    polled_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class AttemptSnapshot:
    """The orchestrator's present view of an attempt's task."""

    id: AttemptId
    status: str
    """The orchestrator's own word; `IN_PROGRESS` is the only one under which an attempt may publish."""
    output: Mapping[str, Any] = field(default_factory=dict)


class Orchestrator(Protocol):
    """Hands out attempts and takes their results. Every call may raise `Transient`; none but reads repeats itself."""

    @property
    def id(self) -> str:
        """Names this orchestrator in commit metadata and staging branches: the same for all its workers, for good."""
        ...

    def poll(self, task_name: str) -> PolledAttempt | None:
        """The next attempt of that task under a fresh worker id; None if nothing waits."""
        ...

    def current(self, attempt: AttemptId) -> AttemptSnapshot:
        """Read the task of `attempt` again. `NotFound` if the orchestrator has none of that id."""
        ...

    def fate(self, workflow: str, task_id: str, *, store: str) -> TaskFate:
        """Whether a task id is final, and which ref of `store` (`workspace` or `graph`) it was accepted with."""
        ...

    def extend(self, attempt: AttemptId) -> None:
        """Lengthen the lease by its full time. Proves nothing about who is current."""
        ...

    def complete(self, attempt: AttemptId, output: Mapping[str, Any]) -> None: ...

    def fail(self, attempt: AttemptId, *, reason: str, terminal: bool) -> None: ...

    def log(self, attempt: AttemptId, line: str) -> None: ...


class SparkProvider(Protocol):
    """Gives a task body its SparkSession."""

    def reach(self, options: Mapping[str, str]) -> None:
        """Have the session use these options of Hadoop, which may hold secrets; a session that was handed in keeps
        its own."""
        ...

    def session(self, *, jobs: str) -> Any:
        """The session, started when it is first asked for; jobs of the calling thread are called `jobs` from now on."""
        ...

    def cancel(self, jobs: str) -> None:
        """Stop the jobs of that name, those that are started later among them."""
        ...

    def watched(self, jobs: str, report: Callable[[str, int, int], None]) -> AbstractContextManager[None]:
        """While inside, tell how the jobs of that name advance: what is done, and how many tasks of how many."""
        ...

    @property
    def pages(self) -> str:
        """Where the session shows what it does; empty if nowhere."""
        ...


class GraphTransaction(Protocol):
    """A pinned snapshot of a graph, and the changes a task makes to it; published by the runtime, never by the body."""

    @property
    def base(self) -> Ref: ...

    def read(self, type_name: str, *, columns: list[str] | None = None, where: str | None = None) -> Any:
        """The rows of a type as an Arrow table, earlier changes of this transaction included."""
        ...

    def frame(self, spark: Any, type_name: str, *, columns: Sequence[str] | None = None) -> Any:
        """The rows of a type at the base, as a DataFrame of Spark."""
        ...

    def query(self, text: str, **params: Any) -> Any: ...

    def sql(self, text: str) -> Any: ...

    def mutate(self, text: str, **params: Any) -> Any: ...

    def append(self, type_name: str, rows: Any) -> None:
        """Add rows: an Arrow table, dicts, or a DataFrame, which Spark stages."""
        ...

    def merge(self, type_name: str, rows: Any) -> None: ...

    def overwrite(self, type_name: str, rows: Any) -> None: ...

    def delete(self, type_name: str, *, where: str | None = None, ids: Any = None) -> Any: ...


class MergeWorkspace(Protocol):
    """A branch that the runtime merges into the one the task publishes to; no file of it is on this machine.

    The branch is the one that `params.source` names.
    """

    @property
    def source(self) -> str: ...

    @property
    def source_ref(self) -> Ref:
        """The head that is merged."""
        ...


class SparkWorkspace(Protocol):
    """A workspace at the lake, for Spark: paths as text, since `s3a://…` is no local file."""

    def read_path(self, path: str) -> str:
        """Where Spark reads `path` of the input ref."""
        ...

    def write_path(self, path: str) -> str:
        """Where Spark writes `path`; seen on the target branch only after the publish."""
        ...
