"""Create and delete branches: one merge of the manifest each, whatever the size of the graph.

A branch is its head row: the branch it was made from, up to which order it shows that one's rows, and above which
order its own begin. Deleting marks the row; a branch made later under the same name is another one, with another
incarnation and higher orders, and what was begun on the old one is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.errors import AlreadyExists, Conflict, Contention, HeadgateError, InvalidInput, OutcomeUnknown
from headgate.graph.manifest.migrate import migrate_heads
from headgate.graph.manifest.rows import Fork, Head, Row
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import MergeContended, MergeUnknown
from headgate.graph.manifest.travel import commit_at, state_at
from headgate.graph.manifest.upkeep import keep_compact_after
from headgate.graph.recovery.heal import heal
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base, check_kept
from headgate.lake.paths import check_name

MAIN = "main"
_TRIES = 20
_T = TypeVar("_T")


@dataclass(frozen=True)
class Branch:
    """A branch as people see it: its name, its head, and the branch it was made from."""

    name: str
    head: str
    parent: str = ""


def list_branches(state: ManifestState) -> list[Branch]:
    found = (state.head(name) for name in state.branches)
    return [Branch(head.branch, head.commit, head.parent_branch) for head in found]


def create_branch(store: GraphStore, name: str, at: str = MAIN) -> Branch:
    """A branch that starts at the head of another, or at a commit. No table is touched."""
    check_name("branch", name)
    incarnation = store.ids.new()
    past = False

    def attempt(state: ManifestState) -> Branch | list[Row]:
        nonlocal past
        taken = state.find_head(name)
        if taken is not None and taken.incarnation == incarnation:
            return Branch(name, taken.commit, taken.parent_branch)
        if taken is not None and not taken.closed:
            raise AlreadyExists(
                message=f"there is a branch {name} already", kind="branch", name=name, hint="choose another name"
            )
        parent, commit, order = _start(store, state, at)
        past = order != parent.order
        inherited = max(parent.order, taken.order if taken else 0)
        head = Head(
            branch=name,
            order=inherited + 1,
            commit=commit,
            parent_branch=parent.branch,
            base_order=order,
            inherited=inherited,
            format=parent.format,
            incarnation=incarnation,
        )
        # Two rows are written again as they are stored: the parent's, so that this meets its deletion, and the
        # format's, so that all that make a branch meet.
        stored = store.manifest.stored().rows
        return [head, stored[parent.object_id], stored["format"], *([Fork.of(taken)] if taken else [])]

    made = _merged(store, attempt, f"create branch {name}")
    if past:
        _check_readable(store, made)
    return made


def _start(store: GraphStore, state: ManifestState, at: str) -> tuple[Head, str, int]:
    """The branch to inherit from, the commit, and the order up to which that branch's rows are shown."""
    found = state.find_head(at)
    if found is not None and not found.closed:
        return found, found.commit, found.order
    commit = commit_at(store.manifest, state, at)
    made_on = state.incarnation(commit.branch, commit.order)
    if not isinstance(made_on, Head) or made_on.closed:
        raise InvalidInput(
            message=f"commit {at} was made on branch {commit.branch}, which has been deleted",
            hint="start at a commit of a branch that exists",
        )
    return made_on, commit.id, commit.order


def _check_readable(store: GraphStore, made: Branch) -> None:
    """A branch from an old commit is there before it is checked, so that cleanup sees it or it sees the cleanup."""
    state = store.manifest.state()
    try:
        found = commit_at(store.manifest, state, made.head)
        past = state_at(store.manifest, state, found)
        check_kept(state, found)
        base = Base.at(store, past, found.branch, commit=found.id, order=found.order).checked(state)
        for name in base.tables:
            base.snapshot(name)
    except HeadgateError:
        delete_branch(store, made.name)
        raise


def delete_branch(store: GraphStore, name: str) -> Branch:
    """Take a branch away. Its files stay until a cleanup finds that nothing needs them."""
    if name == MAIN:
        raise InvalidInput(message="the branch main cannot be deleted", hint="delete another, or the whole graph")
    before = store.manifest.state().head(name)
    if heal(store, name):
        raise Conflict(message=f"a writer is at work on branch {name}", hint="wait until it has finished")

    def attempt(state: ManifestState) -> Branch | list[Row]:
        head = state.find_head(name)
        if head is None or head.incarnation != before.incarnation or head.closed:
            return Branch(name, before.commit, before.parent_branch)
        children = [child.branch for child in _heads(state) if _descends(child, head)]
        if children:
            raise Conflict(
                message=f"branches were made from {name}: {', '.join(sorted(children))}", hint="delete them first"
            )
        return [replace(head, closed=True, order=head.order + 1)]

    return _merged(store, attempt, f"delete branch {name}")


def _heads(state: ManifestState) -> list[Head]:
    return [state.head(name) for name in state.branches]


def _descends(child: Head, parent: Head) -> bool:
    return child.parent_branch == parent.branch and child.base_order > parent.inherited


def _merged(store: GraphStore, attempt: Callable[[ManifestState], _T | list[Row]], doing: str) -> _T:
    """Merge what `attempt` asks for until it answers with its result, which it reads in the manifest."""
    in_doubt = ""
    for _ in range(_TRIES):
        state = store.manifest.state()
        store.manifest.formats.check(state)
        wanted = attempt(state)
        if not isinstance(wanted, list):
            return wanted
        if migrate_heads(store.manifest, wanted):
            continue
        try:
            state = store.manifest.merge(state, wanted)
        except MergeContended:
            continue
        except MergeUnknown as error:
            in_doubt = str(error) or repr(error)
            continue
        done = attempt(state)
        if not isinstance(done, list):
            keep_compact_after(store.manifest, state)
            return done
    if in_doubt:
        raise OutcomeUnknown(message=f"the answer was lost to: {doing}: {in_doubt}", hint="list the branches")
    raise Contention(message=f"other writers were first in all tries to {doing}", tries=_TRIES, hint="try again later")
