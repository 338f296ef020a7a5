"""A graph that has taken many small writes, after optimize and cleanup, against one that was loaded at once."""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench import harness
from headgate import graph as graphs
from headgate.graph import Graph

SCHEMA = """
node Song { title: String @key  words: String?  year: I32? @index  plays: I64? }
node Artist { name: String @key }
edge By: Song -> Artist
"""
ARTISTS = 1000
ROUNDS = 60
POINT = "query q($t: String) { match { $s: Song { title: $t } $s by $a } return { $a.name as name, $s.plays as n } }"
WRITE = "query q($t: String, $n: I64) { insert Song { title: $t, plays: $n } }"
SCAN = "select year, count(*) as n, max(length(words)) as longest from Song group by year"
NONE = timedelta(0)


def rows(writes: int, per_write: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of each write: new songs, each by somebody, and one that is there already and is changed."""
    chance = random.Random(0)
    for write in range(writes):
        batch: list[dict[str, Any]] = []
        for number in range(write * per_write, (write + 1) * per_write):
            batch.append({"type": "Song", "data": _song(chance, number)})
            batch.append({"edge": "By", "from": f"song-{number:08}", "to": f"artist-{chance.randrange(ARTISTS):04}"})
        changed = chance.randrange((write + 1) * per_write)
        batch.append({"type": "Song", "data": _song(chance, changed)})
        yield batch


def _song(chance: random.Random, number: int) -> dict[str, Any]:
    words = " ".join(f"{chance.randrange(1 << 40):x}" for _ in range(40))
    return {"title": f"song-{number:08}", "words": words, "year": 1950 + chance.randrange(70), "plays": number}


def made(place: Path) -> Graph:
    graph = graphs.init(place, SCHEMA)
    graph.load([{"type": "Artist", "data": {"name": f"artist-{number:04}"}} for number in range(ARTISTS)])
    return graph


def bit_by_bit(place: Path, args: argparse.Namespace) -> Graph:
    graph = made(place)
    for number, batch in enumerate(rows(args.writes, args.rows)):
        graph.load(batch, mode="merge")
        if number % 1000 == 999:
            harness.say(f"{number + 1} writes")
    return graph


def at_once(place: Path, args: argparse.Namespace) -> Graph:
    graph = made(place)
    last: dict[str, dict[str, Any]] = {}
    for batch in rows(args.writes, args.rows):
        for row in batch:
            last[row["data"]["title"] if "type" in row else f"by {row['from']}"] = row
    graph.load(list(last.values()))
    return graph


def size(graph: Graph) -> int:
    return sum(path.stat().st_size for path in Path(graph.uri).rglob("*") if path.is_file())


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e3


def compared(args: argparse.Namespace, folder: Path) -> harness.Result:
    written, loaded = bit_by_bit(folder / "written", args), at_once(folder / "loaded", args)
    before = size(written)
    spent = timed(lambda: (written.optimize(), written.cleanup(keep=1, older_than=NONE, grace=NONE)))
    for graph in (written, loaded):
        graph.ensure_indices()
    written.cleanup(keep=1, older_than=NONE, grace=NONE)
    sizes = {"written": size(written), "loaded": size(loaded)}
    harness.say(f"{before:,} bytes before, {sizes['written']:,} after, {sizes['loaded']:,} loaded at once")
    count = "select count(*) as n, sum(plays) as p from Song"
    assert written.sql(count).to_json_rows() == loaded.sql(count).to_json_rows()
    graphs_by_name = {"written": graphs.open(written.uri), "loaded": graphs.open(loaded.uri)}
    actions: dict[str, Callable[[Graph, int], object]] = {
        "point": lambda graph, turn: graph.query(POINT, {"t": f"song-{turn * 7919 % (args.writes * args.rows):08}"}),
        "scan": lambda graph, turn: graph.sql(SCAN),
        "write": lambda graph, turn: graph.mutate(WRITE, {"t": f"new-{turn}", "n": turn}),
    }
    times: dict[str, dict[str, list[float]]] = {kind: {"written": [], "loaded": []} for kind in actions}
    for turn in range(ROUNDS):
        for name, graph in graphs_by_name.items():
            for kind, action in actions.items():
                times[kind][name].append(timed(partial(action, graph, turn)))
    return {
        "size_ratio": round(sizes["written"] / sizes["loaded"], 3),
        **{f"{kind}_ratio": harness.ratio(found, "written", "loaded") for kind, found in times.items()},
        **{f"{kind}_ms": round(statistics.median(found["written"]), 2) for kind, found in times.items()},
        "shrunk": round(before / sizes["written"], 1),
        "upkeep_s": round(spent / 1e3, 1),
        "writes": args.writes,
    }


def measure(args: argparse.Namespace) -> harness.Result:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        return compared(args, Path(folder))


if __name__ == "__main__":
    harness.main(
        measure,
        name="graph_upkeep",
        about="a graph of many small writes after upkeep, over one that was loaded at once",
        arguments=[
            harness.argument("--writes", 10_000, "small writes"),
            harness.argument("--rows", 5, "new rows of each write"),
        ],
    )
