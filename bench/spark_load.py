"""A validated, published load of nodes and edges by Spark, against Spark writing the same rows to Parquet unchecked."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import headgate.graph as hg
from bench import harness, spark_data


def measure(args: argparse.Namespace) -> harness.Result:
    from headgate.spark.load import spark_load

    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        root = Path(folder)
        small = _files(root / "one", args.nodes, args.edges)
        harness.say(f"{args.nodes:,} nodes and {args.edges:,} edges are written")
        running = spark_data.sessions()
        try:
            spark = running.session(jobs="bench")
            loads: list[Any] = []

            def ours(files: list[Path] = small) -> None:
                place = root / "graph"
                with hg.init(place, spark_data.SCHEMA) as graph:
                    loads.append(spark_load(spark, graph, *files))
                shutil.rmtree(place)

            def parquet(files: list[Path] = small) -> None:
                for file in files:
                    spark.read.parquet(str(file)).write.mode("overwrite").parquet(str(root / "copy" / file.stem))

            ours()
            parquet()
            before = spark_data.shuffle_bytes(spark)
            times = harness.interleaved({"parquet": parquet, "headgate": ours}, rounds=args.rounds)
            shuffled = spark_data.shuffle_bytes(spark) - before
            result: harness.Result = {
                "headgate_s": round(harness.medians(times)["headgate"], 2),
                "parquet_s": round(harness.medians(times)["parquet"], 2),
                "ratio": harness.ratio(times, "headgate", "parquet"),
                "driver_peak_mb": harness.peak_rss_mb(),
                "jvm_peak_mb": spark_data.jvm_peak_mb(),
                "profile": {
                    **{f"{name}_s": value for name, value in loads[-1].seconds.items()},
                    "shuffle_mb": round(shuffled / args.rounds / (1 << 20), 1),
                    "plan": "stage on executors, claims through one shuffle, verdict by bucket, publish",
                },
            }
            if args.growth:
                result |= _growth(root, args, ours, harness.medians(times)["headgate"])
        finally:
            running.close()
    return result


def _growth(root: Path, args: argparse.Namespace, load: Any, once: float) -> harness.Result:
    """Ten times the data: the time over that of the first load, and the driver's memory after it."""
    shutil.rmtree(root / "copy", ignore_errors=True)
    large = _files(root / "ten", args.nodes * 10, args.edges * 10)
    taken = harness.seconds(lambda: load(large))
    return {
        "growth": round(taken / once, 2),
        "driver_peak_10_mb": harness.peak_rss_mb(),
        "jvm_peak_10_mb": spark_data.jvm_peak_mb(),
    }


def _files(folder: Path, nodes: int, edges: int) -> list[Path]:
    folder.mkdir()
    spark_data.write_people(folder / "person.parquet", nodes)
    spark_data.write_edges(folder / "knows.parquet", edges, nodes)
    return [folder / "person.parquet", folder / "knows.parquet"]


if __name__ == "__main__":
    harness.main(
        measure,
        name="spark_load",
        about="a checked and published load by Spark over an unchecked copy to Parquet",
        arguments=[
            harness.argument("--nodes", 1_000_000, "nodes to load"),
            harness.argument("--edges", 5_000_000, "edges to load"),
            harness.argument("--rounds", 3, "rounds, interleaved"),
            harness.argument("--growth", False, "load ten times the data, too"),
        ],
    )
