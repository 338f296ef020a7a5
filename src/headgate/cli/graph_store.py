"""A graph as the commands for every store see it: branches, commits, and the tables in which two commits differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.cli.stores import ShownBranch, ShownChange, ShownCommit
from headgate.errors import NotFound, Unsupported
from headgate.publication import Ref

if TYPE_CHECKING:
    from headgate.graph import Graph

_SHORTEST = 4
"""The least that may be written of a ref."""


class GraphVersions:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def resolve(self, name: str) -> Ref:
        if name in self._graph.branches():
            return Ref(self._graph.head(name).id)
        try:
            return Ref(self._graph.commit(name).id)
        except NotFound:
            found = {commit.id for branch in self._graph.branches() for commit in self._graph.log(branch)}
            begun = [ref for ref in found if len(name) >= _SHORTEST and ref.startswith(name.upper())]
            if len(begun) != 1:
                raise
            return Ref(begun[0])

    def branches(self) -> Iterator[ShownBranch]:
        for name in self._graph.branches():
            yield ShownBranch(name=name, ref=self._graph.head(name).id)

    def create_branch(self, name: str, *, at: Ref) -> None:
        self._graph.create_branch(name, at=at)

    def delete_branch(self, name: str) -> bool:
        self._graph.delete_branch(name)
        return True

    def merge(self, source: str, into: str, *, message: str, squash: bool) -> Ref:
        raise _no_branches()

    def log(self, ref: Ref, *, first_parent: bool) -> Iterator[ShownCommit]:
        for commit in self._graph.ancestors(ref):
            yield ShownCommit(
                ref=commit.id,
                parents=tuple(parent for parent in (commit.parent, commit.merged_parent) if parent),
                message=commit.message or commit.writer,
                committer=commit.actor,
                created_at=commit.time,
                metadata={**commit.metadata, **({"publish_id": commit.publish_id} if commit.publish_id else {})},
            )

    def diff(self, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[ShownChange]:
        before, after = self._graph.base(commit=old), self._graph.base(commit=new)
        for name in sorted({*before.tables, *after.tables}):
            if not name.startswith(prefix):
                continue
            was, now = before.tables.get(name), after.tables.get(name)
            if was is None or now is None:
                yield ShownChange(kind="added" if was is None else "removed", what=name)
            elif (was[1].version, was[1].fork) != (now[1].version, now[1].fork):
                yield ShownChange(kind="changed", what=name, detail=_told(was[1].rows, now[1].rows))


def _told(before: int, after: int) -> str:
    moved = f" ({after - before:+,})" if after != before else ""
    return f"{after:,} rows{moved}"


def _no_branches() -> Unsupported:
    return Unsupported(message="branches of a graph are not made here yet", hint="write to main")
