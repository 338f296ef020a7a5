"""Small writes into tables of growing size, against a bare Lance append of one row."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa

import headgate.graph as hg
from bench import harness

SIZES = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000}
SCHEMA = "node Person { key: String @key\n name: String\n age: I32 }"
INSERT = "query add($key: String, $name: String) { insert Person { key: $key, name: $name, age: 7 } }"
ROWS = 32


def people(rows: int) -> pa.Table:
    return pa.table(
        {
            "key": [f"person-{number:09d}" for number in range(rows)],
            "name": [f"name {number % 5000}" for number in range(rows)],
            "age": pa.array([number % 100 for number in range(rows)], pa.int32()),
        }
    )


def loaded(place: Path, rows: int) -> hg.Graph:
    graph = hg.init(place, SCHEMA)
    graph.load(people(rows), type_name="Person")
    graph.ensure_indices()
    return graph


def single(graph: hg.Graph) -> Callable[[int], object]:
    return lambda number: graph.mutate(INSERT, {"key": f"new-{number}", "name": "n"})


def upsert(graph: hg.Graph, rows: int) -> Callable[[int], object]:
    """Half of the rows are there already."""

    def run(number: int) -> None:
        step = rows // (ROWS // 2)
        keys = [f"person-{(at * step + number) % rows:09d}" for at in range(ROWS // 2)]
        keys += [f"up-{number}-{at}" for at in range(ROWS // 2)]
        with graph.transaction() as change:
            change.merge("Person", [{"key": key, "name": "up", "age": 8} for key in keys])

    return run


def bare(place: Path) -> Callable[[int], object]:
    """One row appended to a table of 10k and committed, nothing else."""
    lance.write_dataset(people(SIZES["10k"]), place)
    row = people(1)
    return lambda number: lance.write_dataset(row, place, mode="append")


def measure(args: argparse.Namespace) -> harness.Result:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        root = Path(folder)
        subjects: dict[str, Callable[[int], object]] = {"bare": bare(root / "bare")}
        for size, rows in SIZES.items():
            subjects[f"single {size}"] = single(loaded(root / f"single-{size}", rows))
            subjects[f"upsert {size}"] = upsert(loaded(root / f"upsert-{size}", rows), rows)
            harness.say(f"loaded {size}")
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for number in range(args.rounds):
            for name, run in subjects.items():
                began = time.perf_counter()
                run(number)
                times[name].append((time.perf_counter() - began) * 1e3)
        middle = {name: round(statistics.median(values), 3) for name, values in times.items()}
        growths = [harness.ratio(times, f"{kind} 1m", f"{kind} 10k") for kind in ("single", "upsert")]
        return {
            "single_ms": {size: middle[f"single {size}"] for size in SIZES},
            "upsert32_ms": {size: middle[f"upsert {size}"] for size in SIZES},
            "growth": max(growths),
            "single_ratio": harness.ratio(times, "single 10k", "bare"),
            "bare_ms": middle["bare"],
        }


if __name__ == "__main__":
    harness.main(
        measure,
        name="graph_write",
        about="one-row inserts and 32-row upserts into tables of 10k, 100k and 1m rows",
        arguments=[harness.argument("--rounds", 100, "writes of each kind, interleaved")],
    )
