"""Tasks on a graph: a transaction in, one commit out, with both fences; abandoned publications are replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import headgate.graph as hg
from headgate import failpoints
from headgate.attempts.graph_store import graph_opener
from headgate.attempts.kept import KeepFailed, KeepLimits
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.report import AttemptReport
from headgate.attempts.runtime import AttemptOptions, Runtime
from headgate.errors import OrchestratorStatus
from headgate.failpoints import Failpoint
from headgate.graph.manifest import Commit
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import Move
from headgate.tasks import GraphSpec, ReadOnly, TaskDeclaration, task, task_of
from headgate.tasks.protocols import GraphTransaction, PolledAttempt

SCHEMA = """
node Song { title: String @key  plays: I64 }
node Album { name: String @key }
edge On: Song -> Album { }
"""


class Params(BaseModel):
    title: str = "new"
    change: bool = True


class Result(BaseModel):
    songs: int


def add(graph: GraphTransaction, params: Params) -> Result:
    if params.change:
        graph.merge("Song", [{"title": params.title, "plays": 1}])
    return Result(songs=graph.read("Song").num_rows)


def declared(body: Callable[..., Any], name: str, graph: Any) -> TaskDeclaration:
    return task_of(task(name=name, graph=graph)(body))


ADD = declared(add, "add_song", GraphSpec(types=["Song"]))
LOOK = declared(add, "look_at_songs", ReadOnly(["Song"]))


class Kit:
    def __init__(self, folder: Path, branch: str = "main") -> None:
        self.branch = branch
        self.place = str(folder / "graph")
        self.graph = hg.init(self.place, SCHEMA)
        self.graph.load([{"type": "Song", "data": {"title": "old", "plays": 7}}])
        if branch != "main":
            self.graph.create_branch(branch)
        self.input_ref = self.head().id
        self.orchestrator = LocalOrchestrator(folder / "orchestrator.db")
        self.runtime = Runtime(
            orchestrator=self.orchestrator,
            stores={"graph": graph_opener(lambda block: hg.open(self.place))},
            options=AttemptOptions(workspace_root=folder / "work", keep=KeepLimits(mode=KeepFailed.NONE)),
            wait=lambda seconds: None,
        )

    def submit(self, declaration: TaskDeclaration, **params: Any) -> PolledAttempt:
        block = {"graph": "music", "branch": self.branch, "ref_type": "commit", "ref": self.input_ref}
        given = {"graph": block, "params": params}
        begun = self.orchestrator.submit(declaration.name, given, retry=TaskRule(delay_seconds=0))
        return self.poll(declaration, begun.workflow)

    def poll(self, declaration: TaskDeclaration, workflow: str) -> PolledAttempt:
        found = self.orchestrator.poll(declaration.name, workflow=workflow)
        assert found is not None
        return found

    def run(self, declaration: TaskDeclaration, attempt: PolledAttempt | None = None, **params: Any) -> AttemptReport:
        return run_attempt(self.runtime, declaration, attempt or self.submit(declaration, **params))

    def head(self) -> Commit:
        return self.graph.head(self.branch)

    def mutate(self, text: str) -> bool:
        return self.graph.mutate(text, branch=self.branch).changed

    def rows(self, type_name: str) -> int:
        return self.graph.base(branch=self.branch).rows[type_name]

    def songs(self) -> list[str]:
        return sorted(self.graph.base(branch=self.branch).dataset("Song").to_table()["title"].to_pylist())

    def log(self) -> list[str]:
        return [commit.id for commit in self.graph.log(self.branch)]


@pytest.fixture(params=["main", "side"])
def kit(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kit]:
    """The same on main and on a branch that has inherited all it shows."""
    made = Kit(tmp_path, request.param)
    yield made
    failpoints.arm(None)
    made.orchestrator.close()


def abandon(kit: Kit, *, change: bool = True, title: str = "abandoned") -> PolledAttempt:
    """An attempt that publishes and whose completion is never heard of; the retry that the orchestrator hands out."""
    attempt = kit.submit(ADD, title=title)

    def stop(point: Failpoint) -> None:
        if point is Failpoint.ATTEMPT_PUBLISHED:
            raise RuntimeError("the worker is gone")

    failpoints.arm(stop)
    report = kit.run(ADD, attempt)
    failpoints.arm(None)
    assert report.status != OrchestratorStatus.COMPLETED
    return kit.poll(ADD, attempt.id.workflow)


def test_a_task_publishes_one_commit_on_its_input_ref(kit: Kit) -> None:
    """Invariants 1 and 3: nothing before the publish, then input ref -> published."""
    report = kit.run(ADD)
    assert report.status == OrchestratorStatus.COMPLETED, report
    assert kit.songs() == ["new", "old"]
    assert kit.log()[:2] == [str(report.published), kit.input_ref]
    commit = kit.head()
    assert commit.metadata["headgate.task_name"] == "add_song"
    assert commit.publish_id == commit.metadata["headgate.publish_id"]


def test_a_task_that_changes_nothing_completes_with_its_input_ref(kit: Kit) -> None:
    report = kit.run(ADD, change=False)
    assert (report.status, str(report.published)) == (OrchestratorStatus.COMPLETED, kit.input_ref)
    assert kit.head().id == kit.input_ref


def test_a_read_only_graph_refuses_changes(kit: Kit) -> None:
    assert kit.run(LOOK, change=False).status == OrchestratorStatus.COMPLETED
    assert kit.run(LOOK, change=True).status != OrchestratorStatus.COMPLETED
    assert kit.songs() == ["old"]


def test_a_head_that_moved_in_other_tables_does_not_fence(kit: Kit) -> None:
    kit.mutate('query a() { insert Album { name: "elsewhere" } }')
    kit.graph.ensure_indices(branch=kit.branch)
    report = kit.run(ADD)
    assert report.status == OrchestratorStatus.COMPLETED, report
    assert kit.songs() == ["new", "old"]
    assert kit.rows("Album") == 1


def test_an_exact_task_is_fenced_by_any_change(kit: Kit) -> None:
    kit.mutate('query a() { insert Album { name: "elsewhere" } }')
    exact = declared(add, "add_exactly", GraphSpec(types=["Song"], exact=True))
    assert kit.run(exact).status != OrchestratorStatus.COMPLETED
    assert kit.songs() == ["old"]


def test_a_head_that_moved_in_a_table_of_the_task_fences(kit: Kit) -> None:
    """Invariant 2: a publish happens only if both fences hold."""
    kit.mutate('query s() { insert Song { title: "first", plays: 1 } }')
    report = kit.run(ADD)
    assert report.status != OrchestratorStatus.COMPLETED
    assert kit.songs() == ["first", "old"]


def test_a_writer_between_the_fence_and_the_publish_wins(kit: Kit) -> None:
    def meanwhile(point: Failpoint) -> None:
        if point is Failpoint.ATTEMPT_AFTER_SECOND_FENCE:
            failpoints.arm(None)
            kit.mutate('query s() { insert Song { title: "first", plays: 1 } }')

    failpoints.arm(meanwhile)
    report = kit.run(ADD)
    assert report.status != OrchestratorStatus.COMPLETED
    assert kit.songs() == ["first", "old"]


def test_an_abandoned_publication_is_replaced(kit: Kit) -> None:
    """Invariant 3: an abandoned commit is never the parent of a new one."""
    retry = abandon(kit, title="abandoned")
    abandoned = kit.head().id
    assert kit.songs() == ["abandoned", "old"]
    before = kit.log()
    report = kit.run(ADD, retry)
    assert report.status == OrchestratorStatus.COMPLETED, report
    assert kit.log() == [str(report.published), *before[1:]]
    assert kit.graph.commit(abandoned).superseded_by == str(report.published)
    assert kit.head().parent == kit.input_ref
    assert kit.songs() == ["abandoned", "old"]
    assert kit.rows("Song") == 2
    with hg.open(kit.place) as reopened:
        assert reopened.mutate('query s() { insert Song { title: "next", plays: 1 } }', branch=kit.branch).changed


def test_replacing_takes_back_everything_the_abandoned_one_wrote(kit: Kit) -> None:
    once = {"done": False}

    def first_wide_then_narrow(graph: GraphTransaction, params: Params) -> Result:
        if not once["done"]:
            once["done"] = True
            graph.merge("Album", [{"name": "gone"}])
            graph.merge("Song", [{"title": "gone", "plays": 1}])
        else:
            graph.merge("Song", [{"title": "kept", "plays": 1}])
        return Result(songs=0)

    wide = declared(first_wide_then_narrow, "wide", GraphSpec())
    attempt = kit.submit(wide)
    failpoints.arm(_lose_the_completion)
    kit.run(wide, attempt)
    failpoints.arm(None)
    assert kit.rows("Album") == 1
    report = kit.run(wide, kit.poll(wide, attempt.id.workflow))
    assert report.status == OrchestratorStatus.COMPLETED, report
    assert kit.songs() == ["kept", "old"]
    assert kit.rows("Album") == 0


def test_an_abandoned_publication_is_moved_back_by_a_retry_without_changes(kit: Kit) -> None:
    tries = {"count": 0}

    def changes_once(graph: GraphTransaction, params: Params) -> Result:
        tries["count"] += 1
        if tries["count"] == 1:
            graph.merge("Song", [{"title": "gone", "plays": 1}])
        return Result(songs=0)

    once = declared(changes_once, "once", GraphSpec(types=["Song"]))
    attempt = kit.submit(once)
    failpoints.arm(_lose_the_completion)
    kit.run(once, attempt)
    failpoints.arm(None)
    order = kit.graph._store.manifest.state().head(kit.branch).order
    report = kit.run(once, kit.poll(once, attempt.id.workflow))
    assert report.status == OrchestratorStatus.COMPLETED, report
    assert report.decision is not None
    assert report.decision.move is Move.RELOCATE
    assert str(report.published) == kit.input_ref == kit.head().id
    assert kit.songs() == ["old"]
    assert kit.graph._store.manifest.state().head(kit.branch).order == order + 1
    assert kit.mutate('query s() { insert Song { title: "next", plays: 1 } }')
    assert kit.head().parent == kit.input_ref


def _lose_the_completion(point: Failpoint) -> None:
    if point is Failpoint.ATTEMPT_PUBLISHED:
        raise RuntimeError("the worker is gone")


def test_types_that_were_not_declared_are_out_of_reach(kit: Kit) -> None:
    def reaches(graph: GraphTransaction, params: Params) -> Result:
        graph.read("Album")
        return Result(songs=0)

    report = kit.run(declared(reaches, "reaches", GraphSpec(types=["Song"])))
    assert report.status != OrchestratorStatus.COMPLETED
