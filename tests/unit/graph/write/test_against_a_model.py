"""Random writes, held against dictionaries: whatever the mix, the graph shows what the statements say."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate.graph as hg
from headgate.errors import InvalidInput, KeyConflict
from headgate.graph.storage import tables

SCHEMA = "node P { k: I64 @key  v: I64? }\nedge E: P -> P { w: I64? }"
keys = st.integers(0, 5)
values = st.one_of(st.none(), st.integers(0, 9))
operations = st.one_of(
    st.tuples(st.just("merge"), st.lists(st.tuples(keys, values), min_size=1, max_size=4)),
    st.tuples(st.just("append"), st.lists(st.tuples(keys, values), min_size=1, max_size=2)),
    st.tuples(st.just("overwrite"), st.lists(st.tuples(keys, values), max_size=3, unique_by=lambda row: row[0])),
    st.tuples(st.just("update"), keys, values),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("edges"), st.lists(st.tuples(keys, keys, values), min_size=1, max_size=3)),
    st.tuples(st.just("cut"), keys),
)
writes = st.lists(st.lists(operations, min_size=1, max_size=4), min_size=1, max_size=5)


class Refused(Exception):
    pass


class Model:
    """Nodes by key, edges by their ends."""

    def __init__(self) -> None:
        self.nodes: dict[int, int | None] = {}
        self.edges: dict[tuple[int, int], int | None] = {}

    def copy(self) -> Model:
        made = Model()
        made.nodes, made.edges = dict(self.nodes), dict(self.edges)
        return made

    def apply(self, operation: Any) -> None:
        match operation:
            case ("merge", rows):
                self.nodes.update(rows)
            case ("append", rows):
                if len({key for key, _ in rows}) < len(rows) or any(key in self.nodes for key, _ in rows):
                    raise Refused
                self.nodes.update(rows)
            case ("overwrite", rows):
                self.nodes = dict(rows)
            case ("update", key, value):
                if key in self.nodes:
                    self.nodes[key] = value
            case ("delete", key):
                if self.nodes.pop(key, "absent") != "absent":
                    self.edges = {ends: value for ends, value in self.edges.items() if key not in ends}
            case ("edges", rows):
                self.edges.update({(src, dst): value for src, dst, value in rows})
            case ("cut", key):
                self.edges = {ends: value for ends, value in self.edges.items() if ends[0] != key}

    def check(self) -> None:
        if any(end not in self.nodes for ends in self.edges for end in ends):
            raise Refused


def apply(change: hg.Transaction, operation: Any) -> None:
    match operation:
        case ("merge" | "append" | "overwrite" as mode, rows):
            getattr(change, mode)("P", [{"k": key, "v": value} for key, value in rows])
        case ("update", key, value):
            change.mutate("query u($k: I64, $v: I64?) { update P set { v: $v } where k = $k }", k=key, v=value)
        case ("delete", key):
            change.mutate("query d($k: I64) { delete P where k = $k }", k=key)
        case ("edges", rows):
            change.merge("E", [{"from": src, "to": dst, "w": value} for src, dst, value in rows])
        case ("cut", key):
            change.delete("E", where=f"src = '{key}'")


def shown(graph: hg.Graph) -> tuple[dict[int, int | None], dict[tuple[int, int], int | None]]:
    base = graph.base()
    nodes = base.dataset("P").to_table().to_pylist()
    edges = base.dataset("E").to_table().to_pylist()
    assert base.rows == {"P": len(nodes), "E": len(edges)}
    assert len({row["id"] for row in nodes}) == len(nodes)
    found = {(int(row["src"]), int(row["dst"])): row["w"] for row in edges}
    assert len(found) == len(edges)
    return {row["k"]: row["v"] for row in nodes}, found


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(script=writes, indexed_after=st.integers(0, 4))
def test_the_graph_shows_what_the_statements_say(script: list[list[Any]], indexed_after: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_SMALL_FRAGMENTS", 2)
        graph = hg.init(Path(folder) / "graph", SCHEMA)
        model = Model()
        for number, block in enumerate(script):
            if number == indexed_after:
                graph.ensure_indices()
            after = model.copy()
            refused = False
            try:
                for operation in block:
                    after.apply(operation)
                after.check()
            except Refused:
                refused = True
            try:
                with graph.transaction() as change:
                    for operation in block:
                        apply(change, operation)
            except (InvalidInput, KeyConflict):
                assert refused, block
            else:
                assert not refused, block
                model = after
            assert shown(graph) == (model.nodes, model.edges)
