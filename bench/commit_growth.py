"""What a commit of ten changed files costs in a small repository and in a large one.

`measure_growth` is a part of `bench.attempt_embedded`; run alone it also tells flat folders from deep ones.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import harness
from headgate.lake import Changes, EmbeddedLake

SMALL, LARGE, CHANGED = 1_000, 100_000, 10
LAYOUTS = {"flat": "f{n:06d}", "deep": "{m:03d}/f{n:06d}"}


def measure_growth(
    folder: Path, *, layout: str = "flat", small: int = SMALL, large: int = LARGE, rounds: int = 25
) -> harness.Result:
    """Median milliseconds of a commit in both repositories, and their ratio."""
    subjects: dict[str, Callable[[], object]] = {}
    lakes = []
    chosen = random.Random(7)
    for name, size in (("small", small), ("large", large)):
        lake = EmbeddedLake(folder / f"{layout}-{name}", create=True)
        lakes.append(lake)
        lake.create_repository("r")
        paths = [LAYOUTS[layout].format(n=n, m=n % 100) for n in range(size)]
        harness.say(f"a repository of {size:,} files, {layout}")
        lake.commit("r", "main", Changes(puts=dict.fromkeys(paths, b"as it was")), message="all")

        def commit(lake: EmbeddedLake = lake, paths: list[str] = paths) -> None:
            puts = {path: os.urandom(1_000) for path in chosen.sample(paths, CHANGED)}
            lake.commit("r", "main", Changes(puts=puts), message="some")

        commit()
        subjects[name] = commit
    times = harness.interleaved(subjects, rounds=rounds)
    for lake in lakes:
        lake.close()
    medians = harness.medians(times)
    return {
        "commit_growth": harness.ratio(times, "large", "small"),
        "commit_small_ms": round(medians["small"] * 1000, 2),
        "commit_large_ms": round(medians["large"] * 1000, 2),
    }


def measure(args: argparse.Namespace) -> harness.Result:
    with tempfile.TemporaryDirectory(prefix="headgate-growth-") as folder:
        return {
            f"{layout}_{field}": value
            for layout in LAYOUTS
            for field, value in measure_growth(
                Path(folder), layout=layout, small=args.small, large=args.large, rounds=args.rounds
            ).items()
        }


if __name__ == "__main__":
    harness.main(
        measure,
        name="commit_growth",
        about="ten changed files in a small and in a large repository",
        arguments=[
            harness.argument("--small", SMALL, "files in the small repository"),
            harness.argument("--large", LARGE, "files in the large one"),
            harness.argument("--rounds", 25, "commits in each"),
        ],
    )
