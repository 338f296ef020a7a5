"""A lake, a local orchestrator and all an attempt needs, in one folder that a test throws away.

Nothing waits for the disk. Every test has a repository of its own in the lake, called a target here, so that one lake
serves many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel

from headgate.attempts import AttemptOptions, AttemptReport, Runtime, lake_opener, run_attempt
from headgate.attempts.gc import Reclaimed, reclaim_branches, reclaim_workspaces
from headgate.attempts.kept import KeepFailed, KeepLimits
from headgate.attempts.names import PREFIX
from headgate.attempts.stores import AttemptStore, StoreRequest
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import InvalidInput
from headgate.ids import ULIDS
from headgate.lake import Changes, EmbeddedLake, LocalFile, Source
from headgate.lake.interface import MAIN
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import Ref
from headgate.settings import SparkSettings
from headgate.spark import SparkSessions
from headgate.tasks import TaskDeclaration
from headgate.tasks.protocols import PolledAttempt

if TYPE_CHECKING:
    from headgate.graph import Graph

Files = Mapping[str, str | bytes] | Path
"""What a test says a workspace holds: contents by path, or a folder."""

_RETRIES = TaskRule(count=8, delay_seconds=0)
"""As often as a test could want, at once."""


@dataclass(frozen=True)
class LaterClock:
    """The system's clock, put forward: leases have run out by it."""

    by: timedelta

    def now(self) -> datetime:
        return SYSTEM_CLOCK.now() + self.by

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


@dataclass(frozen=True, kw_only=True)
class Target:
    """A repository with one branch that tasks publish to, and the commit a test began from."""

    repository: str
    input_ref: Ref
    graph: str | None = None
    """The name of the graph beside it, if the test has one."""
    graph_ref: Ref | None = None

    def start(self, store: str) -> Ref:
        """The commit that a test began from, of the lake or of the graph."""
        if store == "graph":
            assert self.graph_ref is not None
            return self.graph_ref
        return self.input_ref

    def blocks(self, declaration: TaskDeclaration) -> dict[str, Any]:
        """The input blocks of the stores that a task declares."""
        found: dict[str, Any] = {}
        if "workspace" in declaration.stores:
            found["workspace"] = {"repository": self.repository, **_at(self.input_ref)}
        if "graph" in declaration.stores:
            if self.graph is None or self.graph_ref is None:
                raise InvalidInput(
                    message=f"task {declaration.name} needs a graph, and the test has none",
                    hint="give the graph's schema: run_task(…, schema='node Song { title: String @key }')",
                )
            found["graph"] = {"graph": self.graph, **_at(self.graph_ref)}
        return found


@cache
def _sparks() -> SparkSessions:
    """One for all tests of a process, since a session takes seconds to start; nothing starts before a task asks."""
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    return SparkSessions(SparkSettings(master="local[1]", conf=dict(conf)))


