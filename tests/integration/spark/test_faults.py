"""Python workers that are killed while they stage: tasks run again, and no row is lost or there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.spark.graphs import make_graph, rows

from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.settings import SparkSettings
from headgate.spark.transaction import SparkTransaction

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 4000


def die_once(marks: str) -> Any:
    """A function of rows that kills its own worker in the middle of each partition, the first time it runs."""

    def body(batches: Any) -> Any:
        from pyspark import TaskContext

        partition = TaskContext.get().partitionId()
        for number, batch in enumerate(batches):
            yield batch
            mark = Path(marks) / f"died-{partition}"
            if number >= 1 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return body


@pytest.mark.parametrize("in_process_rows", [0, 1 << 40], ids=["by Spark", "in process"])
def test_invariant_5_killed_workers_lose_and_double_nothing(tmp_path: Path, in_process_rows: int) -> None:
    """Tasks of local mode are not repeated unless it is asked for, so this session is one of its own."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.integration.spark.test_faults import in_a_session
in_a_session({str(tmp_path)!r}, {in_process_rows})
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(tmp_path.glob("died-*"))) == 4


def in_a_session(folder: str, in_process_rows: int) -> None:
    """Stage nodes and edges through workers that die, and compare what is published with what was given."""
    from headgate.spark import SparkSessions

    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    conf |= {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"}
    sessions = SparkSessions(SparkSettings(master="local[2,4]", conf=dict(conf)))
    spark = sessions.session(jobs="faults")
    with make_graph(Path(folder)) as graph:
        request = WriteRequest(writer=Writer.TRANSACTION)
        with SparkTransaction(spark, graph.store, graph.base(), request, in_process_rows=in_process_rows) as tx:
            people = spark.range(0, ROWS, 1, 2).selectExpr("concat('p', id) AS key")
            tx.append("Person", people.mapInArrow(die_once(folder), "key string"))
            for mark in Path(folder).glob("died-*"):
                mark.rename(mark.with_name(f"{mark.name}-person"))
            edges = spark.range(0, ROWS, 1, 2).selectExpr("concat('p', id) AS src", "'p0' AS dst")
            tx.append("Knows", edges.mapInArrow(die_once(folder), "src string, dst string"))
        assert rows(graph, "Person", "key") == sorted((f"p{n}",) for n in range(ROWS))
        assert rows(graph, "Knows", "src") == sorted((f"p{n}",) for n in range(ROWS))
    sessions.close()
