"""A graph as a task attempt writes it: what the fence sees of its branch, and the three ways to publish.

Commits that change no content, and commits to tables the task does not use, are looked through. What is left decides:
nothing, and the attempt publishes on the new head with the versions it expects; one commit on top of the input ref,
and the publish table asks whether it was abandoned; anything else, and the fence holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from headgate.errors import InvalidInput
from headgate.graph.manifest.publisher import TableAt, refuse_descendants, version_mismatch
from headgate.graph.manifest.rows import Commit, HeadMark
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import ancestors, commit_at, state_at
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base, check_kept
from headgate.graph.write.commit import Written, write
from headgate.graph.write.prepared import Prepared, TableChange, WriteRequest
from headgate.publication import Head, Ref

PrepareOn = Callable[[Base], Prepared | None]
"""Checks the changes of a task against a base, and stages them there."""


def base_at(store: GraphStore, state: ManifestState, ref: str) -> Base:
    """The graph at a commit."""
    found = commit_at(store.manifest, state, ref)
    check_kept(state, found)
    past = state_at(store.manifest, state, found)
    return Base.at(store, past, found.branch, commit=found.id, order=found.order).checked(state)


@dataclass(frozen=True)
class Judged:
    """A head as the fence of a task saw it, and what it stands for in the manifest."""

    head: Head
    mark: HeadMark
    pins: Mapping[str, TableAt]
    """What the branch showed of every table the task uses."""


def judged_head(
    store: GraphStore, branch: str, input_ref: str, types: Collection[str], *, exact: bool = False
) -> Judged:
    """The head of a branch as a task sees it that uses these types; all of them if none are named, or if `exact`."""
    state = store.manifest.state()
    base = Base.of(store, state, branch)
    pins = {base.table_key(name): base.pinned(name) for name in (base.tables if exact or not types else types)}
    seen = _seen(store, state, branch, input_ref, pins.keys())
    return Judged(seen, state.head(branch).mark, pins)


def _seen(store: GraphStore, state: ManifestState, branch: str, input_ref: str, used: Collection[str]) -> Head:
    since: list[Commit] = []
    for commit in ancestors(store.manifest, state, state.head(branch).commit):
        if commit.id == input_ref:
            break
        since.append(commit)
    else:
        newest = since[0]
        return _head(branch, newest, newest.parent)
    content = [commit for commit in since if commit.content]
    touching = [commit for commit in content if not set(used).isdisjoint(commit.tables)]
    if not touching:
        return _head(branch, commit_at(store.manifest, state, input_ref), "")
    newest = touching[0]
    others = [commit for commit in content if commit.id != newest.id]
    return _head(branch, newest, others[0].id if others else input_ref)


def _head(branch: str, commit: Commit, parent: str) -> Head:
    parents = (Ref(parent),) if parent else ()
    return Head(branch=branch, ref=Ref(commit.id), parents=parents, metadata=dict(commit.metadata))


def publish_changes(
    store: GraphStore,
    request: WriteRequest,
    changes: PrepareOn,
    judged: Judged,
    *,
    timeout: float | None = None,
    staged_under: str = "",
) -> Written:
    """Publish on the head, whatever has happened to tables the task does not use."""

    def prepare(state: ManifestState) -> Prepared | None:
        base = Base.of(store, state, request.branch)
        made = changes(base)
        if made is None:
            return None
        changed = {change.table for change in made.changes}
        used = {table: at for table, at in judged.pins.items() if table not in changed}
        _check_unmoved(state, request.branch, judged)
        return replace(made, reads={**made.reads, **used}, insert_only=False)

    return write(store, request, prepare, timeout=timeout, staged_under=staged_under)


def _check_unmoved(state: ManifestState, branch: str, judged: Judged) -> None:
    pins = state.pins(branch)
    for table, at in judged.pins.items():
        pin = pins.get(table)
        if pin is None or (pin.version, pin.fork) != (at.version, at.fork):
            raise version_mismatch(state, table, expected=at.version, actual=pin.version if pin else None)


def publish_instead(
    store: GraphStore,
    request: WriteRequest,
    pending: PrepareOn | None,
    judged: Judged,
    *,
    timeout: float | None = None,
    staged_under: str = "",
) -> Written:
    """Take the place of an abandoned commit: its tables go back to the input ref, and the changes come on top.

    Without changes the head goes back to the input ref, and there is no commit.
    """
    refuse_descendants(store.manifest.state(), request.branch, request.replaces)
    conditional = replace(request, only_head=judged.mark, relocates=pending is None)

    def prepare(state: ManifestState) -> Prepared | None:
        there, back = Base.of(store, state, request.branch), base_at(store, state, request.onto)
        if there.schema_order != back.schema_order:
            raise InvalidInput(message="the schema has changed since the input ref", hint="start a new workflow")
        gone = commit_at(store.manifest, state, request.replaces)
        made = None if pending is None else pending(back)
        changes = {change.table: change for change in made.changes} if made else {}
        names = {there.table_key(name): name for name in there.tables}
        for table in gone.tables:
            changes.setdefault(table, TableChange(table, back.snapshot(names[table]), None))
        pins = {table: there.pinned(names[table]) for table in {*changes, *(made.reads if made else ())}}
        return Prepared(
            changes=tuple(on_pin(there, change, pins[table]) for table, change in sorted(changes.items())),
            reads={table: pins[table] for table in (made.reads if made else ()) if table not in changes},
            schema_order=there.schema_order,
        )

    return write(store, conditional, prepare, timeout=timeout, staged_under=staged_under)


def on_pin(there: Base, change: TableChange, pin: TableAt) -> TableChange:
    """A change that was staged on an earlier version is told what the branch shows now."""
    row = next(row for row, _ in there.tables.values() if row.table == change.table)
    same = (pin.version, pin.fork) == (change.at.version, change.at.fork)
    # What another fork holds cannot be restored on this one: a fork is made of what it was.
    in_place = pin.fork == change.at.fork and there.owns(row, change.at.fork)
    forked = replace(change, new_fork="" if in_place else there.new_fork())
    return forked if same and change.staged is not None else replace(forked, pin=TableAt(pin.version, pin.fork))
