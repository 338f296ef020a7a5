"""Spark workspaces on the embedded lake; `tests/integration/lakefs` runs the same tests on a real lakeFS."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from examples.songs import tasks as songs
from tests.integration.spark.cases import (
    APPEND,
    LOOK,
    OVERWRITE,
    PUTS,
    READ,
    SELECTED,
    Params,
    Total,
    make_kit,
)
from tests.unit.attempts.kit import Kit, crash_at, declared

from headgate import PublishBudget, SparkWorkspace, TaskControls, WorkspaceSpec, guardrails
from headgate.attempts.replay import replay
from headgate.errors import GuardrailFailed, InvalidInput, Unsupported
from headgate.failpoints import Failpoint
from headgate.lake import EmbeddedLake
from headgate.publication import Move
from headgate.spark import SparkSessions
from headgate.tasks import task_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def kit(tmp_path: Path, sparks: SparkSessions) -> Iterator[Kit]:
    with EmbeddedLake(tmp_path / "lake", create=True) as lake:
        kit = make_kit(tmp_path, lake, sparks)
        yield kit
        kit.close()


def numbers(kit: Kit) -> list[int]:
    rows = [data for path, data in kit.files().items() if path.startswith("numbers/") and path.endswith(".json")]
    return sorted(json.loads(line)["n"] for data in rows for line in data.decode().splitlines())


def test_invariant_1_a_folder_is_overwritten_by_a_body_that_reads_it(kit: Kit) -> None:
    report = kit.run(OVERWRITE)
    assert report.ok, report.reason
    assert report.result == {"total": 23}
    assert numbers(kit) == [11, 12]
    assert kit.history() == [kit.input_ref, report.published]
    assert [line for line in report.changes if line.startswith("removed")] == [
        "removed numbers/one.json",
        "removed numbers/two.json",
    ]
    kit.assert_nothing_left()


def test_what_the_task_leaves_out_stays_and_notes_of_spark_are_not_published(kit: Kit) -> None:
    assert kit.run(OVERWRITE).ok
    files = kit.files()
    assert files["numbers/about.txt"] == PUTS["numbers/about.txt"]
    assert files["other/kept.txt"] == PUTS["other/kept.txt"]
    [part] = [path for path in files if path.startswith("numbers/part-")]
    assert set(files) == {"numbers/about.txt", "other/kept.txt", "numbers/_SUCCESS", part}


def test_a_note_that_the_task_does_not_select_is_dropped(kit: Kit) -> None:
    report = kit.run(APPEND, to="more/", add=3)
    assert report.ok, report.reason
    [change] = report.changes
    assert change.startswith("added more/part-")
    assert set(PUTS) < set(kit.files())


def test_files_outside_the_selection_are_refused_by_name(kit: Kit) -> None:
    """Invariant 9."""
    report = kit.run(APPEND, to="elsewhere/", add=3)
    assert isinstance(report.error, InvalidInput)
    assert "elsewhere/part-" in report.reason
    assert "outside what the task's include and exclude select" in report.reason
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_a_body_that_writes_nothing_makes_no_commit(kit: Kit) -> None:
    report = kit.run(LOOK)
    assert report.ok, report.reason
    assert report.result == {"total": 2}
    assert report.decision is not None
    assert report.decision.move is Move.COMPLETE
    assert (report.published, kit.head()) == (kit.input_ref, kit.input_ref)
    kit.assert_nothing_left()


def test_a_workspace_that_is_only_read(kit: Kit) -> None:
    report = kit.run(READ)
    assert report.ok, report.reason
    assert kit.head() == kit.input_ref

    def write(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
        workspace.write_path("numbers/")
        return Total(total=0)

    refused = kit.run(declared(write, workspace=WorkspaceSpec(read_only=True)))
    assert isinstance(refused.error, Unsupported)
    kit.assert_nothing_left()


def test_invariant_3_a_retry_replaces_what_a_dead_attempt_published(kit: Kit) -> None:
    with crash_at(Failpoint.ATTEMPT_PUBLISHED):
        kit.run(OVERWRITE, add=10)
    abandoned = kit.head()
    assert abandoned != kit.input_ref
    [task] = kit.orchestrator.tasks()
    kit.orchestrator.cancel(task.workflow, reason="its worker is dead")
    report = kit.run(OVERWRITE, add=20)
    assert report.ok, report.reason
    assert report.decision is not None
    assert report.decision.move is Move.REPLACE
    assert kit.history() == [kit.input_ref, report.published]
    assert abandoned not in kit.history()
    assert numbers(kit) == [21, 22]
    kit.assert_nothing_left()


def test_an_unchanged_body_moves_the_branch_back_from_an_abandoned_publication(kit: Kit) -> None:
    with crash_at(Failpoint.ATTEMPT_PUBLISHED):
        kit.run(OVERWRITE)
    [task] = kit.orchestrator.tasks()
    kit.orchestrator.cancel(task.workflow, reason="its worker is dead")
    report = kit.run(LOOK)
    assert report.ok, report.reason
    assert report.decision is not None
    assert report.decision.move is Move.RELOCATE
    assert kit.head() == kit.input_ref
    assert numbers(kit) == [1, 2]


@pytest.mark.parametrize("point", [Failpoint.ATTEMPT_IN_BODY, Failpoint.ATTEMPT_AFTER_BODY, Failpoint.ATTEMPT_STAGED])
def test_invariant_1_nothing_is_seen_of_an_attempt_that_dies_before_its_publish(kit: Kit, point: Failpoint) -> None:
    with crash_at(point):
        kit.run(OVERWRITE)
    assert kit.head() == kit.input_ref


def test_the_same_numbers_as_the_plain_task(kit: Kit) -> None:
    ingested = kit.run(task_of(songs.ingest))
    assert ingested.published is not None
    results = {}
    for body in (songs.features, songs.features_on_spark):
        report = kit.run(task_of(body), kit.submit(task_of(body), ingested.published))
        assert report.ok, report.reason
        results[body.__name__] = report.result, features_at(kit)
        back(kit, report.published, ingested.published)
    assert results["features"] == results["features_on_spark"]
    assert results["features"][0]["songs"] == len(results["features"][1])


def features_at(kit: Kit) -> list[songs.Features]:
    files = {path: data for path, data in kit.files().items() if path.startswith("features/") and ".json" in path}
    rows = [line for path in sorted(files) for line in files[path].decode().splitlines()]
    return sorted((songs.Features.model_validate_json(row) for row in rows), key=lambda row: row.id)


def back(kit: Kit, published: object, to: object) -> None:
    kit.lake.create_branch(kit.repository, f"back-{str(published)[:8]}", at=to)  # type: ignore[arg-type]
    kit.lake.move_head(kit.repository, "main", to_branch=f"back-{str(published)[:8]}", expected_head=published)  # type: ignore[arg-type]


def test_guardrails_see_what_is_to_be_published(kit: Kit) -> None:
    from tests.integration.spark.cases import overwrite

    holds = WorkspaceSpec(
        include=SELECTED.include,
        pre=[guardrails.require_file("numbers/one.json")],
        post=[guardrails.require_glob("numbers/part-*.json", max_count=1), guardrails.forbid_glob("**/*.crc")],
    )
    report = kit.run(declared(overwrite, workspace=holds))
    assert report.ok, report.reason
    gone = WorkspaceSpec(include=SELECTED.include, post=[guardrails.require_file("numbers/one.json")])
    kit.input_ref = kit.head()
    failed = kit.run(declared(overwrite, workspace=gone))
    assert isinstance(failed.error, GuardrailFailed)
    assert kit.head() == kit.input_ref


def test_jobs_stop_when_the_attempt_is_no_longer_wanted(kit: Kit, sparks: SparkSessions) -> None:
    running = threading.Event()

    def endless(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
        from pyspark.sql import functions as f

        running.set()
        # Sixty tasks of a minute each: the test ends within its time only if they are stopped.
        slow = spark.range(0, 60, 1, 60).select(f.expr("java_method('java.lang.Thread', 'sleep', 60000L)"))
        slow.write.mode("append").json(workspace.write_path("more/"))
        return Total(total=0)

    budget = PublishBudget(heartbeat_interval_seconds=0.05)
    task = declared(endless, workspace=SELECTED, controls=TaskControls(publish=budget))
    attempt = kit.submit(task)
    cancelling = threading.Thread(
        target=lambda: running.wait() and kit.orchestrator.cancel(attempt.id.workflow, reason="enough")
    )
    cancelling.start()
    report = kit.run(task, attempt)
    cancelling.join()
    assert not report.ok
    assert report.status is None
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()
    tracker = sparks.session(jobs="looking").sparkContext.statusTracker()
    assert tracker.getActiveJobsIds() == []


@pytest.mark.parametrize("path", ["", "/numbers", "../numbers", "a//b", "numbers\\x"])
def test_paths_that_are_none(kit: Kit, path: str) -> None:
    def ask(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
        workspace.read_path(params.to)
        return Total(total=0)

    report = kit.run(declared(ask, workspace=SELECTED), to=path)
    assert isinstance(report.error, InvalidInput)
    assert "a path of the workspace is wrong" in report.reason


def test_a_replay_runs_the_body_and_publishes_nothing(kit: Kit) -> None:
    replayed = replay(kit.runtime, OVERWRITE, {"workspace": kit.block(), "params": {}})
    assert replayed.error is None
    assert replayed.result == {"total": 23}
    assert "removed numbers/one.json" in replayed.changes
    assert kit.head() == kit.input_ref
