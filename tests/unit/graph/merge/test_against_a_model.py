"""Random histories of three branches, held against a model that merges dictionaries.

The model knows no tables, no addresses and no fragments: a commit is its rows, a merge compares whole states three
ways, and where two branches were merged in both directions its base is the merge of the bases.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate.graph as hg
from headgate.errors import InvalidInput, MergeConflict
from headgate.graph.storage import tables

SCHEMA = "node P { k: I64 @key  v: I64?  w: I64? }\nedge E: P -> P { x: I64? }"
BRANCHES = ["main", "a", "b"]
State = dict[tuple[str, str], dict[str, Any]]
keys = st.integers(0, 3)
values = st.one_of(st.none(), st.integers(0, 2))
branches = st.sampled_from(BRANCHES)
operations = st.one_of(
    st.tuples(st.just("put"), branches, st.lists(st.tuples(keys, values, values), min_size=1, max_size=3)),
    st.tuples(st.just("set"), branches, keys, st.sampled_from("vw"), values),
    st.tuples(st.just("set"), branches, keys, st.sampled_from("vw"), values),
    st.tuples(st.just("remove"), branches, keys),
    st.tuples(st.just("link"), branches, keys, keys, values),
    st.tuples(st.just("merge"), branches, branches, st.sampled_from([None, None, "ours", "theirs"])),
    st.tuples(st.just("merge"), branches, branches, st.none()),
    st.tuples(st.just("indices"), branches),
)
UNKNOWN = object()


class InConflict(Exception):
    pass


@dataclass
class Commit:
    state: State
    parents: tuple[Commit, ...] = ()

    def ancestors(self) -> list[Commit]:
        found: list[Commit] = [self]
        for commit in found:
            found += [parent for parent in commit.parents if all(parent is not known for known in found)]
        return found


def bases(one: Commit, other: Commit) -> list[Commit]:
    theirs = {id(commit) for commit in other.ancestors()}
    common = [commit for commit in one.ancestors() if id(commit) in theirs]
    passed = {id(parent) for commit in common for parent in commit.parents}
    return [commit for commit in common if id(commit) not in passed]


def base_of(one: Commit, other: Commit) -> State:
    first, *others = bases(one, other)
    state = first.state
    for commit in others:
        before = base_of(first, commit)
        put = {key: virtual(before.get(key), state.get(key), commit.state.get(key)) for key in {*state, *commit.state}}
        state = {key: row for key, row in put.items() if row is not None}
    return state


def virtual(base: Any, one: Any, other: Any) -> Any:
    if one is None or other is None:
        kept = other if one is None else one
        if base is None:
            return kept
        return None if kept == base else dict.fromkeys(kept, UNKNOWN)
    return {
        name: one[name]
        if one[name] == other[name]
        else other[name]
        if base and one[name] == base[name]
        else one[name]
        if base and other[name] == base[name]
        else UNKNOWN
        for name in one
    }


def three_way(base: Any, ours: Any, theirs: Any, choice: str | None) -> Any:
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    if base is None or ours is None or theirs is None:
        if choice is None:
            raise InConflict
        return ours if choice == "ours" else theirs
    merged = {}
    for name in ours:
        if theirs[name] in (base[name], ours[name]):
            merged[name] = ours[name]
        elif ours[name] == base[name]:
            merged[name] = theirs[name]
        elif choice is None:
            raise InConflict
        else:
            merged[name] = (ours if choice == "ours" else theirs)[name]
    return merged


def is_whole(state: State) -> bool:
    ends = [end for kind, key in state if kind == "E" for end in key.split("-")]
    return all(("P", end) in state for end in ends)


@dataclass
class Model:
    heads: dict[str, Commit] = field(default_factory=dict)

    def merge(self, source: str, into: str, choice: str | None) -> State | None:
        """The state after a merge; None if there is nothing to merge."""
        ours, theirs = self.heads[into], self.heads[source]
        if any(commit is theirs for commit in ours.ancestors()):
            return None
        base = base_of(ours, theirs)
        merged: State = {}
        for key in {*base, *ours.state, *theirs.state}:
            row = three_way(base.get(key), ours.state.get(key), theirs.state.get(key), choice)
            if row is not None:
                merged[key] = row
        if not is_whole(merged):
            raise InConflict
        return merged


def shown(graph: hg.Graph, branch: str) -> State:
    base = graph.base(branch=branch)
    found: State = {}
    for name, columns in (("P", ("v", "w")), ("E", ("x",))):
        rows = base.dataset(name).to_table().to_pylist()
        assert len(rows) == base.rows[name]
        found.update({(name, row["id"]): {column: row[column] for column in columns} for row in rows})
        assert len([key for key in found if key[0] == name]) == len(rows)
    return found


def write(graph: hg.Graph, model: Model, operation: Any) -> None:
    branch = operation[1]
    state = {key: dict(row) for key, row in model.heads[branch].state.items()}
    try:
        with graph.transaction(branch=branch) as work:
            match operation:
                case ("put", _, rows):
                    work.merge("P", [{"k": key, "v": v, "w": w} for key, v, w in rows])
                    state.update({("P", str(key)): {"v": v, "w": w} for key, v, w in rows})
                case ("set", _, key, column, value):
                    work.mutate(
                        f"query u($k: I64, $v: I64?) {{ update P set {{ {column}: $v }} where k = $k }}", k=key, v=value
                    )
                    if ("P", str(key)) in state:
                        state["P", str(key)][column] = value
                case ("remove", _, key):
                    work.delete("P", ids=[str(key)])
                    state.pop(("P", str(key)), None)
                    state = {k: row for k, row in state.items() if k[0] == "P" or str(key) not in k[1].split("-")}
                case ("link", _, src, dst, value):
                    work.delete("E", ids=[f"{src}-{dst}"])
                    work.append("E", [{"id": f"{src}-{dst}", "from": src, "to": dst, "x": value}])
                    state["E", f"{src}-{dst}"] = {"x": value}
    except InvalidInput:
        assert not is_whole(state)
        return
    assert work.written is not None
    if work.written.changed:
        model.heads[branch] = Commit(state, (model.heads[branch],))


def merge(graph: hg.Graph, model: Model, source: str, into: str, choice: str | None) -> None:
    if source == into:
        return
    try:
        expected = model.merge(source, into, choice)
    except InConflict:
        if choice is None:
            with pytest.raises(MergeConflict):
                graph.merge(source, into)
            return
        # Which edges or nodes give way is not the model's business: the result has to be whole.
        graph.merge(source, into, resolve=choice)
        expected = shown(graph, into)
        assert is_whole(expected)
    else:
        done = graph.merge(source, into, resolve=choice)
        assert (done.outcome == "up_to_date") == (expected is None)
    if expected is not None:
        model.heads[into] = Commit(expected, (model.heads[into], model.heads[source]))


def check_changes(graph: hg.Graph, model: Model, old: str, new: str) -> None:
    """The changes between two branches turn the one into the other."""
    before, after = model.heads[old].state, model.heads[new].state
    found = {(change.type, change.id): change for change in graph.changes(graph.head(old).id, graph.head(new).id)}
    assert set(found) == {key for key in {*before, *after} if before.get(key) != after.get(key)}
    for key, change in found.items():
        for row, state in ((change.before, before), (change.after, after)):
            told = None if row is None else {name: row[name] for name in row if name in "vwx"}
            assert told == state.get(key)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(script=st.lists(operations, min_size=1, max_size=14), folding=st.booleans())
def test_branches_show_what_the_model_says(script: list[Any], folding: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_SMALL_FRAGMENTS", 2 if folding else 24)
        graph = hg.init(Path(folder) / "graph", SCHEMA)
        model = Model({"main": Commit({})})
        write(graph, model, ("put", "main", [(0, 0, 0), (1, 0, 0)]))
        for name in BRANCHES[1:]:
            graph.create_branch(name)
            model.heads[name] = model.heads["main"]
        for operation in script:
            match operation:
                case ("merge", source, into, choice):
                    merge(graph, model, source, into, choice)
                case ("indices", branch):
                    if graph.ensure_indices(branch=branch).changed:
                        model.heads[branch] = Commit(model.heads[branch].state, (model.heads[branch],))
                case _:
                    write(graph, model, operation)
            for name in BRANCHES:
                assert shown(graph, name) == model.heads[name].state, operation
        check_changes(graph, model, "a", "b")
        check_changes(graph, model, "main", "a")
