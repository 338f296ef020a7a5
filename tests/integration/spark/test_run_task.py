"""Authors test a Spark task as any other: `run_task` gives it a session."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.songs.tasks import features, features_on_spark, ingest

from headgate.failpoints import Failpoint
from headgate.tasks import task_of
from headgate.testing import TaskRunner
from headgate.testing.crash import CrashHarness, Job
from headgate.testing.place import Place


@pytest.mark.spark
@pytest.mark.slow
def test_a_spark_task_runs_in_a_test(run_task: TaskRunner) -> None:
    run_task(ingest)
    ran = run_task(features_on_spark)
    assert ran.ok, ran.reason
    assert ran.result == run_task(features).result
    assert any(path.startswith("features/part-") for path in ran.files)


@pytest.mark.spark
@pytest.mark.slow
def test_a_spark_task_is_killed_in_a_process_with_a_session_of_its_own(run_task: TaskRunner, tmp_path: Path) -> None:
    files = run_task(ingest).files
    harness = CrashHarness(Place(tmp_path / "killed"), Job(declaration=task_of(features_on_spark), files=files))
    report = harness.run(Failpoint.ATTEMPT_STAGED)
    assert report.runs == 1
    assert report.findings == []
