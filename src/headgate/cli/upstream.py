"""What produced a ref, and what that was made of: commits with the attempts behind them, across lakes and graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from headgate.cli.graph_store import GraphVersions
from headgate.cli.stores import LakeStore, ShownCommit
from headgate.errors import HeadgateError, InvalidInput, NotFound

if TYPE_CHECKING:
    from headgate.graph import Graph
    from headgate.lake.stores import OpenStore
    from headgate.orchestrators.machine import Machine
    from headgate.publication import Head, Ref

_MOST_STEPS = 50
"""How far upstream `why` walks; a cycle is impossible, a very long chain is not."""


@dataclass(frozen=True, kw_only=True)
class Produced:
    """One step upstream: a commit, and what is known of who made it."""

    store: str
    ref: str
    created_at: datetime
    message: str
    committer: str
    path: str | None = None
    change: str | None = None
    task: str | None = None
    workflow: str | None = None
    task_id: str | None = None
    retry_count: int | None = None
    accepted: str | None = None
    strength: str | None = None
    code: str | None = None
    inputs: dict[str, str] | None = None


class Source(Protocol):
    """A store whose commits are asked after."""

    store: str
    key: str
    """What a task calls its block: `workspace` or `graph`."""

    def resolve(self, name: str) -> Ref: ...

    def commit(self, ref: Ref) -> ShownCommit: ...

    def last_change(self, ref: Ref, wanted: str) -> tuple[ShownCommit, str]:
        """The newest commit of the first-parent history that changed something, and how."""
        ...


class LakeSource:
    key = "workspace"

    def __init__(self, opened: OpenStore) -> None:
        self.store = opened.store
        self._versions = LakeStore(opened.lake, opened.repository)

    def resolve(self, name: str) -> Ref:
        return self._versions.resolve(name)

    def commit(self, ref: Ref) -> ShownCommit:
        return next(self._versions.log(ref, first_parent=True))

    def last_change(self, ref: Ref, wanted: str) -> tuple[ShownCommit, str]:
        from headgate.publication import Ref

        for commit in self._versions.log(ref, first_parent=True):
            if not commit.parents:
                break
            for change in self._versions.diff(Ref(commit.parents[0]), Ref(commit.ref), prefix=wanted):
                return commit, change.kind
        raise NotFound(
            message=f"nothing in the history of {ref} has changed {wanted!r}",
            hint="`headgate lake ls` lists the paths of a ref",
            kind="path",
            name=wanted,
        )


class GraphSource:
    key = "graph"

    def __init__(self, store: str, graph: Graph) -> None:
        self.store = store
        self._graph = graph
        self._versions = GraphVersions(graph)

    def heads(self) -> list[Head]:
        from headgate.publication import Head, Ref

        found = []
        for branch in self._graph.list_branches():
            commit = self._graph.commit(branch.head)
            parents = (Ref(commit.parent),) if commit.parent else ()
            found.append(Head(branch=branch.name, ref=Ref(commit.id), parents=parents, metadata=dict(commit.metadata)))
        return found

    def resolve(self, name: str) -> Ref:
        return self._versions.resolve(name)

    def commit(self, ref: Ref) -> ShownCommit:
        return next(self._versions.log(ref, first_parent=True))

    def last_change(self, ref: Ref, wanted: str) -> tuple[ShownCommit, str]:
        """`wanted` is a type, or one row of it: `Person:ann`."""
        type_name, asked, row = wanted.partition(":")
        key = self._graph.base(commit=ref).table_key(self._graph.base(commit=ref).type(type_name).name)
        for commit in self._graph.history(ref, first_parent=True):
            if not commit.parent or not commit.content or key not in commit.tables:
                continue
            for change in self._graph.changes(commit.parent, commit.id, types=[type_name]):
                if not asked or change.id == row:
                    return self.commit(self.resolve(commit.id)), change.kind
        raise NotFound(
            message=f"nothing in the history of {ref} has changed {wanted!r}",
            hint="write TYPE, or TYPE:ID with the id of a row",
            kind="row",
            name=wanted,
        )


def source_of(machine: Machine, store: str) -> Source:
    """A store of the settings."""
    if machine.settings.store(store).graph is not None:
        return GraphSource(store, machine.graph(store))
    return LakeSource(machine.lakes.store(store))


def _input(machine: Machine, name: str) -> Source:
    """The store of an input as commits record it: `workspace:REPOSITORY` or `graph:NAME`."""
    kind, _, source = name.partition(":")
    if kind == "graph":
        return source_of(machine, source)
    if kind != "workspace":
        raise InvalidInput(message=f"{name} is no input that is known", hint="look at the commit itself")
    return LakeSource(machine.lakes.of_repository(source))


def upstream(machine: Machine, source: Source, ref: Ref, wanted: str | None) -> Iterator[Produced]:
    """What produced a ref, or what last changed something in it, then what that was made of."""
    from headgate.publication import CommitMetadata, Ref

    waiting: list[tuple[Source, Ref, str | None]] = [(source, ref, wanted)]
    seen: set[tuple[str, str]] = set()
    while waiting and len(seen) < _MOST_STEPS:
        at, start, what = waiting.pop(0)
        commit, change = at.last_change(start, what) if what else (at.commit(start), None)
        if (at.store, commit.ref) in seen:
            continue
        seen.add((at.store, commit.ref))
        yield _produced(machine, at, commit, what, change)
        made_by = CommitMetadata.from_map(commit.metadata)
        for name, input_ref in (made_by.inputs if made_by else {}).items():
            try:
                waiting.append((_input(machine, name), Ref(input_ref), None))
            except HeadgateError:
                continue


def _produced(machine: Machine, source: Source, commit: ShownCommit, path: str | None, change: str | None) -> Produced:
    from headgate.attempts.judging import judge
    from headgate.publication import CommitMetadata, Head, Ref, Replace

    made_by = CommitMetadata.from_map(commit.metadata)
    known: dict[str, Any] = {}
    if made_by is not None:
        parents = tuple(Ref(parent) for parent in commit.parents)
        head = Head(branch="", ref=Ref(commit.ref), parents=parents, metadata=commit.metadata)
        verdict = judge(head, orchestrator=machine.orchestrator, store=source.key, replace=Replace.AUTO)
        dirty = {True: " (changed since)", False: "", None: ""}[made_by.code_dirty]
        known = {
            "task": made_by.task_name or made_by.reference_task,
            "workflow": made_by.workflow,
            "task_id": made_by.task_id,
            "retry_count": made_by.retry_count,
            "accepted": str(verdict.status),
            "strength": str(made_by.strength),
            "code": f"{made_by.code_module} at {made_by.code_commit or 'no commit'}{dirty}",
            "inputs": dict(made_by.inputs),
        }
    return Produced(
        store=source.store,
        ref=str(commit.ref),
        created_at=commit.created_at,
        message=commit.message,
        committer=commit.committer,
        path=path,
        change=change,
        **known,
    )
