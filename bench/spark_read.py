"""Reading a type through the data source, whole and by a selective condition, against Spark on Parquet."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import headgate.graph as hg
from bench import harness, spark_data


def measure(args: argparse.Namespace) -> harness.Result:
    from headgate.spark.load import spark_load

    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        root = Path(folder)
        source = root / "person.parquet"
        spark_data.write_people(source, args.rows)
        running = spark_data.sessions()
        try:
            spark = running.session(jobs="bench")
            with hg.init(root / "graph", spark_data.SCHEMA) as graph:
                spark_load(spark, graph, source)
                columns = ["key", "name", "age", "score"]
                ours = graph.snapshot().frame(spark, "Person", columns=columns)
                spark.read.parquet(str(source)).write.parquet(str(root / "copy"))
                theirs = spark.read.parquet(str(root / "copy"))
                wanted = [f"person-{number:09d}" for number in range(0, args.rows, max(1, args.rows // 20))]
                listed = ", ".join(f"'{key}'" for key in wanted)
                subjects: dict[str, Callable[[], object]] = {
                    "scan": lambda: ours.write.format("noop").mode("overwrite").save(),
                    "parquet_scan": lambda: theirs.write.format("noop").mode("overwrite").save(),
                    "filter": lambda: _expect(ours.where(f"key IN ({listed})").collect(), len(wanted)),
                    "parquet_filter": lambda: _expect(theirs.where(f"key IN ({listed})").collect(), len(wanted)),
                }
                for subject in subjects.values():
                    subject()
                times = harness.interleaved(subjects, rounds=args.rounds)
        finally:
            running.close()
    middle = harness.medians(times)
    return {
        "scan_ratio": harness.ratio(times, "scan", "parquet_scan"),
        "filter_ratio": harness.ratio(times, "filter", "parquet_filter"),
        "seconds": {name: round(value, 3) for name, value in middle.items()},
    }


def _expect(found: list[object], count: int) -> None:
    assert len(found) == count, (len(found), count)


if __name__ == "__main__":
    harness.main(
        measure,
        name="spark_read",
        about="reads through the data source over Spark on Parquet",
        arguments=[
            harness.argument("--rows", 5_000_000, "rows of the type"),
            harness.argument("--rounds", 5, "rounds, interleaved"),
        ],
    )
