"""Killing graph writers after each of their durable writes, and recovery after each of its own.

An undisturbed run tells how many durable writes a job makes. Then one run each is killed after the first, the second, …
by SIGKILL, in a process of its own; the graph is opened again, which recovers it, and audited. Where the kill left a
sidecar, the recovery is run in a process of its own, too, and killed after each durable write it makes; what comes next
recovers again.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any
from uuid import uuid4

from headgate.graph.graph import Graph, init_graph, open_graph
from headgate.graph.manifest.publisher import RELOCATION
from headgate.graph.manifest.rows import Audit, HeadMark
from headgate.graph.recovery.heal import is_settled
from headgate.graph.schema.model import ID
from headgate.testing.children import fresh_processes
from headgate.testing.graph_jobs import GRAPH, JOBS, SCHEMA, GraphJob
from headgate.testing.store_faults import StoreFaults

Content = dict[str, dict[str, Counter[str]]]
"""Per branch and type how often each row is there, ids left out: they differ from run to run."""


Heads = dict[str, HeadMark]


class Harm(StrEnum):
    LOST = "lost"
    DUPLICATED = "duplicated"
    HALF_VISIBLE = "half_visible"
    AUDIT_MISSING = "audit_missing"
    AUDIT_DOUBLE = "audit_double"


@dataclass(frozen=True)
class Finding:
    harm: Harm
    what: str

    def __str__(self) -> str:
        return f"{self.harm}: {self.what}"


@dataclass(frozen=True)
class KillPoint:
    """The so-manieth durable write of a job, and of the recovery after it."""

    job: str
    write: int
    recovery: int = 0

    def __str__(self) -> str:
        then = f", its recovery after write {self.recovery}" if self.recovery else ""
        return f"{self.job} killed after write {self.write}{then}"


@dataclass
class CrashReport:
    points: list[KillPoint] = field(default_factory=list)
    runs: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: CrashReport) -> None:
        self.points += other.points
        self.runs += other.runs
        self.findings += other.findings

    def counted(self) -> dict[str, int]:
        found = Counter(finding.harm for finding in self.findings)
        return {str(harm): found[harm] for harm in Harm}


# -------- in a process of its own

_HANDED_DOWN = ("AWS_", "HEADGATE_")
"""Variables that a child is given: the process it is forked from may be older than they are."""


def work(place: str, job: GraphJob | None, kill_after: int, answer: str, remote: Mapping[str, str]) -> None:
    """Run a job, or if there is none a recovery, and die after a durable write; else say what was done."""
    os.environ.update(remote)
    faults = StoreFaults()
    graph = faults.open(place) if job else None
    start = len(faults.durable)
    if kill_after:
        faults.kill_after(kill_after)
    if job and graph:
        job.act(graph)
    else:
        faults.open(place)
    Path(answer).write_text(json.dumps([str(effect) for effect in faults.durable[start:]]))


@dataclass(frozen=True)
class Ended:
    killed: bool
    writes: tuple[str, ...] = ()
    """The durable writes of one that came to its end."""


class Workers:
    """Processes that are forked from one that has imported everything and used nothing: Lance survives no fork."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = fresh_processes()
        # A start asks all other processes for their end, which can be read once: never while another thread reads it.
        self._asking = threading.Lock()

    def started(self, pid: int) -> None:
        """For those who kill from outside."""

    def run(self, place: str, job: GraphJob | None, kill_after: int) -> Ended:
        """Run a job, or if there is none a recovery, and wait for its end."""
        answer = self._folder / f"{uuid4().hex}.json"
        remote = {key: value for key, value in os.environ.items() if key.startswith(_HANDED_DOWN)}
        process = self._context.Process(target=work, args=(place, job, kill_after, str(answer), remote))
        with self._asking:
            process.start()
        assert process.pid is not None
        self.started(process.pid)
        wait([process.sentinel])
        with self._asking:
            process.join()
        if process.exitcode == -signal.SIGKILL:
            return Ended(killed=True)
        if process.exitcode != 0:
            raise AssertionError(
                f"{job.name if job else 'recovery'} failed with {process.exitcode}; its output says why"
            )
        return Ended(killed=False, writes=tuple(json.loads(answer.read_text())))


