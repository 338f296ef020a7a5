"""Point look-up and traversals of a graph against the same query written by hand in DuckDB on Parquet."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import harness
from headgate import graph as graphs
from headgate.graph.read.snapshot import Snapshot

SCHEMA = """
node Person { name: String @key  age: I32 @index }
edge Knows: Person -> Person { since: I32 }
"""
_GROUPS = 91
"""People are spread over so many ages, so that one age holds about 11,000 of a million."""

_NARROW = 5
"""Queries in one measurement, where one takes about a millisecond: less than what stands between two measurements."""

QUERIES = {
    "point": "query q($start: String) { match { $p: Person { name: $start } } return { $p.name, $p.age } }",
    "hop1": "query q($start: String) { match { $p: Person { name: $start } $p knows $f } return { $f.name, $f.age } }",
    "hop2": """query q($start: String) {
      match { $p: Person { name: $start } $p knows $f $f knows $g } return { $g.name, $g.age } }""",
    "hop2_wide": """query q($start: I32) {
      match { $p: Person { age: $start } $p knows $f $f knows $g } return { count(*) as pairs } }""",
}
BY_HAND = {
    "point": "select name, age from person where id = $1",
    "hop1": "select f.name, f.age from knows k join person f on f.id = k.dst where k.src = $1",
    "hop2": """with one as materialized (select dst as id from knows where src = $1),
      two as materialized (select dst from knows where src in (select id from one))
      select g.name, g.age from two join person g on g.id = two.dst""",
    "hop2_wide": """with start as materialized (select id from person where age = $1),
      one as materialized (select dst from knows where src in (select id from start))
      select count(*) as pairs from one join knows two on one.dst = two.src""",
}
"""As fast as we know to write them: a plain chain of joins lets DuckDB join the edges with themselves first."""


def measure(args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        root = Path(folder)
        harness.say(f"writing {args.nodes:,} nodes and {args.edges:,} edges")
        write_parquet(root, args.nodes, args.edges)
        with graphs.init(root / "graph", SCHEMA) as graph:
            for name in ("Person", "Knows"):
                graph.load(pq.read_table(root / f"{name.lower()}.parquet"), type_name=name)
            graph.ensure_indices()
            return compare(root, graph.snapshot(), args)


def write_parquet(root: Path, nodes: int, edges: int) -> None:
    """People and whom they know, as files: what the query by hand reads, and what the graph is loaded from."""
    rng = np.random.default_rng(7)
    ids = pa.array([f"person-{number}" for number in range(nodes)])
    ages = pa.array(rng.integers(0, _GROUPS, nodes), pa.int32())
    pq.write_table(pa.table({"id": ids, "name": ids, "age": ages}), root / "person.parquet")
    # No pair twice: a traversal finds a pair once, and by hand that should need no DISTINCT.
    pairs = rng.permutation(np.unique(rng.integers(0, nodes * nodes, edges + edges // 100)))[:edges]
    ends = [ids.take(pa.array(part)) for part in (pairs // nodes, pairs % nodes)]
    since = pa.array(rng.integers(1990, 2026, edges), pa.int32())
    pq.write_table(pa.table({"src": ends[0], "dst": ends[1], "since": since}), root / "knows.parquet")


def compare(root: Path, snapshot: Snapshot, args: argparse.Namespace) -> dict[str, Any]:
    by_hand = duckdb.connect()
    for name in ("person", "knows"):
        by_hand.execute(f"create view {name} as select * from read_parquet('{root}/{name}.parquet')")
    starts = random.Random(11)
    result: dict[str, Any] = {"nodes": args.nodes, "edges": args.edges, "ms": {}, "by_hand_ms": {}}
    for name, text in QUERIES.items():
        wide = name == "hop2_wide"
        at_once = 1 if wide else _NARROW
        given = [17 if wide else f"person-{starts.randrange(args.nodes)}" for _ in range(args.rounds * at_once + 1)]
        ours = _Subject(given, partial(_ours, snapshot, text), at_once)
        theirs = _Subject(given, partial(_by_hand, by_hand, BY_HAND[name]), at_once)
        _check_same(name, ours.next(), theirs.next())
        times = harness.interleaved({"ours": ours.several, "by_hand": theirs.several}, rounds=args.rounds)
        result[name] = harness.ratio(times, "ours", "by_hand")
        middle = {who: round(seconds * 1000 / at_once, 2) for who, seconds in harness.medians(times).items()}
        result["ms"][name], result["by_hand_ms"][name] = middle["ours"], middle["by_hand"]
        harness.say(f"{name}: {middle['ours']} ms, by hand {middle['by_hand']} ms")
    by_hand.close()
    return result


class _Subject:
    """A query from the next start at each call, so that no call finds the last one's rows in a cache."""

    def __init__(self, starts: list[Any], run: Callable[[Any], pa.Table], at_once: int) -> None:
        self._starts = iter(starts)
        self._run = run
        self._at_once = at_once

    def next(self) -> pa.Table:
        return self._run(next(self._starts))

    def several(self) -> None:
        for _ in range(self._at_once):
            self.next()


def _ours(snapshot: Snapshot, text: str, start: Any) -> pa.Table:
    return snapshot.query(text, {"start": start}).to_arrow()


def _by_hand(connection: duckdb.DuckDBPyConnection, sql: str, start: Any) -> pa.Table:
    return connection.sql(sql, params=[start]).to_arrow_table()


def _check_same(name: str, ours: pa.Table, theirs: pa.Table) -> None:
    """Both must find the same rows, or a comparison means nothing."""
    found, expected = (sorted(map(str, table.to_pylist())) for table in (_plain(ours), _plain(theirs)))
    if found != expected:
        raise SystemExit(f"{name}: {len(found)} rows, by hand {len(expected)}, or different ones")


def _plain(table: pa.Table) -> pa.Table:
    return table.rename_columns([str(number) for number in range(table.num_columns)])


if __name__ == "__main__":
    harness.main(
        measure,
        name="graph_read",
        about="Point look-up and traversals against hand-written DuckDB on Parquet.",
        arguments=[
            harness.argument("--nodes", 1_000_000, "nodes"),
            harness.argument("--edges", 5_000_000, "edges"),
            harness.argument("--rounds", 9, "rounds of each query"),
        ],
    )
