"""The phases of a write: lock the branch with a sidecar, commit each table, publish, release.

    A  create the sidecar, put-if-absent; the head must still be its base
    B  commit each table's transaction
    C  publish the manifest
    D  delete the sidecar

Before A nothing is visible and nothing needs undoing. After A the write ends in one of four ways: published; a
Conflict that was read in the manifest, with its effects undone; given up, with its own roll back published; or
OutcomeUnknown, with the sidecar left to recovery.

Every writer goes through `write`. It names its kind (`Writer`), and gives a function that, from the manifest's state,
stages one change per table and says what the publish sets and rests on (`Prepared`):

- a change is `Base.change(type, at, staged)`, which adds a fork where the branch only inherits the table. Forks are
  made in phase B and named in the sidecar; nobody else makes them;
- schema rows, new tables, tombstones, pins without a change and the merged parent are fields of `Prepared`: they ride
  in the same publish, by the writer or by recovery.

The function may be called again if the write is `insert_only` and lost a race before any effect.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headgate.errors import Conflict, Contention, ExpectedHeadMismatch, OutcomeUnknown
from headgate.failpoints import Failpoint, failpoint
from headgate.graph.manifest.publisher import (
    Published,
    TableAt,
    deleted,
    find_publish,
    publish,
    relocated,
    schema_mismatch,
    version_mismatch,
)
from headgate.graph.manifest.rows import Commit, Head, HeadMark
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import commit_at
from headgate.graph.manifest.upkeep import keep_compact_after
from headgate.graph.recovery.heal import heal
from headgate.graph.recovery.owner import at_work, this_process
from headgate.graph.recovery.roll import publish_roll_back, restore_tables, undo_tables
from headgate.graph.recovery.sidecar import PlannedTable, Sidecar
from headgate.graph.store import GraphStore
from headgate.graph.write.land import land
from headgate.graph.write.prepared import Prepared, WriteRequest

PREPARED_AGAIN = 20
"""How often an insert-only write that lost a race before any effect is prepared anew."""
_UNSEEN = 3
"""How often a name is found taken by nothing before the next one is tried. The lock is manners, not safety."""

Prepare = Callable[[ManifestState], Prepared | None]


@dataclass(frozen=True)
class Written:
    """What a write did: its commit, or the head if it changed nothing."""

    commit: str
    changed: bool
    repeated: bool = False
    """An earlier write with the same publish id made the commit."""
    row: Commit | None = field(default=None, repr=False)


class _Waiting:
    """Growing, uneven pauses until a deadline."""

    def __init__(self, store: GraphStore, timeout: float | None) -> None:
        self._clock, self._wait = store.clock, store.wait
        self._until = store.clock.monotonic() + (store.patience.write_timeout if timeout is None else timeout)
        self._pause = 0.002

    def pause(self, why: str) -> None:
        if self._clock.monotonic() > self._until:
            raise Contention(message=why, hint="try again later")
        self._wait(self._pause * random.uniform(0.5, 1.5))
        self._pause = min(self._pause * 2, 0.25)

    def moved(self) -> None:
        """The branch goes on: whoever waits for it looks again soon, or newcomers would always be first."""
        self._pause = 0.002


def write(
    store: GraphStore,
    request: WriteRequest,
    prepare: Prepare,
    *,
    timeout: float | None = None,
    staged_under: str = "",
) -> Written:
    """Prepare a write on the branch's head and make it visible, as one commit or not at all.

    A caller that has staged files before says under which record (`GraphStore.staged_under`).
    """
    if not staged_under:
        with store.staged_under() as record:
            return write(store, request, prepare, timeout=timeout, staged_under=record)
    waiting = _Waiting(store, timeout)
    prepared: Prepared | None = None
    times = 0
    unseen: Counter[HeadMark] = Counter()
    incarnation = request.incarnation
    while True:
        heal(store, request.branch)
        state = store.manifest.state()
        head = _head(state, request.branch, incarnation)
        incarnation = head.incarnation
        first = request.publish_id and find_publish(store.manifest, state, request.publish_id, clock=store.clock)
        if first:
            return Written(first.id, changed=False, repeated=True, row=first)
        _check_condition(request, head)
        if prepared is None:
            prepared, times = prepare(state), times + 1
            if prepared is None:
                return Written(head.commit, changed=False)
            failpoint(Failpoint.GRAPH_STAGED)
        if prepared.moved(state, request.branch):
            if not prepared.insert_only or times > PREPARED_AGAIN:
                raise _lost(state, prepared, request.branch)
            prepared = None
            waiting.moved()
            continue
        sidecar = _sidecar(store, request, prepared, head)
        sidecar = replace(sidecar, staged_under=staged_under, turn=unseen[head.mark] // _UNSEEN)
        with store.locks.named(f"phases:{request.branch}"), at_work(sidecar.operation):
            if store.sidecars.create(sidecar):
                failpoint(Failpoint.GRAPH_SIDECAR_CREATED)
                done = _phases(store, sidecar, prepared, waiting)
                if done is not None:
                    return done
                continue
        if not store.sidecars.is_shown(sidecar):
            # Released just now, and then the head has moved; or never there, and then the name is of no use.
            unseen[head.mark] += 1
        waiting.pause(f"another writer holds branch {request.branch}")


def _head(state: ManifestState, branch: str, incarnation: str | None) -> Head:
    """Where the branch is, if it is still the one that the write was begun on."""
    found = state.find_head(branch)
    if incarnation is not None and (found is None or found.closed or found.incarnation != incarnation):
        raise deleted(branch)
    return state.head(branch)


def _check_condition(request: WriteRequest, head: Head) -> None:
    wanted = request.only_head.commit if request.only_head else request.if_commit
    moved = request.only_head not in (None, head.mark)
    if moved or (request.if_commit and head.commit != request.if_commit):
        raise ExpectedHeadMismatch(
            message=f"branch {request.branch} is not at the commit this write is conditional on",
            branch=request.branch,
            expected=wanted,
            actual=head.commit,
            hint="read the new head and write again",
        )


def _lost(state: ManifestState, prepared: Prepared, branch: str) -> Conflict:
    table, expected, actual = prepared.moved(state, branch) or ("", 0, None)
    if table == "schema":
        return schema_mismatch(branch, expected=expected, actual=actual)
    return version_mismatch(state, table, expected=expected, actual=actual)


def _sidecar(store: GraphStore, request: WriteRequest, prepared: Prepared, head: Head) -> Sidecar:
    return Sidecar(
        operation=store.ids.new(),
        branch=request.branch,
        base=head.mark,
        incarnation=head.incarnation,
        writer=request.writer,
        actor=request.actor,
        owner=this_process(),
        message=request.message,
        publish_id=request.publish_id,
        metadata=dict(request.metadata),
        content=prepared.content,
        # A roll back of what changes no table moves no pin: then only the head can refuse a publish that comes late.
        if_head=bool(request.if_commit or request.only_head or not prepared.changes),
        expected_schema=prepared.schema_order,
        tables=tuple(
            PlannedTable(
                table=change.table,
                path=change.at.path,
                fork=change.expected.fork,
                expected=change.expected.version,
                uuid=change.staged.uuid if change.staged else "",
                rows=change.rows,
                new_fork=change.new_fork,
                origin=TableAt(change.at.version, change.at.fork) if change.new_fork and change.pin else None,
            )
            for change in prepared.changes
        ),
        reads=prepared.reads,
        new_tables=prepared.new_tables,
        shown=dict(prepared.shown),
        removed=prepared.removed,
        merged_parent=prepared.merged_parent,
        schema=prepared.schema,
        ids=prepared.ids,
        replaces=request.replaces,
        onto=request.onto,
        relocates=request.relocates,
    )


def _phases(store: GraphStore, sidecar: Sidecar, prepared: Prepared, waiting: _Waiting) -> Written | None:
    """Phases B to D under the lock; None if the head had moved before the lock was taken."""
    try:
        state = store.manifest.state()
        if not _on_the_head(state, sidecar):
            store.sidecars.delete(sidecar)
            return None
        if sidecar.tables and sidecar.staged_under < state.staging_floor:
            raise _Revoked
        landed = {}
        for change in prepared.changes:
            landed[change.table] = land(store, change)
            failpoint(Failpoint.GRAPH_BETWEEN_TABLES)
        failpoint(Failpoint.GRAPH_TABLES_COMMITTED)
        published = _publish(store, sidecar, landed, waiting)
    except (Conflict, _Repeated) as lost:
        _undo(store, sidecar)
        if isinstance(lost, _Repeated):
            return Written(lost.first.id, changed=False, repeated=True, row=lost.first)
        raise
    except OutcomeUnknown:
        raise
    except _Revoked:
        store.sidecars.delete(sidecar)
        raise Contention(
            message="this writer was taken for dead, and what it had staged was removed", hint="write again"
        ) from None
    except BaseException as error:
        published_after_all = give_up(store, sidecar, error)
        if published_after_all is None:
            raise
        published = published_after_all
    failpoint(Failpoint.GRAPH_PUBLISHED)
    keep_compact_after(store.manifest, published.state)
    store.sidecars.delete(sidecar)
    return Written(published.commit.id, changed=True, row=published.commit)


def _on_the_head(state: ManifestState, sidecar: Sidecar) -> bool:
    """Whether the lock is of use still: a head that moved before it was taken has made its name a dead one."""
    head = state.find_head(sidecar.branch)
    return head is not None and head.mark == sidecar.base


class _Revoked(Exception):
    """Nothing was done yet, and nothing may be: the files may be gone."""


class _Repeated(Exception):
    """Another write with the same publish id was published first."""

    def __init__(self, first: Commit) -> None:
        super().__init__(first.id)
        self.first = first


def _publish(store: GraphStore, sidecar: Sidecar, landed: dict[str, int], waiting: _Waiting) -> Published:
    while True:
        try:
            published = publish(store.manifest, sidecar.publication(landed), clock=store.clock)
        except Contention as error:
            waiting.pause(error.message)
            continue
        if published.repeated:
            raise _Repeated(published.commit)
        return published


def _undo(store: GraphStore, sidecar: Sidecar) -> None:
    """Take a lost write's effects back, to the pins that won, and release the lock."""
    undo_tables(store, sidecar, store.manifest.state())
    store.sidecars.delete(sidecar)


def give_up(store: GraphStore, sidecar: Sidecar, why: BaseException) -> Published | None:
    """End a write that stops after its sidecar exists. None: it is rolled back for good. Else: it was published.

    A recoverer may have read the sidecar already and roll the write forward; only a publish of the roll back, or a
    moved expectation, proves that it can not.
    """
    try:
        restored = restore_tables(store, sidecar, store.manifest.state())
        ended = publish_roll_back(store, sidecar, restored, kind="given_up", movements={}, by_recovery=False)
    except Conflict:
        state = store.manifest.state()
        moved = sidecar.relocates and relocated(
            store.manifest, state, sidecar.operation, branch=sidecar.branch, since=sidecar.base
        )
        if moved:
            return Published(commit_at(store.manifest, state, sidecar.onto), state)
        store.sidecars.delete(sidecar)
        return None
    except Exception as error:
        raise OutcomeUnknown(
            message=f"a write on branch {sidecar.branch} stopped ({why!r}) and could not be rolled back: {error}",
            publish_id=sidecar.operation,
            hint="the next write to the branch finishes or undoes it; look for this commit in the branch's log",
        ) from why
    if ended.commit.id == sidecar.operation:
        return ended
    store.sidecars.delete(sidecar)
    return None