# -------- the harness


@dataclass(frozen=True)
class Left:
    """What a killed writer left, as a reader sees it."""

    unsettled: tuple[str, ...]
    """Operations whose sidecar asks for a decision."""
    moved: bool
    """Whether the head moved: the publish was decided before the kill."""


class GraphCrash:
    """Kills one job at all its durable writes. `new_place` gives the address of a graph to be made."""

    def __init__(self, job: GraphJob, new_place: Callable[[], str], workers: Workers) -> None:
        self._job, self._new_place, self._workers = job, new_place, workers
        self._before: Content = {}
        self._after: Content = {}
        self._taken_back: Content = {}

    def run(self, *, recovery: bool = True, only: Callable[[int], bool] = lambda number: True) -> CrashReport:
        """Kill after each write that `only` picks, and with `recovery` its recovery after each of its own."""
        report = CrashReport()
        writes = self._undisturbed()
        for number in range(1, len(writes) + 1):
            if not only(number):
                continue
            report.add(self.kill(number))
            if recovery:
                report.add(self._kill_recoveries(number))
        return report

    def kill(self, number: int, *, recovery: int = 0) -> CrashReport:
        """One run that is killed after a write, and its recovery after one of its own; what was found."""
        here = KillPoint(self._job.name, number, recovery)
        place, heads = self._begin()
        ended = self._workers.run(place, self._job, number)
        if not ended.killed:
            raise AssertionError(f"{here}: it was not reached")
        left = _look(place, heads)
        if recovery and not self._workers.run(place, None, recovery).killed:
            raise AssertionError(f"{here}: it was not reached")
        with open_graph(place) as graph:
            found = [Finding(f.harm, f"{here}: {f.what}") for f in self._audit(graph, left)]
        return CrashReport([here], 1, found)

    def _kill_recoveries(self, number: int) -> CrashReport:
        place, _ = self._begin()
        self._workers.run(place, self._job, number)
        writes = self._workers.run(place, None, 0).writes
        report = CrashReport()
        for recovery in range(1, len(writes) + 1):
            report.add(self.kill(number, recovery=recovery))
        return report

    def _undisturbed(self) -> tuple[str, ...]:
        place, _ = self._begin()
        with open_graph(place, "ro") as graph:
            self._before = content(graph)
        writes = self._workers.run(place, self._job, 0).writes
        with open_graph(place, "ro") as graph:
            self._after = content(graph)
        if self._job.gives_up is not None:
            place, _ = self._begin()
            with open_graph(place) as graph:
                self._job.gives_up(graph)
                self._taken_back = content(graph)
        return writes

    def _begin(self) -> tuple[str, Heads]:
        place = self._new_place()
        with init_graph(place, SCHEMA) as graph:
            graph.mutate(GRAPH)
            self._job.before(graph)
            return place, _heads(graph)

    # -------- looking

    def _audit(self, graph: Graph, left: Left) -> Iterator[Finding]:
        shown = content(graph)
        yield from self._judge(shown, left)
        yield from audits(graph, left)
        for sidecar in graph.store.sidecars.find():
            yield Finding(Harm.LOST, f"the sidecar {sidecar.sidecar.name} is still there")
        graph.mutate('query next() { insert Person { name: "next" } }')
        if _without_next(content(graph)) != shown:
            yield Finding(Harm.LOST, "the next write changed more than its own row")

    def _judge(self, shown: Content, left: Left) -> Iterator[Finding]:
        twice = [row for types in shown.values() for rows in types.values() for row, count in rows.items() if count > 1]
        if twice:
            yield Finding(Harm.DUPLICATED, f"rows are there twice: {twice[:3]}")
        elif shown not in (self._before, self._after, self._taken_back):
            yield Finding(Harm.HALF_VISIBLE, f"neither what was there nor what was written: {shown}")
        elif left.moved and not left.unsettled and shown == self._before != self._after:
            yield Finding(Harm.LOST, "it was published before the kill, and is not there")
        elif left.unsettled and not self._job.rolls_forward and shown != self._before:
            yield Finding(Harm.HALF_VISIBLE, "a task attempt was rolled forward")


