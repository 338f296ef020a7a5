"""Upkeep in a process of its own beside writers and readers: nobody is cut off, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

import headgate.graph as hg
from headgate.errors import NotFound

KEPT = 5.0
"""Seconds for which a head that has moved can still be read."""
UPKEEP = """
import sys
from datetime import timedelta
import headgate.graph as hg
from headgate.errors import Conflict
graph, removed = hg.open(sys.argv[1]), 0
while removed < 3:
    try:
        graph.ensure_indices()
    except Conflict:
        pass  # the writers were first each time, and optimize goes on
    graph.optimize()
    done = graph.cleanup(keep=3, older_than=timedelta(seconds=float(sys.argv[2])), grace=timedelta(seconds=0.1))
    assert all("a write is under way" in what for what in done.left), done.left
    removed += bool(done.versions)
"""
PAIR = "query q($k: String) { insert Odd { k: $k } insert Even { k: $k, words: $k } }"


@pytest.mark.slow
def test_upkeep_cuts_nobody_off_and_loses_nothing(place: str) -> None:
    """Invariants 1 and 7: every snapshot shows both halves of each write, for as long as it is held."""
    graph = hg.init(place, "node Odd { k: String @key }\nnode Even { k: String @key  words: String? @index }")
    written: list[str] = []
    wrong: list[str] = []
    upkeep = subprocess.Popen([sys.executable, "-c", UPKEEP, place, str(KEPT)])

    def write(writer: int) -> None:
        mine = hg.open(place)
        number = 0
        while upkeep.poll() is None:
            key = f"{writer}-{number}"
            try:
                mine.mutate(PAIR, {"k": key})
            except Exception as error:
                wrong.append(f"a write failed: {error!r}")
                return
            written.append(key)
            number += 1

    def read() -> None:
        while upkeep.poll() is None:
            with hg.open(place, "ro") as mine:
                began = time.monotonic()
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
                    # On a machine that stood still for so long, a head that moved meanwhile may be gone.
                    if time.monotonic() - began < KEPT:
                        wrong.append(f"a reader was cut off: {error!r}")

    threads = [threading.Thread(target=write, args=(0,)), threading.Thread(target=write, args=(1,))]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert upkeep.returncode == 0
    with hg.open(place) as after:
        assert sorted(after.base().dataset("Odd").to_table()["k"].to_pylist()) == sorted(written)
        assert after.verify().damage == []
    graph.close()
