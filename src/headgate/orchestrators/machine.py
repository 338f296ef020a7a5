"""The parts of Headgate on this machine, opened from the settings: the orchestrator, the lakes, the records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headgate.attempts.gc import Reclaimed, reclaim_branches, reclaim_workspaces
from headgate.attempts.kept import KeepFailed, KeepLimits, KeptAttempts
from headgate.attempts.lake_store import Watch, lake_opener, logged
from headgate.attempts.records import AttemptRecords
from headgate.attempts.runtime import AttemptOptions, Runtime
from headgate.attempts.stores import AttemptStore, StoreRequest
from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import MissingExtra, Unsupported
from headgate.lake.stores import Lakes, OpenStore
from headgate.logs import Redactor
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import Replace
from headgate.settings import Settings
from headgate.settings.fields import secrets_in
from headgate.spark import SparkSessions
from headgate.telemetry import NO_TRACES, SILENT, Recorder, Traces

if TYPE_CHECKING:
    from headgate.graph import Graph
    from headgate.orchestrators.conductor import ConductorOrchestrator
    from headgate.orchestrators.conductor.workflows import ServerTask
    from headgate.orchestrators.local_records import TaskRecord
    from headgate.tasks.protocols import Orchestrator


_entered: list[Machine] = []


@dataclass(frozen=True, eq=False)
class Machine:
    """Opens each part when it is first asked for. Use it as a context manager."""

    settings: Settings
    clock: Clock = SYSTEM_CLOCK
    spark_session: Any = None
    """A SparkSession of the caller, used as it is; else one is built from the settings."""
    domain: str | None = None
    """The task domain at a Conductor server; None for tasks without one."""

    def __enter__(self) -> Machine:
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self in _entered:
            _entered.remove(self)
        for name in ("traces", "spark", "conductor", "engine", "records", "lakes"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    @property
    def orchestrator(self) -> Orchestrator:
        """Who hands out work, as the settings say."""
        return self.conductor if self.settings.orchestrator == "conductor" else self.engine

    @cached_property
    def conductor(self) -> ConductorOrchestrator:
        """The server of the settings; it is not asked anything yet."""
        from headgate.orchestrators.conductor import open_conductor

        return open_conductor(self.settings.conductor, domain=self.domain, clock=self.clock)

    @cached_property
    def engine(self) -> LocalOrchestrator:
        """The embedded engine of this machine, whoever else hands out work."""
        return LocalOrchestrator(self.settings.state / "orchestrator.db", clock=self.clock)

    def running_tasks(self) -> list[TaskRecord | ServerTask]:
        """The tasks that wait or are worked on: those of this machine, and of the server where it hands out work."""
        found: list[TaskRecord | ServerTask] = [*self.engine.tasks(running=True)]
        if self.settings.orchestrator == "conductor":
            from headgate.orchestrators.conductor.workflows import running_tasks

            found += running_tasks(self.conductor.client)
        return found

    @cached_property
    def records(self) -> AttemptRecords:
        return AttemptRecords(self.settings.state / "attempts.db")

    @cached_property
    def lakes(self) -> Lakes:
        return Lakes(self.settings)

    @cached_property
    def spark(self) -> SparkSessions:
        """Nothing is started before a task asks for its session."""
        on_lakefs = any(store.lake == "lakefs" for store in self.settings.stores.values())
        return SparkSessions(self.settings.spark, on_lakefs=on_lakefs, session=self.spark_session)

    @property
    def options(self) -> AttemptOptions:
        kept = self.settings.workspace
        return AttemptOptions(
            workspace_root=self.settings.workspace_root,
            keep=KeepLimits(
                mode=KeepFailed(kept.keep_failed),
                max_bytes=int(kept.keep_failed_mb * 1024**2),
                max_age=timedelta(days=kept.keep_failed_days),
            ),
            replace=Replace(self.settings.replace),
        )

    @property
    def kept(self) -> KeptAttempts:
        return KeptAttempts(self.settings.workspace_root, self.options.keep, clock=self.clock)

    @cached_property
    def traces(self) -> Traces:
        """Where the settings say; nothing of OpenTelemetry is loaded while they are off."""
        if not self.settings.telemetry.traces:
            return NO_TRACES
        from headgate.telemetry.open_telemetry import open_traces

        return open_traces()

    def runtime(
        self, *, orchestrator: Orchestrator | None = None, watch: Watch = logged, recorder: Recorder = SILENT
    ) -> Runtime:
        """What attempts run with here, that of another `orchestrator` than the settings' if one is named.

        `watch` shows their transfers, `recorder` takes their metrics.
        """
        return Runtime(
            orchestrator=orchestrator or self.orchestrator,
            stores={
                "workspace": lake_opener(
                    lambda block: self.lakes.of_repository(block.repository).lake,
                    watch=watch,
                    spark=self.spark,
                    recorder=recorder,
                ),
                "graph": self._open_graph_store,
            },
            options=self.options,
            records=self.records,
            spark=self.spark,
            clock=self.clock,
            recorder=recorder,
            traces=self.traces,
            redact=Redactor(secrets_in(self.settings)).text,
        )

    def graph(self, name: str) -> Graph:
        """A graph by its name in the settings."""
        try:
            from headgate import graph as graphs
        except ModuleNotFoundError as error:
            raise MissingExtra(
                message=f"the store {name!r} is a graph, and {error.name} is not installed",
                hint="pip install 'headgate[graph]'",
                extra="graph",
            ) from error

        found = self.settings.store(name)
        if found.graph is None:
            raise Unsupported(message=f"the store {name!r} is a lake", hint="name a graph")
        kept = timedelta(days=self.settings.graph.publish_ids_days)
        return graphs.open(found.graph, publish_ids_kept=kept)

    def _open_graph_store(self, request: StoreRequest) -> AttemptStore:
        """The graph of an attempt. Lance is only loaded by tasks that use one."""
        from headgate.attempts.graph_store import graph_opener

        return graph_opener(lambda block: self.graph(block.graph))(request)

    def collect_garbage(self, *, dry_run: bool) -> Reclaimed:
        """Local workspaces and staging branches of this orchestrator's attempts that are over."""
        unknown_after = timedelta(hours=self.settings.gc.unknown_after_hours)
        found = reclaim_workspaces(
            self.settings.workspace_root, clock=self.clock, unknown_after=unknown_after, dry_run=dry_run
        )
        for store in self.lakes.all():
            if store.repository in store.lake.repositories():
                branches = reclaim_branches(
                    store.lake,
                    [store.repository],
                    self.orchestrator,
                    clock=self.clock,
                    unknown_after=unknown_after,
                    dry_run=dry_run,
                )
                for more in (branches, self._collect_on_server(store, unknown_after=unknown_after, dry_run=dry_run)):
                    found.removed += more.removed
                    found.left += more.left
                    found.failed += more.failed
        if not dry_run:
            self.kept.prune()
            self.records.prune()
        return found

    def _collect_on_server(self, store: OpenStore, *, unknown_after: timedelta, dry_run: bool) -> Reclaimed:
        """What only a lakeFS has: gates and their records."""
        if not store.lake.name.startswith("lakefs:"):
            return Reclaimed()
        from headgate.attempts.gates import reclaim_gates
        from headgate.lake.lakefs import LakeFSLake

        assert isinstance(store.lake, LakeFSLake)
        return reclaim_gates(
            store.lake,
            [store.repository],
            self.orchestrator,
            clock=self.clock,
            unknown_after=unknown_after,
            dry_run=dry_run,
        )


def current_machine() -> Machine:
    """The machine that is open in this process; what runs on it may use its parts, whatever settings it was given."""
    if not _entered:
        raise Unsupported(
            message="no machine is open in this process",
            hint="run the task with `headgate run` or `headgate worker`",
        )
    return _entered[-1]
