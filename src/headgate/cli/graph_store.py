"""A graph as the commands for every store see it: branches, commits, and the tables in which two commits differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headgate.cli.stores import ShownBranch, ShownChange, ShownCommit, ShownMerge
from headgate.errors import NotFound, Unsupported
from headgate.publication import Ref

if TYPE_CHECKING:
    from headgate.graph import Graph
    from headgate.graph.changes.between import TableCounts
    from headgate.graph.merge import Merged

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

    def merge(
        self, source: str, into: str, *, message: str, squash: bool, resolve: Mapping[str, str] | None = None
    ) -> ShownMerge:
        if squash:
            raise Unsupported(message="a merge of a graph has two parents", hint="leave --squash out")
        return _shown(self._graph.merge(source, into, message=message, resolve=resolve))

    def plan_merge(self, source: str, into: str, *, resolve: Mapping[str, str] | None = None) -> ShownMerge:
        return _shown(self._graph.plan_merge(source, into, resolve=resolve))

    def log(self, ref: Ref, *, first_parent: bool) -> Iterator[ShownCommit]:
        for commit in self._graph.history(ref, first_parent=first_parent):
            yield ShownCommit(
                ref=commit.id,
                parents=tuple(parent for parent in (commit.parent, commit.merged_parent) if parent),
                message=commit.message or commit.writer,
                committer=commit.actor,
                created_at=commit.time,
                metadata={**commit.metadata, **({"publish_id": commit.publish_id} if commit.publish_id else {})},
            )

    def diff(self, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[ShownChange]:
        counts = self._graph.changes(old, new).counts()
        before, after = self._graph.base(commit=old), self._graph.base(commit=new)
        for name in sorted({*before.tables, *after.tables}):
            if not name.startswith(prefix):
                continue
            if name not in before.tables or name not in after.tables:
                yield ShownChange(kind="added" if name in after.tables else "removed", what=name)
            elif name in counts:
                yield ShownChange(kind="changed", what=name, detail=_told(counts[name], after.rows[name]))


def _told(counts: TableCounts, rows: int) -> str:
    signs = (("+", counts.added), ("~", counts.changed), ("-", counts.removed))
    return f"{rows:,} rows ({' '.join(f'{sign}{count:,}' for sign, count in signs if count)})"


def _shown(merged: Merged) -> ShownMerge:
    changes = tuple(
        ShownChange(kind="changed", what=name, detail=f"+{counts.added} ~{counts.changed} -{counts.removed} rows")
        for name, counts in merged.tables.items()
    )
    return ShownMerge(
        ref=merged.commit,
        source=merged.source,
        outcome=str(merged.outcome),
        changes=changes,
        conflicts=merged.conflicts,
    )
