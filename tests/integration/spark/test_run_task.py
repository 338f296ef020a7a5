"""Authors test a Spark task as any other: `run_task` gives it a session."""

from __future__ import annotations

import pytest
from examples.songs.tasks import features, features_on_spark, ingest

from headgate.errors import Unsupported
from headgate.testing import TaskRunner, assert_retry_safe


@pytest.mark.spark
@pytest.mark.slow
def test_a_spark_task_runs_in_a_test(run_task: TaskRunner) -> None:
    run_task(ingest)
    ran = run_task(features_on_spark)
    assert ran.ok, ran.reason
    assert ran.result == run_task(features).result
    assert any(path.startswith("features/part-") for path in ran.files)


def test_a_spark_task_is_not_killed() -> None:
    with pytest.raises(Unsupported, match="takes Spark"):
        assert_retry_safe(features_on_spark, files={"songs/a.json": "{}"})
