"""Killing attempts at every point they pass, and retrying them.

A point is a failpoint and which visit to it: the windows of the lifecycle, every transaction of a database, every
change of a disk. An undisturbed run tells which points there are; then one run each is killed there, in a process of
its own, by SIGKILL. Time passes, the lease runs out, the orchestrator hands the task out again, `gc` runs, and the
auditor looks. A point that is not reached fails the run.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from headgate import failpoints
from headgate.failpoints import Failpoint
from headgate.publication import Ref
from headgate.tasks import TaskDeclaration
from headgate.testing.addresses import TaskAddress, address_of
from headgate.testing.audit import Expected, Finding, Harm, audit, check_between, damage
from headgate.testing.children import Ended, kill_this_process, run_in_child, run_in_fresh_process
from headgate.testing.place import Files, Place, Target

WINDOWS = tuple(point for point in Failpoint if point.name.startswith(("ATTEMPT_", "WORKSPACE_")))
"""The points of an attempt's own lifecycle."""

WRITES = (Failpoint.DATABASE_COMMITTED, Failpoint.DISK_CHANGED)
"""The points after each single write to a store."""


def windows(job: Job) -> tuple[Failpoint, ...]:
    """The points of an attempt's own lifecycle, and those of the graph's write path where it publishes there."""
    graph = tuple(point for point in Failpoint if point.name.startswith("GRAPH_"))
    return WINDOWS + graph if job.store == "graph" else WINDOWS


@dataclass(frozen=True)
class KillPoint:
    """The so-manieth visit of an attempt to a failpoint."""

    point: Failpoint
    visit: int = 1

    def __str__(self) -> str:
        return f"{self.point} (visit {self.visit})"


class _Visits:
    """Counts visits, from any thread, and does something at one of them."""

    def __init__(self, act: Callable[[KillPoint], None]) -> None:
        self._act, self._seen, self._lock = act, Counter[Failpoint](), threading.Lock()

    def __call__(self, point: Failpoint) -> None:
        with self._lock:
            self._seen[point] += 1
            here = KillPoint(point, self._seen[point])
        self._act(here)


