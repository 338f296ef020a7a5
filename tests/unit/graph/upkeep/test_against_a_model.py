"""Random writes and upkeep in any order: every branch and every kept commit shows what a plain dictionary does."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

import headgate.graph as hg
from headgate.errors import NotFound

BASE = """
node Song { title: String @key  %s  words: String? @index }
node Artist { name: String @key }
edge By: Song -> Artist
"""
Rows = dict[str, Any]


class Model:
    """What each branch shows, and what each commit showed."""

    def __init__(self, graph: hg.Graph) -> None:
        self.graph = graph
        self.branches: dict[str, Rows] = {"main": {}}
        self.commits: dict[str, Rows] = {}
        self.column = {"main": "n0"}

    def changed(self, branch: str) -> None:
        self.commits[self.graph.head(branch).id] = dict(self.branches[branch])

    def shown(self, **at: Any) -> Rows:
        base = self.graph.base(**at)
        column = next(name for name in (f"n{number}" for number in range(50)) if base.type("Song").find_property(name))
        rows = base.dataset("Song").to_table().to_pylist()
        found = {row["title"]: (row[column], row["words"]) for row in rows}
        assert len(found) == len(rows)
        return found

    def check(self) -> None:
        for branch, rows in self.branches.items():
            assert self.shown(branch=branch) == rows
        for commit, rows in list(self.commits.items())[-6:]:
            if self.graph.store.manifest.state().is_kept(self.graph.commit(commit)):
                assert self.shown(commit=commit) == rows
            else:
                assert commit not in {self.graph.head(branch).id for branch in self.branches}
                with pytest.raises(NotFound, match="older than what cleanup keeps"):
                    self.shown(commit=commit)


def declared(column: str, former: str = "") -> str:
    renamed = f' @rename_from("{former}")' if former else ""
    return BASE % f"{column}: I32 @default(7){renamed}"


@pytest.mark.parametrize("seed", range(4))
def test_upkeep_changes_nothing_that_can_be_read(place: str, seed: int) -> None:
    chance = random.Random(seed)
    with hg.init(place, declared("n0")) as graph:
        model = Model(graph)
        for step in range(40):
            branch = chance.choice(sorted(model.branches))
            rows, column = model.branches[branch], model.column[branch]
            match chance.choice("wwwwrdduuoicxbs"):
                case "w":
                    batch = {f"s{chance.randrange(30)}": (step, f"w{step} la") for _ in range(chance.randrange(1, 5))}
                    data = [{"title": t, column: n, "words": w} for t, (n, w) in batch.items()]
                    graph.load([{"type": "Song", "data": one} for one in data], mode="merge", branch=branch)
                    rows.update(batch)
                case "r":
                    batch = {f"s{number}": (step, f"w{step}") for number in range(chance.randrange(4))}
                    with graph.transaction(branch=branch) as change:
                        change.overwrite("Song", [{"title": t, column: n, "words": w} for t, (n, w) in batch.items()])
                    rows.clear()
                    rows.update(batch)
                case "d":
                    gone = f"s{chance.randrange(30)}"
                    graph.mutate("query q($t: String) { delete Song where title = $t }", {"t": gone}, branch=branch)
                    rows.pop(gone, None)
                case "u":
                    text = f'query q($n: I32) {{ update Song set {{ {column}: $n }} where title starts_with "s1" }}'
                    graph.mutate(text, {"n": step}, branch=branch)
                    rows.update({t: (step, w) for t, (_, w) in rows.items() if t.startswith("s1")})
                case "o":
                    graph.optimize(branch=branch)
                case "i":
                    graph.ensure_indices(branch=branch)
                case "c":
                    graph.store.leases.release()
                    graph.cleanup(keep=chance.randrange(1, 4), older_than=timedelta(0), grace=timedelta(0))
                case "x":
                    assert graph.verify().damage == []
                case "b" if len(model.branches) < 3:
                    name = f"b{step}"
                    graph.create_branch(name, at=branch)
                    model.branches[name], model.column[name] = dict(rows), column
                case "s":
                    renamed = f"n{step}"
                    graph.apply_schema(declared(renamed, column), branch=branch)
                    model.column[branch] = renamed
            model.changed(branch)
            model.check()
        assert graph.verify().damage == []
    with hg.open(place) as graph:
        model.graph = graph
        model.check()