def _heads(graph: Graph) -> Heads:
    state = graph.store.manifest.state()
    return {branch: state.head(branch).mark for branch in state.branches}


def _look(place: str, heads: Heads) -> Left:
    with open_graph(place, "ro") as graph:
        store, state = graph.store, graph.store.manifest.state()
        unsettled = [
            found.sidecar.operation for found in store.sidecars.find() if not is_settled(store, state, found.sidecar)
        ]
        return Left(tuple(unsettled), _heads(graph) != heads)


def audits(graph: Graph, left: Left) -> Iterator[Finding]:
    """Every operation that asked for a decision got one, and no other was recovered."""
    manifest = graph.store.manifest
    rows = {row.object_id: row for row in [*manifest.history.rows("kind = 'audit'"), *manifest.state().rows.values()]}
    audits = [row for row in rows.values() if isinstance(row, Audit) and row.recovery_kind != RELOCATION]
    commits = [commit for branch in graph.branches() for commit in graph.log(branch) if commit.writer == "recovery"]
    for operation in left.unsettled:
        own = [row for row in audits if row.operation_id == operation]
        back = {commit.id for commit in commits if commit.message.endswith(operation)}
        forward = {row.graph_commit_id for row in own if row.recovery_kind == "roll_forward"}
        if not own:
            yield Finding(Harm.AUDIT_MISSING, f"operation {operation} has no audit row")
        if len(own) > 1 or len(back | forward) > 1:
            yield Finding(Harm.AUDIT_DOUBLE, f"operation {operation} was recovered by {sorted(back | forward)}")
        for row in own:
            if row.graph_commit_id not in {commit.id for branch in graph.branches() for commit in graph.log(branch)}:
                yield Finding(Harm.AUDIT_MISSING, f"the commit {row.graph_commit_id} of an audit row is not there")
    others = {row.operation_id for row in audits if row.recovery_kind != "given_up"} - set(left.unsettled)
    if others:
        yield Finding(Harm.AUDIT_DOUBLE, f"operations that were settled have been recovered: {sorted(others)}")


def content(graph: Graph) -> Content:
    """What every branch shows."""
    return {branch: _rows(graph, branch) for branch in graph.branches()}


def _rows(graph: Graph, branch: str) -> dict[str, Counter[str]]:
    base = graph.base(branch=branch)
    return {
        name: Counter(_told(row) for row in base.dataset(name).to_table().to_pylist()) for name in sorted(base.tables)
    }


def _told(row: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in row.items() if key != ID}, sort_keys=True, default=str)


def _without_next(shown: Content) -> Content:
    return {
        branch: {
            name: Counter({row: count for row, count in rows.items() if '"name": "next"' not in row})
            for name, rows in types.items()
        }
        for branch, types in shown.items()
    }


def crash_all(
    names: Iterable[str], new_place: Callable[[], str], workers: Workers, *, say: Callable[[str], None]
) -> CrashReport:
    """Kill every one of these jobs at every write of its own and of its recovery, two jobs at a time."""

    def crash(name: str) -> CrashReport:
        report = GraphCrash(JOBS[name], new_place, workers).run()
        say(f"{name}: {len(report.points)} kill points, {len(report.findings)} findings")
        for finding in report.findings:
            say(f"  {finding}")
        return report

    total = CrashReport()
    # A run is a process that is waited for, and a look at what it left: two of them fill the pauses of each other.
    with ThreadPoolExecutor(max_workers=2) as pool:
        for report in pool.map(crash, names):
            total.add(report)
    return total
