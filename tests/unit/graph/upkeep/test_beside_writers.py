"""Upkeep in a process of its own beside writers and readers: nobody is cut off, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import headgate.graph as hg
from headgate.errors import NotFound

SECONDS = 8.0
UPKEEP = """
import sys
from datetime import timedelta
from pathlib import Path
import headgate.graph as hg
graph, stop, runs = hg.open(sys.argv[1]), Path(sys.argv[2]), 0
while not stop.exists():
    graph.ensure_indices()
    graph.optimize()
    left = graph.cleanup(keep=3, older_than=timedelta(seconds=5), grace=timedelta(seconds=0.1)).left
    assert all("a write is under way" in what for what in left), left
    runs += 1
print(runs)
"""
PAIR = "query q($k: String) { insert Odd { k: $k } insert Even { k: $k, words: $k } }"


@pytest.mark.slow
def test_upkeep_cuts_nobody_off_and_loses_nothing(place: str, tmp_path: Path) -> None:
    """Invariants 1 and 7: every snapshot shows both halves of each write, for as long as it is held."""
    graph = hg.init(place, "node Odd { k: String @key }\nnode Even { k: String @key  words: String? @index }")
    stop = tmp_path / "stop"
    written: list[str] = []
    wrong: list[str] = []
    until = time.monotonic() + SECONDS

    def write(writer: int) -> None:
        mine = hg.open(place)
        number = 0
        while time.monotonic() < until:
            key = f"{writer}-{number}"
            try:
                mine.mutate(PAIR, {"k": key})
            except Exception as error:
                wrong.append(f"a write failed: {error!r}")
                return
            written.append(key)
            number += 1

    def read() -> None:
        while time.monotonic() < until:
            with hg.open(place, "ro") as mine:
                try:
                    earlier = [commit.id for commit in mine.log()][:8][-1]
                    held = [mine.snapshot(), mine.snapshot(commit=earlier)]
                except NotFound as error:
                    if "older than what cleanup keeps" not in error.message:
                        wrong.append(repr(error))
                    continue
                try:
                    for snapshot in held:
                        left = snapshot.table("Odd").count_rows()
                        time.sleep(0.2)
                        right = snapshot.sql("select count(distinct words) as n from Even").to_json_rows()[0]["n"]
                        if left != right:
                            wrong.append(f"{left} and {right} at {snapshot.commit}")
                except Exception as error:
                    wrong.append(f"a reader was cut off: {error!r}")

    upkeep = subprocess.Popen([sys.executable, "-c", UPKEEP, place, str(stop)], stdout=subprocess.PIPE, text=True)
    threads = [threading.Thread(target=write, args=(0,)), threading.Thread(target=write, args=(1,))]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.touch()
    runs = int(upkeep.communicate(timeout=60)[0])
    assert wrong == []
    assert (runs > 0, upkeep.returncode) == (True, 0)
    with hg.open(place) as after:
        assert sorted(after.base().dataset("Odd").to_table()["k"].to_pylist()) == sorted(written)
        assert after.verify().damage == []
    graph.close()
