"""Tasks on a graph with Spark: DataFrames in the transaction, one commit out; what fails leaves nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.attempts.test_graph_tasks import Kit, Params, Result, declared

from headgate import failpoints
from headgate.errors import OrchestratorStatus
from headgate.failpoints import Failpoint
from headgate.spark import SparkSessions
from headgate.tasks import GraphSpec
from headgate.tasks.protocols import GraphTransaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def double(graph: GraphTransaction, params: Params, spark: SparkSession) -> Result:
    songs = graph.frame(spark, "Song", columns=["title", "plays"])
    graph.merge("Song", songs.selectExpr("title", "plays * 2 AS plays"))
    graph.append("Album", spark.createDataFrame([(params.title,)], "name string"))
    return Result(songs=songs.count())


def break_rules(graph: GraphTransaction, params: Params, spark: SparkSession) -> Result:
    graph.append("On", spark.createDataFrame([("old", "nowhere")], "src string, dst string"))
    return Result(songs=0)


IN_JOB = threading.Event()


def wait_for_ever(graph: GraphTransaction, params: Params, spark: SparkSession) -> Result:
    from pyspark.sql import functions as f

    IN_JOB.set()
    pause = f.udf(lambda number: __import__("time").sleep(600) or number, "bigint")
    return Result(songs=len(spark.range(1).select(pause("id")).collect()))


DOUBLE = declared(double, "double_plays", GraphSpec(types=["Song", "Album"]))
BREAK = declared(break_rules, "break_rules", GraphSpec(types=["Song", "Album", "On"]))
WAIT = declared(wait_for_ever, "wait_for_ever", GraphSpec(types=["Song"]))


@pytest.fixture
def kit(tmp_path: Path, sparks: SparkSessions) -> Iterator[Kit]:
    made = Kit(tmp_path)
    made.runtime = replace(made.runtime, spark=sparks)
    yield made
    failpoints.arm(None)
    made.orchestrator.close()


def plays(kit: Kit) -> dict[str, int]:
    found = kit.graph.snapshot().table("Song").to_table(columns=["title", "plays"]).to_pylist()
    return {row["title"]: row["plays"] for row in found}


def files(kit: Kit) -> set[Path]:
    return {path for path in (Path(kit.place) / "tables").rglob("*.lance") if path.is_file()}


def test_invariant_1_frames_of_a_task_are_one_commit(kit: Kit) -> None:
    report = kit.run(DOUBLE)
    assert report.status == OrchestratorStatus.COMPLETED, report
    assert plays(kit) == {"old": 14}
    assert kit.rows("Album") == 1
    assert kit.log()[:2] == [str(report.published), kit.input_ref]
    assert kit.head().actor == "task:double_plays"


def test_an_abandoned_publication_of_frames_is_replaced(kit: Kit) -> None:
    """Invariant 3: the retry's commit stands on the input ref, not on the abandoned one."""
    attempt = kit.submit(DOUBLE)

    def stop(point: Failpoint) -> None:
        if point is Failpoint.ATTEMPT_PUBLISHED:
            raise RuntimeError("the worker is gone")

    failpoints.arm(stop)
    assert kit.run(DOUBLE, attempt).status != OrchestratorStatus.COMPLETED
    failpoints.arm(None)
    assert plays(kit) == {"old": 14}
    report = kit.run(DOUBLE, kit.poll(DOUBLE, attempt.id.workflow))
    assert report.status == OrchestratorStatus.COMPLETED, report
    assert plays(kit) == {"old": 14}
    assert kit.rows("Album") == 1
    assert kit.head().parent == kit.input_ref


def test_rows_that_break_rules_fail_the_attempt_and_leave_nothing(kit: Kit) -> None:
    there = files(kit)
    report = kit.run(BREAK)
    assert report.status != OrchestratorStatus.COMPLETED
    assert "1 rows break the schema's rules" in str(report)
    assert kit.head().id == kit.input_ref
    assert files(kit) == there


def test_a_cancelled_attempt_stops_its_jobs(kit: Kit, sparks: SparkSessions) -> None:
    attempt = kit.submit(WAIT)
    IN_JOB.clear()
    running = threading.Thread(target=kit.run, args=(WAIT, attempt))
    running.start()
    assert IN_JOB.wait(120)
    tracker = sparks.session(jobs="watching").sparkContext.statusTracker()
    while not tracker.getActiveStageIds():
        running.join(0.05)
    kit.orchestrator.cancel(attempt.id.workflow, reason="not wanted")
    running.join(120)
    assert not running.is_alive()
    assert kit.head().id == kit.input_ref
