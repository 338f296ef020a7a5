"""The pipeline on a real standalone cluster, with the graph on a real S3: its workers and executors are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tools.servers.running import Server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.real]

ROWS = 60_000


@pytest.mark.timeout(600)
def test_invariant_5_killed_workers_and_executors_lose_and_double_nothing(
    spark_master: Server, s3: Server, tmp_path: Path
) -> None:
    """A driver of its own, since a process has one SparkContext: it loads while its executors are killed."""
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_ENDPOINT_URL": s3.url,
        "AWS_REGION": s3.facts["region"],
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    (s3.data / "objects" / "graphs").mkdir(exist_ok=True)
    root = Path(__file__).parents[3]
    driver = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.integration.spark.test_cluster", spark_master.url, str(tmp_path)],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed: list[str] = []
    stop = threading.Event()
    killer = threading.Thread(target=_kill, args=(spark_master, tmp_path / "staging", stop, killed))
    killer.start()
    try:
        out, err = driver.communicate(timeout=500)
    finally:
        stop.set()
        killer.join()
        driver.kill()
    assert driver.returncode == 0, err[-4000:]
    told = json.loads(out.strip().splitlines()[-1])
    assert told == {"people": ROWS, "distinct": ROWS, "edges": ROWS, "read": ROWS}
    assert {"worker", "executor"} <= set(killed), killed


def _kill(master: Server, begun: Path, stop: threading.Event, killed: list[str]) -> None:
    """Kill one Python worker and one executor once rows are being staged."""
    wanted = [("worker", "pyspark.daemon"), ("executor", "CoarseGrainedExecutorBackend")]
    while wanted and not stop.wait(0.1):
        if not begun.exists():
            continue
        kind, named = wanted[0]
        for process in _processes(master):
            if named in process[1]:
                psutil.Process(process[0]).kill()
                killed.append(kind)
                wanted.pop(0)
                stop.wait(2)
                break


def _processes(master: Server) -> list[tuple[int, str]]:
    found = []
    for pid in master.pids:
        running = pid.process()
        for child in running.children(recursive=True) if running else []:
            try:
                found.append((child.pid, " ".join(child.cmdline())))
            except psutil.Error:
                continue
    # The deepest first: a worker of Python is a child of its daemon.
    return list(reversed(found))


def slowly(marks: str) -> Any:
    """A function of rows that takes its time, so that there is one to be killed in."""

    def body(batches: Any) -> Any:
        Path(marks).touch()
        for batch in batches:
            time.sleep(0.15)
            yield batch

    return body


def main(master: str, folder: str) -> None:
    """The driver: load nodes and edges, then tell what is there."""
    import headgate.graph as hg
    from headgate.graph.recovery.writers import Writer
    from headgate.graph.write.prepared import WriteRequest
    from headgate.ids import ULIDS
    from headgate.settings import SparkSettings
    from headgate.spark import SparkSessions
    from headgate.spark.transaction import SparkTransaction

    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.task.maxFailures": "8",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }
    sessions = SparkSessions(SparkSettings(master=master, conf=dict(conf)))
    spark = sessions.session(jobs="cluster")
    schema = "node Person { key: String @key }\nedge Knows: Person -> Person"
    with hg.init(f"s3://graphs/{ULIDS.new().lower()}", schema) as graph:
        request = WriteRequest(writer=Writer.TRANSACTION)
        with SparkTransaction(spark, graph.store, graph.base(), request, in_process_rows=0) as tx:
            people = spark.range(0, ROWS, 1, 4).selectExpr("concat('p', id) AS key")
            tx.append("Person", people.mapInArrow(slowly(f"{folder}/staging"), "key string"))
            edges = spark.range(0, ROWS, 1, 4).selectExpr("concat('p', id) AS src", "'p0' AS dst")
            tx.append("Knows", edges.mapInArrow(slowly(f"{folder}/staging"), "src string, dst string"))
        told = graph.sql("SELECT count(*) AS people, count(DISTINCT key) AS distinct FROM Person").to_dicts()[0]
        told["edges"] = graph.base().rows["Knows"]
        told["read"] = graph.snapshot().frame(spark, "Knows", columns=["src"]).count()
    sessions.close()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
