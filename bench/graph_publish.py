"""Publish latency while history grows: the last publishes against the first."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import harness
from headgate.clock import SYSTEM_CLOCK
from headgate.graph.manifest.publisher import Publication, TableAt, publish
from headgate.graph.manifest.upkeep import keep_compact
from headgate.graph.storage import Location
from headgate.graph.store import GraphStore
from headgate.graph.write.create import create_graph
from headgate.ids import ULIDS

TABLES = 20
SCHEMA = "\n".join(f"node T{number} {{ key: I64 @key }}" for number in range(TABLES))
SKIPPED, WINDOW = 10, 100


def publishes(place: Path) -> Iterator[float]:
    """Milliseconds of each publish, upkeep included. Tables do not move: only the manifest is measured."""
    location = Location.parse(place)
    create_graph(location, SCHEMA, actor="bench", message="", clock=SYSTEM_CLOCK, ids=ULIDS)
    manifest = GraphStore.open(location).manifest
    number = 0
    while True:
        began = time.perf_counter()
        state = manifest.state()
        head = state.head("main")
        pins = state.pins("main")
        table = sorted(pins)[number % TABLES]
        at = pins[table]
        done = publish(
            manifest,
            Publication(
                branch="main",
                commit=ULIDS.new(),
                base=head.mark,
                writer="bench",
                expected={table: TableAt(at.version, at.fork)},
                pins={table: TableAt(at.version + 1, at.fork, number)},
            ),
        )
        keep_compact(manifest, done.state)
        number += 1
        yield (time.perf_counter() - began) * 1e3


def measure(args: argparse.Namespace) -> harness.Result:
    """The last window of a long history, interleaved with a fresh graph's: a busy machine meets both."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        old, fresh = publishes(Path(folder) / "old"), publishes(Path(folder) / "fresh")
        for number in range(args.commits - WINDOW):
            next(old)
            if number % 1000 == 999:
                harness.say(f"{number + 1} commits")
        for _ in range(SKIPPED):
            next(fresh)
        times: dict[str, list[float]] = {"first": [], "last": []}
        for _ in range(WINDOW):
            times["first"].append(next(fresh))
            times["last"].append(next(old))
        return {
            "first_ms": round(statistics.median(times["first"]), 3),
            "last_ms": round(statistics.median(times["last"]), 3),
            "ratio": harness.ratio(times, "last", "first"),
            "commits": args.commits,
        }


if __name__ == "__main__":
    harness.main(
        measure,
        name="graph_publish",
        about="publish latency after many commits over that of the first ones",
        arguments=[harness.argument("--commits", 10_000, "commits of the long history")],
    )
