"""People and whom they know, as Parquet files, and a session: what the Spark benchmarks share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person { key: String @key
  name: String
  age: I32 @range(age, 0..150)
  score: F64 }
edge Knows: Person -> Person { since: I32 }
"""
_STEP = 1_000_000


def write_people(path: Path, count: int) -> None:
    schema = pa.schema([("key", pa.string()), ("name", pa.string()), ("age", pa.int32()), ("score", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, count, _STEP):
            numbers = np.arange(start, min(start + _STEP, count))
            columns = [
                pa.array(np.char.mod("person-%09d", numbers).tolist(), pa.string()),
                pa.array(np.char.mod("name %d", numbers % 5000).tolist(), pa.string()),
                pa.array((numbers % 100).astype("int32")),
                pa.array(numbers / 7),
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=_STEP // 4)


def write_edges(path: Path, count: int, people: int) -> None:
    """Ends are drawn at random, some people far more often than others."""
    schema = pa.schema([("src", pa.string()), ("dst", pa.string()), ("since", pa.int32())])
    random = np.random.default_rng(7)
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, count, _STEP):
            rows = min(_STEP, count - start)
            src = random.integers(0, people, rows)
            dst = (random.random(rows) ** 2 * people).astype("int64")
            columns = [
                pa.array(np.char.mod("person-%09d", src).tolist(), pa.string()),
                pa.array(np.char.mod("person-%09d", dst).tolist(), pa.string()),
                pa.array((src % 30 + 1990).astype("int32")),
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=_STEP // 4)


def sessions() -> Any:
    from headgate.settings import SparkSettings
    from headgate.spark import SparkSessions

    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8", "spark.driver.memory": "2g"}
    return SparkSessions(SparkSettings(master="local[*]", conf=dict(conf)))


def jvm_peak_mb() -> float:
    """The most memory that the JVM of this driver has held."""
    for child in psutil.Process().children(recursive=True):
        if child.name().startswith("java"):
            status = Path(f"/proc/{child.pid}/status").read_text()
            [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
            return round(int(peak) / 1024, 1)
    return 0.0


def shuffle_bytes(spark: Any) -> int:
    """Bytes that all stages so far have written for others to read."""
    context = spark.sparkContext
    gateway = context._gateway  # noqa: SLF001 - Spark tells its metrics in the JVM alone
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    store = context._jsc.sc().statusStore()  # noqa: SLF001
    stages = store.stageList(None, False, False, no_quantiles, None)
    return sum(int(stages.apply(number).shuffleWriteBytes()) for number in range(stages.size()))
