"""Merges beside writers of both branches: nothing is lost, nothing is there twice, and every merge is a whole one."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.unit.graph.conftest import ADD

import headgate.graph as hg
from headgate.errors import Conflict, MergeConflict

EACH = 8


@pytest.mark.slow
def test_merges_beside_writers(graph: hg.Graph) -> None:
    graph.mutate(ADD, {"name": "start"})
    graph.create_branch("side")
    failed: list[BaseException] = []

    def work(action: Callable[[hg.Graph], None]) -> threading.Thread:
        def run() -> None:
            try:
                with hg.open(graph.uri) as mine:
                    action(mine)
            except BaseException as error:
                failed.append(error)

        return threading.Thread(target=run)

    def writes(branch: str) -> Callable[[hg.Graph], None]:
        def run(mine: hg.Graph) -> None:
            for number in range(EACH):
                mine.mutate(ADD, {"name": f"{branch}-{number}"}, branch=branch)

        return run

    def merges(source: str, into: str) -> Callable[[hg.Graph], None]:
        def run(mine: hg.Graph) -> None:
            for _ in range(EACH):
                try:
                    mine.merge(source, into)
                except MergeConflict:
                    raise  # there is nothing these rows can disagree in
                except Conflict:
                    continue  # the branch moved under every try

        return run

    threads = [work(writes("main")), work(writes("side")), work(merges("side", "main")), work(merges("main", "side"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    graph.merge("side", "main")
    graph.merge("main", "side")
    expected = sorted(["start", *(f"{branch}-{number}" for branch in ("main", "side") for number in range(EACH))])
    for branch in ("main", "side"):
        base = graph.base(branch=branch)
        assert sorted(base.dataset("Person").to_table()["name"].to_pylist()) == expected
        assert base.rows["Person"] == len(expected)
    assert graph.store.sidecars.find() == []