@contextmanager
def armed(act: Callable[[KillPoint], None]) -> Iterator[None]:
    """Call `act` at every point inside, and turn the points off after it."""
    failpoints.arm(_Visits(act))
    try:
        yield
    finally:
        failpoints.arm(None)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is run, killed and run again."""

    declaration: TaskDeclaration
    files: Files
    schema: str | None = None
    """Of the graph beside the files, for a task that needs one."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """What is loaded into the graph first."""
    params: BaseModel | Mapping[str, Any] | None = None
    abandoned_by: TaskDeclaration | None = None
    """Whose publication the attempt finds on the branch, never accepted. The same declaration: an earlier attempt of
    the same task, which has to publish. Another one: another workflow, with the same parameters."""

    @property
    def store(self) -> str:
        """Where the task publishes, or would."""
        return self.declaration.writes or ("workspace" if "workspace" in self.declaration.stores else "graph")


@dataclass
class CrashReport:
    """What was tried, and what went wrong."""

    points: list[KillPoint] = field(default_factory=list)
    runs: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: CrashReport) -> None:
        self.points += other.points
        self.runs += other.runs
        self.findings += other.findings


@dataclass(frozen=True)
class _Begun:
    """A job on a target of its own, about to be attempted."""

    target: Target
    workflow: str
    before: Ref


class CrashHarness:
    """Kills one job at its points. The place is its own: nothing else has it open."""

    def __init__(self, place: Place, job: Job, *, same_files: bool = True) -> None:
        """`same_files`: whether every run of the job is to leave the same files."""
        self._job, self._same_files = job, same_files
        # From one hour to the next every lease runs out.
        self._at_first, self._then = place, place.later(hours=1)

    def run(self, *kinds: Failpoint, kills: int = 1) -> CrashReport:
        """Kill the job at each point of these kinds, each time from the start; with more `kills`, its retries too."""
        passed, expected = self._undisturbed()
        report = CrashReport(points=[here for here in passed if here.point in kinds])
        for here in report.points:
            found = self.kill(here, expected, kills=kills)
            report.findings += [Finding(f.harm, f"killed at {here}: {f.what}") for f in found]
            report.runs += 1
        return report

    def kill(self, here: KillPoint, expected: Expected, *, kills: int = 1) -> list[Finding]:
        """One run that is killed at `here`, so many times if its retries get there, and retried; what was found."""
        begun = self._begin()
        found: list[Finding] = []
        for number in range(1, kills + 1):
            place = self._at_first.later(hours=number)
            ended = _run_and_kill(place, self._job.declaration, begun.workflow, here)
            if not ended.killed and number == 1:
                raise AssertionError(f"{here} was never reached: the attempt ended {ended.answer}")
            with place:
                found += check_between(place, begun.target, before=begun.before, store=self._job.store)
        with self._at_first.later(hours=kills + 1) as place:
            found += self._retried(place, begun)
            place.collect_garbage(begun.target)
        with self._at_first.later(days=2) as place:  # nothing half made is young enough to be waited for
            place.collect_garbage(begun.target)
            found += audit(place, begun.target, begun.workflow, expected, before=begun.before)
            found += damage(place)
            place.forget(begun.target)
        return found

    def _retried(self, place: Place, begun: _Begun) -> list[Finding]:
        attempt = place.poll(self._job.declaration, begun.workflow)
        if attempt is None:
            return []  # it was accepted before it was killed; the auditor checks that
        report = place.run(self._job.declaration, attempt)
        return [] if report.ok else [Finding(Harm.LOST, f"the retry ended {report.status}: {report.reason}")]

    def _undisturbed(self) -> tuple[list[KillPoint], Expected]:
        begun = self._begin()
        passed: list[KillPoint] = []
        with self._then as place:
            attempt = place.poll(self._job.declaration, begun.workflow)
            assert attempt is not None
            with armed(passed.append):
                report = place.run(self._job.declaration, attempt)
            if not report.ok:
                raise AssertionError(f"the task fails even undisturbed: {report.status}: {report.reason}")
            store = self._job.store
            expected = Expected(
                publishes=report.published not in (None, begun.target.start(store)),
                keeps_head=self._job.declaration.writes is None,
                files=place.shown(begun.target, store) if self._same_files else None,
                store=store,
            )
            place.forget(begun.target)
        return passed, expected

    def _begin(self) -> _Begun:
        """A fresh target with the job's workflow submitted, after the abandoned publication if there is to be one."""
        job = self._job
        with self._at_first as place:
            target = place.new_target(job.files)
            if job.schema is not None:
                target = place.with_rows(place.with_graph(target, job.schema), job.rows)
            workflow = place.submit(job.declaration, target, job.params)
        if job.abandoned_by is job.declaration:
            self._abandon(job.declaration, workflow)
        elif job.abandoned_by is not None:
            with self._at_first as place:
                other = place.submit(job.abandoned_by, target, job.params)
            self._abandon(job.abandoned_by, other)
            with self._at_first as place:
                place.orchestrator.cancel(other, reason="its worker is dead")
        with self._then as place:
            return _Begun(target, workflow, place.head(target, job.store))

    def _abandon(self, declaration: TaskDeclaration, workflow: str) -> None:
        ended = _run_and_kill(self._at_first, declaration, workflow, KillPoint(Failpoint.ATTEMPT_PUBLISHED))
        if not ended.killed:
            raise AssertionError(f"task {declaration.name} published nothing to be abandoned: it ended {ended.answer}")


def _run_and_kill(place: Place, declaration: TaskDeclaration, workflow: str, here: KillPoint) -> Ended:
    """Run the attempt that is due, if one is, in a child that is killed at `here`; how it ended."""
    if "graph" in declaration.stores:
        return run_in_fresh_process(_attempt, Place(place.folder, place.clock), address_of(declaration), workflow, here)
    return run_in_child(lambda: _attempt(place, declaration, workflow, here))


def _attempt(place: Place, task: TaskDeclaration | TaskAddress, workflow: str, here: KillPoint) -> str | None:
    declaration = task.find() if isinstance(task, TaskAddress) else task
    with place:
        attempt = place.poll(declaration, workflow)
        if attempt is None:
            return None
        with armed(lambda reached: kill_this_process() if reached == here else None):
            return str(place.run(declaration, attempt).status)
