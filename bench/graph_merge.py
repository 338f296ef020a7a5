"""Branches, merges and changes of a large graph: what a few changed rows cost, whatever the size.

Both graphs hold people who know each other. Before each merge the branch changes a thousand people and main a
thousand others, so that the merge is a three-way one, with all its checks.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from pathlib import Path

import pyarrow as pa

import headgate.graph as hg
from bench import harness

SCHEMA = """
node Person { name: String @key  email: String @unique  age: I64  city: String @index }
edge Knows: Person -> Person { since: I64 }
"""
CHANGED, FEW = 1_000, 100
CREATED = 20


class Subject:
    """A graph of so many people, and rounds of work on it."""

    def __init__(self, place: Path, rows: int) -> None:
        self.rows = rows
        self.graph = hg.init(place, SCHEMA)
        self._random = random.Random(rows)
        self._round = 0
        names = [f"p{n:08d}" for n in range(rows)]
        self.graph.load(self._people(range(rows), age=0), type_name="Person")
        self.graph.load(
            pa.table({"from": names, "to": names[1:] + names[:1], "since": list(range(rows))}), type_name="Knows"
        )
        self.graph.ensure_indices()

    def _people(self, numbers: range | list[int], *, age: int) -> pa.Table:
        return pa.table(
            {
                "name": [f"p{n:08d}" for n in numbers],
                "email": [f"{n}@example.org" for n in numbers],
                "age": [age] * len(numbers),
                "city": [f"city {n % 1000}" for n in numbers],
            }
        )

    def change(self, branch: str, numbers: list[int]) -> None:
        self._round += 1
        self.graph.load(self._people(numbers, age=self._round), type_name="Person", mode="merge", branch=branch)

    def merge(self) -> float:
        """Milliseconds of one merge of a thousand changed rows."""
        side = f"side-{self._round}"
        chosen = self._random.sample(range(self.rows), 2 * CHANGED)
        self.graph.create_branch(side)
        self.change(side, chosen[:CHANGED])
        self.change("main", chosen[CHANGED:])
        taken = harness.seconds(lambda: self.graph.merge(side))
        self.graph.delete_branch(side)
        return taken * 1e3

    def create(self) -> float:
        """Milliseconds of making a branch."""
        self._round += 1
        name = f"made-{self._round}"
        taken = harness.seconds(lambda: self.graph.create_branch(name))
        self.graph.delete_branch(name)
        return taken * 1e3

    def changes(self) -> float:
        """Milliseconds of reading a hundred changed rows, before and after."""
        before = self.graph.head().id
        self.change("main", self._random.sample(range(self.rows), FEW))
        found = 0

        def read() -> None:
            nonlocal found
            found = sum(1 for _ in self.graph.changes(before, self.graph.head().id))

        taken = harness.seconds(read)
        assert found == FEW, found
        return taken * 1e3


def measure(args: argparse.Namespace) -> harness.Result:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        small = Subject(Path(folder) / "small", args.rows // 10)
        large = Subject(Path(folder) / "large", args.rows)
        harness.say(f"graphs of {small.rows:,} and {large.rows:,} people are there")
        for subject in (small, large):
            subject.merge()
        merges: dict[str, list[float]] = {"small": [], "large": []}
        for number in range(args.rounds):
            for name, subject in (
                (("small", small), ("large", large)) if number % 2 else (("large", large), ("small", small))
            ):
                merges[name].append(subject.merge())
        times = harness.medians(merges)
        return {
            "ms_100k": round(times["small"], 1),
            "ms_1m": round(times["large"], 1),
            "growth": round(times["large"] / times["small"], 3),
            "branch_create_ms": round(statistics.median(large.create() for _ in range(CREATED)), 2),
            "changes_ms": round(statistics.median(large.changes() for _ in range(5)), 1),
            "changed": CHANGED,
            "peak_rss_mb": harness.peak_rss_mb(),
        }


if __name__ == "__main__":
    harness.main(
        measure,
        name="graph_merge",
        about="what branches, merges and changes of a few rows cost in a large graph",
        arguments=[
            harness.argument("--rows", 1_000_000, "people in the large graph; the small one has a tenth"),
            harness.argument("--rounds", 5, "merges of each"),
        ],
    )
