"""Load rows into a graph with all checks, against a bare Lance write of the same rows."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq

import headgate.graph as hg
from bench import harness

SCHEMA = """
node Person { key: String @key
  name: String
  age: I32 @range(age, 0..150)
  score: F64
  city: enum(Lyon, Oslo, Quito) }
"""


def people(rows: int) -> pa.Table:
    cities = ["Lyon", "Oslo", "Quito"]
    return pa.table(
        {
            "key": [f"person-{number:09d}" for number in range(rows)],
            "name": [f"name {number % 5000}" for number in range(rows)],
            "age": pa.array([number % 100 for number in range(rows)], pa.int32()),
            "score": [number / 7 for number in range(rows)],
            "city": [cities[number % 3] for number in range(rows)],
        }
    )


def measure(args: argparse.Namespace) -> harness.Result:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        root = Path(folder)
        source = root / "person.parquet"
        pq.write_table(people(args.rows), source)
        counted = iter(range(1_000_000))

        def bare() -> None:
            with pq.ParquetFile(source) as parquet:
                reader = pa.RecordBatchReader.from_batches(
                    parquet.schema_arrow, parquet.iter_batches(batch_size=1 << 17)
                )
                lance.write_dataset(reader, root / f"bare{next(counted)}")

        def ours() -> None:
            place = root / f"graph{next(counted)}"
            hg.init(place, SCHEMA).load(source, type_name="Person")
            shutil.rmtree(place)

        times = harness.interleaved({"bare": bare, "ours": ours}, rounds=args.rounds)
        return {
            "ratio": harness.ratio(times, "ours", "bare"),
            "rows_per_s": round(args.rows / harness.medians(times)["ours"]),
            "bare_s": round(harness.medians(times)["bare"], 3),
            "headgate_s": round(harness.medians(times)["ours"], 3),
            "peak_rss_mb": harness.peak_rss_mb(),
        }


if __name__ == "__main__":
    harness.main(
        measure,
        name="graph_load",
        about="an in-process load with all checks over a bare Lance write of the same rows",
        arguments=[
            harness.argument("--rows", 1_000_000, "rows to load"),
            harness.argument("--rounds", 3, "rounds, interleaved"),
        ],
    )
