"""Trees of objects: one tree a set, whatever way it was made, and a cost that is the change's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.lake.interface import LakeObject
from headgate.lake.tree import EMPTY, Built, Root, Tree, compare, order


class Memory:
    """Nodes in a dict, counting what is loaded."""

    def __init__(self) -> None:
        self.nodes = dict(EMPTY.new)
        self.loads = 0

    def load(self, node: str) -> bytes:
        self.loads += 1
        return self.nodes[node]

    def keep(self, built: Built) -> Root:
        self.nodes.update(built.new)
        return built.root


def item(path: str, content: int = 0) -> LakeObject:
    return LakeObject(path, content, f"{content:064x}")


def made_of(memory: Memory, contents: dict[str, int]) -> Root:
    return memory.keep(Tree(memory, EMPTY.root).edit({path: item(path, c) for path, c in contents.items()}))


PATHS = st.text(st.sampled_from("ab/é0.z"), min_size=1, max_size=6)
CONTENTS = st.dictionaries(PATHS, st.integers(0, 3), max_size=300)
MANY = st.builds(
    lambda seed, size: {f"{random.Random(seed + n).randrange(1200):04d}": n % 4 for n in range(size)},
    st.integers(0, 10_000),
    st.integers(0, 700),
)


@given(st.one_of(CONTENTS, MANY), st.one_of(CONTENTS, MANY), st.sets(st.integers(0, 1200), max_size=300))
@settings(max_examples=150, deadline=None)
def test_edited_tree_is_the_tree_of_its_contents(
    before: dict[str, int], puts: dict[str, int], removed: set[int]
) -> None:
    memory = Memory()
    edits: dict[str, LakeObject | None] = {path: item(path, c) for path, c in puts.items()}
    paths = sorted(before)
    for number in removed:
        if number < len(paths) and paths[number] not in puts:
            edits[paths[number]] = None
    after = {path: c for path, c in {**before, **puts}.items() if edits.get(path, ...) is not None}
    old = made_of(memory, before)
    new = memory.keep(Tree(memory, old).edit(edits))

    assert new == made_of(memory, after)
    assert [o.path for o in Tree(memory, new).objects()] == sorted(after, key=order)
    assert {path: (a and a.size, b and b.size) for path, a, b in compare(memory, old, new)} == {
        path: (before.get(path), after.get(path))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }
    for path in list(after)[:5]:
        assert Tree(memory, new).find(path) == item(path, after[path])
    assert Tree(memory, new).find("no such path") is None


@given(CONTENTS, PATHS)
@settings(max_examples=200, deadline=None)
def test_prefix_is_of_whole_segments(contents: dict[str, int], prefix: str) -> None:
    memory = Memory()
    root = made_of(memory, contents)
    expected = [p for p in sorted(contents, key=order) if p == prefix or p.startswith(prefix + "/")]
    assert [o.path for o in Tree(memory, root).objects(prefix)] == expected


@pytest.mark.parametrize("name", ["{n:06d}", "folder/{n:06d}", "{m:03d}/{n:06d}"])
def test_cost_of_a_change_hardly_grows_with_the_set(name: str) -> None:
    """Invariant 8: in 50 times as many files, ten changes load and write at most 4 times the nodes."""
    costs = []
    for size in (1_000, 50_000):
        memory = Memory()
        paths = [name.format(n=n, m=n % 100) for n in range(size)]
        root = made_of(memory, dict.fromkeys(paths, 0))
        chosen = random.Random(7).sample(paths, 10)
        memory.loads = 0
        built = Tree(memory, root).edit({path: item(path, 1) for path in chosen})
        memory.keep(built)
        changed_loads = memory.loads
        memory.loads = 0
        assert len(list(compare(memory, root, built.root))) == 10
        costs.append((changed_loads, len(built.new), memory.loads))
    small, large = costs
    assert all(b <= 4 * a for a, b in zip(small, large, strict=True)), costs
