"""The embedded lake beside a plain model of it, driven at random."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from headgate.errors import ExpectedHeadMismatch, InvalidInput, MergeConflict, NotFound
from headgate.lake import MAIN, Changes, EmbeddedLake
from headgate.lake.tree import order
from headgate.publication import Ref

Contents = dict[str, bytes]

PATHS = st.builds("/".join, st.lists(st.sampled_from(["a", "b", "c", "d-e", "é"]), min_size=1, max_size=3))
DATA = st.sampled_from([b"", b"1", b"2", b"3"])


class LakeAndModel(RuleBasedStateMachine):
    """The model: each commit is a dict and its parents; each branch is a name for a commit."""

    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.lake = EmbeddedLake(self.folder / "lake", create=True, durable=False)
        self.commits: dict[Ref, tuple[Contents, tuple[Ref, ...]]] = {}
        self.heads: dict[str, Ref] = {}
        self.names = 0

    def teardown(self) -> None:
        assert self.lake.verify().whole
        self.lake.close()
        shutil.rmtree(self.folder)

    @initialize(target=branches)
    def repository(self) -> str:
        first = self.lake.create_repository("r")
        self.commits[first] = ({}, ())
        self.heads[MAIN] = first
        return MAIN

    @rule(target=branches, source=branches, staging=st.booleans())
    def branch(self, source: str, staging: bool) -> str:
        self.names += 1
        name = f"{'headgate-' if staging else ''}b{self.names}"
        self.lake.create_branch("r", name, at=self.heads[source])
        self.heads[name] = self.heads[source]
        return name

    @rule(target=branches, name=consumes(branches))
    def delete(self, name: str) -> object:
        if name == MAIN:
            return MAIN
        assert self.lake.delete_branch("r", name) is True
        del self.heads[name]
        with pytest.raises(NotFound):
            self.lake.head("r", name)
        return multiple()

    @rule(name=branches, puts=st.dictionaries(PATHS, DATA, max_size=4), deletes=st.sets(PATHS, max_size=3))
    def commit(self, name: str, puts: Contents, deletes: set[str]) -> None:
        deletes -= puts.keys()
        parent = self.heads[name]
        before = self.commits[parent][0]
        after = {path: data for path, data in {**before, **puts}.items() if path not in deletes}
        changes = Changes(puts=puts, deletes=deletes)
        if after == before:
            with pytest.raises(InvalidInput):
                self.lake.commit("r", name, changes, message="m")
            return
        ref = self.lake.commit("r", name, changes, message="m")
        self.commits[ref] = (after, (parent,))
        self.heads[name] = ref

    @rule(source=branches, into=branches, squash=st.booleans(), stale=st.booleans())
    def merge(self, source: str, into: str, squash: bool, stale: bool) -> None:
        theirs, ours = self.heads[source], self.heads[into]
        if stale and self.commits[ours][1]:
            with pytest.raises(ExpectedHeadMismatch):
                self.lake.merge("r", source, into, expected_head=self.commits[ours][1][0], message="m")
            return
        expected = self.merged(ours, theirs)
        nothing = expected == self.commits[ours][0] if squash else theirs == ours
        if expected is None:
            with pytest.raises(MergeConflict):
                self.lake.merge("r", source, into, expected_head=ours, message="m", squash=squash)
        elif nothing:
            with pytest.raises(InvalidInput):
                self.lake.merge("r", source, into, expected_head=ours, message="m", squash=squash)
        else:
            ref = self.lake.merge("r", source, into, expected_head=ours, message="m", squash=squash)
            self.commits[ref] = (expected, (ours,) if squash else (ours, theirs))
            self.heads[into] = ref

    def merged(self, ours: Ref, theirs: Ref) -> Contents | None:
        """What the merge has, from the base that the lake itself chose; None for a conflict."""
        base = self.commits[self.base(ours, theirs)][0]
        mine, other = self.commits[ours][0], self.commits[theirs][0]
        result: Contents = {}
        for path in base.keys() | mine.keys() | other.keys():
            was, one, two = base.get(path), mine.get(path), other.get(path)
            if one == two or two == was:
                kept = one
            elif one == was:
                kept = two
            else:
                return None
            if kept is not None:
                result[path] = kept
        return result

    def base(self, one: Ref, two: Ref) -> Ref:
        common = self.ancestors(one) & self.ancestors(two)
        depth = {ref: self.depth(ref) for ref in common}
        deepest = [ref for ref in common if depth[ref] == max(depth.values())]
        return min(deepest)  # equally good ones: any order will do, as long as it is one

    def ancestors(self, ref: Ref) -> set[Ref]:
        found, waiting = set(), [ref]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += self.commits[at][1]
        return found

    def depth(self, ref: Ref) -> int:
        return 1 + max((self.depth(parent) for parent in self.commits[ref][1]), default=0)

    @rule(target=branches, name=branches, to=branches)
    def move(self, name: str, to: str) -> object:
        assert self.lake.move_head("r", name, to_branch=to, expected_head=self.heads[name]) == self.heads[to]
        self.heads[name] = self.heads[to]
        return multiple()

    @rule()
    def collect_garbage(self) -> None:
        self.lake.gc()
        kept = set().union(*(self.ancestors(ref) for ref in self.heads.values()))
        for ref in set(self.commits) - kept:
            with pytest.raises(NotFound):
                self.lake.commit_at("r", ref)
            del self.commits[ref]

    @rule(one=branches, two=branches)
    def diff(self, one: str, two: str) -> None:
        old, new = self.commits[self.heads[one]][0], self.commits[self.heads[two]][0]
        found = {change.path: change.kind.value for change in self.lake.diff("r", self.heads[one], self.heads[two])}
        assert found == {
            path: "added" if path not in old else "removed" if path not in new else "changed"
            for path in old.keys() | new.keys()
            if old.get(path) != new.get(path)
        }

    @rule(name=branches, prefix=PATHS)
    def listing(self, name: str, prefix: str) -> None:
        contents = self.commits[self.heads[name]][0]
        expected = [p for p in sorted(contents, key=order) if p == prefix or p.startswith(prefix + "/")]
        assert [item.path for item in self.lake.objects("r", self.heads[name], prefix=prefix)] == expected

    @invariant()
    def same_branches(self) -> None:
        if self.heads:
            assert {branch.name: branch.ref for branch in self.lake.branches("r")} == self.heads

    @invariant()
    def same_contents(self) -> None:
        for ref in set(self.heads.values()):
            found = {}
            for item in self.lake.objects("r", ref):
                with self.lake.open("r", ref, item.path) as file:
                    found[item.path] = file.read()
            assert found == self.commits[ref][0]


LakeAndModel.TestCase.settings = settings(max_examples=25, stateful_step_count=30)
TestLakeAndModel = pytest.mark.slow(LakeAndModel.TestCase)