@dataclass(frozen=True)
class Place:
    """The parts in `folder`, opened when first used and made where there are none. Use it as a context manager."""

    folder: Path
    clock: Clock = SYSTEM_CLOCK

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open, so that a fork shares no database with its parent; the next use opens it again."""
        for name in ("lake", "orchestrator"):
            if name in self.__dict__:
                self.__dict__[name].close()

    @cached_property
    def lake(self) -> EmbeddedLake:
        return EmbeddedLake(self.folder / "lake", create=True, durable=False, clock=self.clock)

    @cached_property
    def orchestrator(self) -> LocalOrchestrator:
        return LocalOrchestrator(self.folder / "orchestrator.db", clock=self.clock, durable=False)

    @property
    def workspace_root(self) -> Path:
        return self.folder / "work"

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            orchestrator=self.orchestrator,
            stores={"workspace": lake_opener(lambda block: self.lake), "graph": self._open_graph_store},
            options=AttemptOptions(workspace_root=self.workspace_root, keep=KeepLimits(mode=KeepFailed.NONE)),
            spark=_sparks(),
            clock=self.clock,
        )

    def _open_graph_store(self, request: StoreRequest) -> AttemptStore:
        from headgate.attempts.graph_store import graph_opener

        return graph_opener(lambda block: self.open_graph(block.graph))(request)

    def later(self, **by: float) -> Place:
        """The same folder, seen after some time."""
        return Place(self.folder, LaterClock(timedelta(**by)))

    # making and running
    def new_target(self, files: Files | None = None) -> Target:
        repository = f"test-{ULIDS.new().lower()}"
        ref = self.lake.create_repository(repository)
        target = Target(repository=repository, input_ref=ref)
        return self.with_files(target, files) if files else target

    def with_files(self, target: Target, files: Files) -> Target:
        """The target with these files committed on top of what its branch has."""
        puts = _sources(files)
        ref = self.lake.commit(target.repository, MAIN, Changes(puts=puts), message="files of the test")
        return replace(target, input_ref=ref)

    def with_graph(self, target: Target, schema: str) -> Target:
        """The target with a new, empty graph beside it."""
        from headgate import graph as graphs

        name = f"graph-{ULIDS.new().lower()}"
        with graphs.init(str(self.folder / name), schema) as graph:
            return replace(target, graph=name, graph_ref=Ref(graph.head().id))

    def with_rows(self, target: Target, rows: Iterable[Mapping[str, Any]]) -> Target:
        """The target with these rows loaded into its graph, on top of what it has."""
        assert target.graph is not None
        with self.open_graph(target.graph) as graph:
            loaded = [dict(row) for row in rows]
            if loaded:
                graph.load(loaded)
            return replace(target, graph_ref=Ref(graph.head().id))

    def open_graph(self, name: str) -> Graph:
        from headgate import graph as graphs

        return graphs.open(str(self.folder / name))

    def submit(self, declaration: TaskDeclaration, target: Target, params: BaseModel | Mapping[str, Any] | None) -> str:
        """Start a workflow of this task on the target's input ref; its id."""
        given = params.model_dump(mode="json", by_alias=True) if isinstance(params, BaseModel) else dict(params or {})
        task_input = {"params": given, **target.blocks(declaration)}
        return self.orchestrator.submit(declaration.name, task_input, retry=_RETRIES).workflow

    def poll(self, declaration: TaskDeclaration, workflow: str) -> PolledAttempt | None:
        """The attempt that is due; None if the workflow is over."""
        # A poll that finds a lease run out hands the task out again from that moment on: the next poll gets it.
        found = self.orchestrator.poll(declaration.name, workflow=workflow)
        return found or self.orchestrator.poll(declaration.name, workflow=workflow)

    def run(self, declaration: TaskDeclaration, attempt: PolledAttempt) -> AttemptReport:
        return run_attempt(self.runtime, declaration, attempt)

    def collect_garbage(self, target: Target) -> Reclaimed:
        """What `headgate gc` does, for this target's repository."""
        found = reclaim_workspaces(self.workspace_root, clock=self.clock)
        branches = reclaim_branches(self.lake, [target.repository], self.orchestrator, clock=self.clock)
        found.removed += branches.removed
        found.left += branches.left
        found.failed += branches.failed
        return found

    def forget(self, target: Target) -> None:
        """Take away all that the target's branch held: what is written once more is then written again."""
        self.lake.delete_branch(target.repository, MAIN)
        self.lake.gc()

    # looking
    def head(self, target: Target, store: str = "workspace") -> Ref:
        """Where the branch is; of a graph the newest commit that changed anything."""
        return self._graph_history(target)[-1] if store == "graph" else self.lake.head(target.repository, MAIN).ref

    def history(self, target: Target, store: str = "workspace") -> tuple[Ref, ...]:
        """The first-parent history of the branch, oldest first, from the input ref on; all of it if that is gone."""
        if store == "graph":
            return self._graph_history(target)
        found: list[Ref] = []
        for commit in self.lake.log(target.repository, self.head(target)):
            found.append(commit.ref)
            if commit.ref == target.input_ref:
                break
        return tuple(reversed(found))

    def _graph_history(self, target: Target) -> tuple[Ref, ...]:
        assert target.graph is not None
        found: list[Ref] = []
        with self.open_graph(target.graph) as graph:
            for commit in graph.log():
                if commit.content:
                    found.append(Ref(commit.id))
                if commit.id == target.graph_ref:
                    break
        return tuple(reversed(found))

    def shown(self, target: Target, store: str) -> dict[str, Any]:
        """What the head holds, by path or by type."""
        if store != "graph":
            return dict(self.files(target))
        assert target.graph is not None
        with self.open_graph(target.graph) as graph:
            now = graph.snapshot()
            tables = {found.name: now.table(found.name).to_table().to_pylist() for found in now.schema.tables()}
        return {name: sorted(rows, key=repr) for name, rows in tables.items()}

    def files(self, target: Target, ref: Ref | None = None) -> dict[str, bytes]:
        ref = ref or self.head(target)
        found = {}
        for item in self.lake.objects(target.repository, ref):
            with self.lake.open(target.repository, ref, item.path) as stream:
                found[item.path] = stream.read()
        return found

    def staging_branches(self, target: Target) -> list[str]:
        return [branch.name for branch in self.lake.branches(target.repository, prefix=PREFIX)]

    def workspaces(self) -> list[str]:
        root = self.workspace_root
        return sorted(entry.name for entry in root.iterdir()) if root.is_dir() else []


def _at(ref: Ref) -> dict[str, str]:
    return {"branch": MAIN, "ref_type": "commit", "ref": ref}


def _sources(files: Files) -> dict[str, Source]:
    if isinstance(files, Path):
        found = sorted(path for path in files.rglob("*") if path.is_file())
        return {path.relative_to(files).as_posix(): LocalFile(path) for path in found}
    return {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
