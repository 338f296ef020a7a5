"""Spark workspaces at scale: the same bodies on a real lakeFS, read and written by Spark through `s3a://`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.lakefs.conftest import connect
from tests.integration.spark.cases import OVERWRITE, Params, Total, make_kit, overwrite
from tests.integration.spark.test_workspaces import *  # noqa: F403
from tests.integration.spark.test_workspaces import SELECTED
from tests.unit.attempts.kit import Kit, at, crash_at, declared
from tools.servers import Server

from headgate import SparkWorkspace, WorkspaceSpec, guardrails
from headgate.attempts import lake_store
from headgate.attempts.gc import reclaim_branches
from headgate.attempts.replay import replay
from headgate.clock import SYSTEM_CLOCK
from headgate.errors import InvalidInput, StaleAttemptError, Transient, Unsupported
from headgate.failpoints import Failpoint
from headgate.lake.interface import Changes
from headgate.lake.lakefs import LakeFSLake
from headgate.publication import Strength
from headgate.spark import SparkSessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.spark]


@pytest.fixture
def kit(tmp_path: Path, lakefs: Server, sparks: SparkSessions) -> Iterator[Kit]:
    kit = make_kit(tmp_path, connect(lakefs), sparks)
    yield kit
    kit.close()


def branches(kit: Kit) -> list[str]:
    return kit.staging_branches()


def test_nothing_is_downloaded_and_the_fence_is_hard(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: Any, **__: Any) -> None:
        raise AssertionError("an object was downloaded")

    monkeypatch.setattr(LakeFSLake, "fetch", fetch)
    report = kit.run(OVERWRITE)
    assert report.ok, report.reason
    assert report.strength is Strength.HARD


def test_invariant_2_a_stale_attempt_makes_no_staging_branch(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(LakeFSLake, "create_branch", lambda self, repository, branch, at: made.append(branch))
    attempt = kit.submit(OVERWRITE)
    with at(Failpoint.ATTEMPT_BEFORE_DOWNLOAD, lambda: kit.orchestrator.cancel(attempt.id.workflow, reason="over")):
        report = kit.run(OVERWRITE, attempt)
    assert isinstance(report.error, StaleAttemptError)
    assert made == []


def test_the_staging_branch_is_there_while_the_body_runs_and_gone_after_it(kit: Kit) -> None:
    seen: list[list[str]] = []
    with at(Failpoint.ATTEMPT_IN_BODY, lambda: seen.append(branches(kit))):
        report = kit.run(OVERWRITE)
    assert report.ok, report.reason
    assert [len(found) for found in seen] == [1]
    kit.assert_nothing_left()


def test_what_is_written_between_the_look_and_the_commit_is_not_published(kit: Kit) -> None:
    """A Spark task that was given up may write late; it must not reach the target unseen."""
    lake, commit_staged = kit.lake, LakeFSLake.commit_staged

    def late(self: LakeFSLake, repository: str, branch: str, **more: Any) -> Any:
        lake.api.put_object(repository, branch, "numbers/late.json", b"{}", size=2)  # type: ignore[attr-defined]
        return commit_staged(self, repository, branch, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LakeFSLake, "commit_staged", late)
        report = kit.run(OVERWRITE)
    assert isinstance(report.error, Transient)
    assert "numbers/late.json" in report.reason
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_a_read_that_would_take_in_what_the_task_leaves_out_is_refused(kit: Kit) -> None:
    def read_all(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
        return Total(total=spark.read.json(workspace.read_path("numbers/")).count())

    report = kit.run(declared(read_all, workspace=SELECTED))
    assert isinstance(report.error, InvalidInput)
    assert "numbers/about.txt" in report.reason
    assert kit.run(declared(read_all, workspace=WorkspaceSpec(prefix="numbers/"))).ok


def test_a_guardrail_that_opens_files_is_refused_before_the_body(kit: Kit) -> None:
    def opens(workspace: Path) -> None:
        (workspace / "numbers/one.json").read_text()

    report = kit.run(declared(overwrite, workspace=WorkspaceSpec(post=[opens])))
    assert isinstance(report.error, Unsupported)
    assert "opens files" in report.reason
    schema = WorkspaceSpec(post=[guardrails.require_parquet_schema("*.parquet", {"n": "int64"})])
    assert isinstance(kit.run(declared(overwrite, workspace=schema)).error, Unsupported)
    kit.assert_nothing_left()


def test_hooks_of_the_server_are_no_part_of_a_workspace(kit: Kit) -> None:
    def write_hook(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
        spark.range(1).coalesce(1).write.json(workspace.write_path("_lakefs_actions/mine"))
        return Total(total=1)

    report = kit.run(declared(write_hook))
    assert isinstance(report.error, InvalidInput)
    assert "_lakefs_actions/mine" in report.reason


def test_unfinished_work_of_spark_is_not_published(kit: Kit) -> None:
    def leave_behind(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
        branch = workspace.write_path("x").split("/")[3]
        for path in ("more/_temporary/0/part-0", "more/.spark-staging-1/part-0", "empty/"):
            kit.lake.api.put_object(kit.repository, branch, path, b"x", size=1)  # type: ignore[attr-defined]
        return Total(total=0)

    report = kit.run(declared(leave_behind))
    assert report.ok, report.reason
    assert report.published == kit.input_ref == kit.head()


def test_a_marker_that_was_there_stays(kit: Kit) -> None:
    kit.lake.api.put_object(kit.repository, "main", "numbers/", b"", size=0)  # type: ignore[attr-defined]
    kit.input_ref = kit.lake.commit(
        kit.repository, "main", Changes(puts={"numbers/three.json": b'{"n": 3}\n'}), message="with a marker"
    )
    report = kit.run(OVERWRITE)
    assert report.ok, report.reason
    assert "numbers/" in [found.path for found in kit.lake.objects(kit.repository, kit.head())]


def test_a_replay_runs_the_body_and_publishes_nothing(kit: Kit) -> None:
    with pytest.raises(Unsupported, match="a replay makes none"):
        replay(kit.runtime, OVERWRITE, {"workspace": kit.block(), "params": {}})
    kit.assert_nothing_left()


def test_secrets_are_in_no_log(kit: Kit, lakefs: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert kit.run(OVERWRITE).ok
    assert caplog.records
    assert lakefs.secret_key not in caplog.text


def test_invariant_6_what_a_killed_attempt_left_on_its_staging_branch_is_reclaimed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies after Spark has written, and cleans up nothing."""
    with monkeypatch.context() as dead:
        dead.setattr(lake_store, "delete_staging_branch", lambda lake, staged: None)
        with crash_at(Failpoint.ATTEMPT_AFTER_BODY):
            kit.run(OVERWRITE)
    [left] = kit.staging_branches()
    assert list(kit.lake.staged(kit.repository, left))  # type: ignore[attr-defined]
    [task] = kit.orchestrator.tasks()
    kit.orchestrator.cancel(task.workflow, reason="its worker is dead")
    report = kit.run(OVERWRITE, add=20)
    assert report.ok, report.reason
    assert kit.history() == [kit.input_ref, report.published]
    found = reclaim_branches(kit.lake, [kit.repository], kit.orchestrator, clock=SYSTEM_CLOCK)
    assert any(left in removed.name for removed in found.removed)
    kit.assert_nothing_left()
