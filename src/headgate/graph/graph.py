"""A graph, opened: read it at a commit, change it in one step or in a transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, overload

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import InvalidInput, Unsupported
from headgate.graph.branches import Branch, create_branch, delete_branch, list_branches
from headgate.graph.branches.making import MAIN
from headgate.graph.changes import Changes, FeedEntry, changes_between, feed
from headgate.graph.evolve.apply import AppliedSchema, PlannedSchema, apply_schema, newly_indexed, plan_schema
from headgate.graph.load.load import Loaded, load
from headgate.graph.load.load import check as check_rows
from headgate.graph.load.loader import LoadMode
from headgate.graph.load.sources import Source
from headgate.graph.manifest.migrate import migrate
from headgate.graph.manifest.publisher import find_publish
from headgate.graph.manifest.rows import Commit
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import ancestors, commit_at, commit_at_time, history_of, state_at
from headgate.graph.merge import Merged, MergeRequest, merge_branch, plan_merge
from headgate.graph.merge.bases import Commits
from headgate.graph.pipeline import FrameTransaction, pipeline
from headgate.graph.read.result import QueryResult
from headgate.graph.read.snapshot import Snapshot
from headgate.graph.recovery.heal import heal
from headgate.graph.recovery.writers import Writer
from headgate.graph.schema.model import Schema
from headgate.graph.storage import Location
from headgate.graph.store import GraphStore, Patience
from headgate.graph.upkeep.cleanup import GRACE, KEEP, OLDER_THAN, Cleaned, cleanup
from headgate.graph.upkeep.indices import INDEXED_FROM, ensure_indices, index_after
from headgate.graph.upkeep.optimize import Optimized, optimize
from headgate.graph.upkeep.optimize import look as look_at_upkeep
from headgate.graph.upkeep.repair import Drift, find_drift, repair
from headgate.graph.upkeep.runs import upkeep_run
from headgate.graph.upkeep.verify import Verified, verify
from headgate.graph.write.base import Base, check_kept
from headgate.graph.write.commit import Written, write
from headgate.graph.write.create import create_graph
from headgate.graph.write.mutate import Affected, apply
from headgate.graph.write.pending import Pending
from headgate.graph.write.prepare import check_pending, prepare_pending
from headgate.graph.write.prepared import Prepared, WriteRequest
from headgate.graph.write.rewind import plan_rewind, rewind_branch
from headgate.graph.write.statements import mutation
from headgate.graph.write.transaction import Transaction
from headgate.ids import ULIDS, IdSource

Mode = Literal["rw", "ro"]


@dataclass(frozen=True)
class Mutated:
    """What a mutation did: its commit (the head, if nothing changed) and how many rows it touched."""

    commit: str
    changed: bool
    affected: Affected
    repeated: bool = False


class Graph:
    """One graph. Threads may share it; close it, or use it as a context manager, to let its handles go."""

    def __init__(self, store: GraphStore, mode: Mode) -> None:
        self._store = store
        self._mode = mode

    @property
    def store(self) -> GraphStore:
        """The parts this graph is made of, for what is built on it."""
        return self._store

    @property
    def uri(self) -> str:
        return str(self._store.location)

    @property
    def mode(self) -> Mode:
        return self._mode

    # -------- looking

    def head(self, branch: str = MAIN) -> Commit:
        state = self._store.manifest.state()
        return commit_at(self._store.manifest, state, state.head(branch).commit)

    def branches(self) -> tuple[str, ...]:
        return self._store.manifest.state().branches

    def commit(self, ref: str) -> Commit:
        return commit_at(self._store.manifest, self._store.manifest.state(), ref)

    def find_publish(self, publish_id: str) -> Commit | None:
        """The commit that a write with this publish id made; None if there is none, or it is long ago."""
        return find_publish(self._store.manifest, self._store.manifest.state(), publish_id, clock=self._store.clock)

    def log(self, branch: str = MAIN) -> Iterator[Commit]:
        """The commits of a branch, newest first."""
        return history_of(self._store.manifest, self._store.manifest.state(), branch)

    def ancestors(self, ref: str) -> Iterator[Commit]:
        """A commit and what it was made on, parent by parent."""
        return ancestors(self._store.manifest, self._store.manifest.state(), ref)

    def schema(self, branch: str = MAIN) -> Schema:
        return self.base(branch=branch).schema

    def base(self, *, branch: str | None = None, commit: str | None = None, time: datetime | None = None) -> Base:
        """What a snapshot reads, and a write is made from."""
        manifest = self._store.manifest
        state = manifest.state()
        if commit is not None:
            if branch is not None or time is not None:
                raise InvalidInput(message="a commit already says what to read", hint="give commit, branch or time")
            found = commit_at(manifest, state, commit)
        elif time is not None:
            found = commit_at_time(manifest, state, branch or MAIN, time)
        else:
            return Base.of(self._store, state, branch or MAIN)
        head = state.find_head(found.branch)
        if head is None or head.commit != found.id:
            # Written down first, then looked at: so a cleanup sees the reader, or the reader the cleanup.
            self._store.leases.take(found.id)
            state = manifest.state()
            check_kept(state, found)
        past = state_at(manifest, state, found)
        return Base.at(self._store, past, found.branch, commit=found.id, order=found.order).checked(state)

    def changes(self, old: str, new: str, *, types: Collection[str] | None = None) -> Changes:
        """What turns one commit into another: every row that differs, as it was and as it is."""
        return changes_between(self.base(commit=old), self.base(commit=new), types)

    def feed(
        self, branch: str = MAIN, *, after: str | None = None, types: Collection[str] | None = None
    ) -> Iterator[FeedEntry]:
        """The changes of a branch commit by commit, after a cursor or from its first commit on.

        Each entry has the cursor to go on from. A cursor on a commit that was replaced first yields the reverse of
        it, marked `reverses`.
        """
        for name in types or ():
            self.base(branch=branch).type(name)
        state = self._store.manifest.state()
        return feed(self._store, state, branch, after=after, types=types, base_of=lambda ref: self.base(commit=ref))

    def history(self, ref: str, *, first_parent: bool = False) -> Iterator[Commit]:
        """A commit and its ancestors, merged ones included, each after all its children."""
        state = self._store.manifest.state()
        commit_at(self._store.manifest, state, ref)
        return Commits(self._store.manifest, state).newest_first(ref, first_parent=first_parent)

    def snapshot(
        self, *, branch: str | None = None, commit: str | None = None, time: datetime | None = None
    ) -> Snapshot:
        """The graph as it is or was, for reading."""
        return Snapshot(self.base(branch=branch, commit=commit, time=time))

    def query(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        time: datetime | None = None,
    ) -> QueryResult:
        """The result of a read at the head of a branch, at a commit, or as a branch was at a time."""
        return self.snapshot(branch=branch, commit=commit, time=time).query(text, params, name=name)

    def sql(self, text: str, params: Mapping[str, Any] | None = None, *, branch: str | None = None) -> QueryResult:
        """The result of a SELECT over the types as views, at the head of a branch."""
        return self.snapshot(branch=branch).sql(text, params)

    # -------- branches

    def list_branches(self) -> list[Branch]:
        """The branches with their heads and what they were made from."""
        return list_branches(self._store.manifest.state())

    def create_branch(self, name: str, *, at: str = MAIN) -> Branch:
        """A branch that starts at the head of another, or at a commit; nothing is copied."""
        self._check_writable()
        return create_branch(self._store, name, at)

    def delete_branch(self, name: str) -> Branch:
        """Take a branch away; refused while others were made from it, or while a writer is at work on it."""
        self._check_writable()
        return delete_branch(self._store, name)

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Mapping[str, str] | str | None = None,
        actor: str = "",
        message: str = "",
        publish_id: str = "",
        if_commit: str = "",
    ) -> Merged:
        """Bring a branch, or a commit, into a branch as one commit; `MergeConflict` lists what is in the way.

        `resolve` chooses `"ours"` or `"theirs"` where both cannot be, for all types or by type.
        """
        self._check_writable()
        request = MergeRequest(
            source=source,
            into=into,
            resolve=resolve,
            actor=actor,
            message=message,
            publish_id=publish_id,
            if_commit=if_commit,
        )
        return merge_branch(self._store, request)

    def plan_merge(self, source: str, into: str = MAIN, *, resolve: Mapping[str, str] | str | None = None) -> Merged:
        """What a merge would do to the present head, with its conflicts and nothing written."""
        return plan_merge(self._store, MergeRequest(source=source, into=into, resolve=resolve))

    def plan_rewind(self, to: str, *, branch: str = MAIN) -> bool:
        """Whether a rewind would change what is shown; raises what `rewind` would raise, with nothing written."""
        return plan_rewind(self._store, self._store.manifest.state(), branch, to) is not None

    def rewind(
        self, to: str, *, branch: str = MAIN, actor: str = "", message: str = "", if_commit: str = ""
    ) -> Written:
        """Show again what a branch showed at an earlier commit of its own, as a new commit."""
        self._check_writable()
        request = WriteRequest(
            branch=branch,
            writer=Writer.REWIND,
            actor=actor,
            message=message or f"Rewind to {to}",
            if_commit=if_commit,
        )
        return rewind_branch(self._store, request, to)

    # -------- changing

    def mutate(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        branch: str = MAIN,
        actor: str = "",
        message: str = "",
        publish_id: str = "",
        if_commit: str = "",
    ) -> Mutated:
        """Run a mutation query as one commit."""
        self._check_writable()
        request = WriteRequest(
            branch=branch,
            writer=Writer.MUTATE,
            actor=actor,
            message=message,
            publish_id=publish_id,
            if_commit=if_commit,
        )
        affected = Affected()

        def prepare(state: ManifestState) -> Prepared | None:
            nonlocal affected
            base = Base.of(self._store, state, branch)
            pending = Pending(base.schema, base.snapshot)
            checked = mutation(text, base.schema, name=name)
            affected = apply(pending, checked.bind(params), self._store.ids)
            return prepare_pending(base, pending, insert_only=pending.insert_only)

        known = self._store.manifest.known()
        if known.find_head(branch) is None:
            known = self._store.manifest.state()
        base = Base.of(self._store, known, branch)
        touched = {statement.table.name for statement in mutation(text, base.schema, name=name).statements}
        with ExitStack() as queues:
            for lock in self._store.locks.all_of([f"{branch}/{table}" for table in touched]):
                queues.enter_context(lock)
            written = write(self._store, request, prepare)
        return Mutated(written.commit, written.changed, affected, written.repeated)

    def check_mutation(
        self, text: str, params: Mapping[str, Any] | None = None, *, name: str = "", branch: str = MAIN
    ) -> Affected:
        """What a mutation would do to the present head, with all its checks and nothing written."""
        base = self.base(branch=branch)
        pending = Pending(base.schema, base.snapshot)
        affected = apply(pending, mutation(text, base.schema, name=name).bind(params), self._store.ids)
        check_pending(base, pending)
        return affected

    def check_load(
        self,
        *sources: Source,
        mode: LoadMode | str = LoadMode.APPEND,
        type_name: str | None = None,
        branch: str = MAIN,
        rejects: Path | None = None,
    ) -> dict[str, int]:
        """The rows a load would bring, with all its checks and nothing written."""
        chosen = _load_mode(mode)
        return check_rows(self._store, sources, mode=chosen, branch=branch, type_name=type_name, rejects=rejects)

    def load(
        self,
        *sources: Source,
        mode: LoadMode | str = LoadMode.APPEND,
        type_name: str | None = None,
        branch: str = MAIN,
        actor: str = "",
        message: str = "",
        publish_id: str = "",
        if_commit: str = "",
        rejects: Path | None = None,
    ) -> Loaded:
        """Load rows from files or Arrow as one commit; with one bad row nothing is loaded and every one is named."""
        self._check_writable()
        request = WriteRequest(
            branch=branch, writer=Writer.LOAD, actor=actor, message=message, publish_id=publish_id, if_commit=if_commit
        )
        chosen = _load_mode(mode)
        loaded = load(self._store, sources, mode=chosen, request=request, type_name=type_name, rejects=rejects)
        if loaded.changed:
            index_after(self._store, branch, list(loaded.rows), at_least=INDEXED_FROM)
        return loaded

    def plan_schema(
        self, text: str, *, branch: str = MAIN, name: str = "schema", allow_data_loss: bool = False
    ) -> PlannedSchema:
        """What the change to the schema of a text would do, and what stands in its way; nothing is written."""
        state = self._store.manifest.state()
        return plan_schema(self._store, state, branch, text, name=name, allow_data_loss=allow_data_loss)

    def apply_schema(
        self,
        text: str,
        *,
        branch: str = MAIN,
        name: str = "schema",
        allow_data_loss: bool = False,
        actor: str = "",
        message: str = "",
        publish_id: str = "",
        if_commit: str = "",
    ) -> AppliedSchema:
        """Bring a branch to the schema that a text declares, as one commit; refused with every reason why not."""
        self._check_writable()
        request = WriteRequest(
            branch=branch,
            writer=Writer.SCHEMA,
            actor=actor,
            message=message or "change the schema",
            publish_id=publish_id,
            if_commit=if_commit,
        )
        applied = apply_schema(self._store, text, request=request, name=name, allow_data_loss=allow_data_loss)
        if applied.changed and (indexed := newly_indexed(applied.steps)):
            index_after(self._store, branch, indexed)
        if applied.let_go:
            cleanup(self._store, keep=1, older_than=timedelta(0), grace=timedelta(0), only=applied.let_go)
        return applied

    def ensure_indices(self, *, branch: str = MAIN) -> Written:
        """Build the indices that the schema asks for and that are missing; a commit that changes no content."""
        self._check_writable()
        names = [table.name for table in self.schema(branch).tables()]
        return ensure_indices(self._store, branch, names)

    def optimize(self, *, branch: str | None = None, dry_run: bool = False) -> Optimized:
        """Compact tables, fold new rows into indices, compact the manifest; of one branch, or of all."""
        if dry_run:
            return look_at_upkeep(self._store, self.branches() if branch is None else [branch])
        self._check_writable()
        with upkeep_run(self._store, "optimize"):
            return optimize(self._store, self.branches() if branch is None else [branch])

    def cleanup(
        self,
        *,
        keep: int = KEEP,
        older_than: timedelta = OLDER_THAN,
        grace: timedelta = GRACE,
        dry_run: bool = False,
    ) -> Cleaned:
        """Remove what is older than the last commits of each branch and than a time; readers at work are waited for."""
        if not dry_run:
            self._check_writable()
        return cleanup(self._store, keep=keep, older_than=older_than, grace=grace, dry_run=dry_run)

    def verify(self) -> Verified:
        """Walk everything: lineage, pins, files, counts, constraints; what is wrong is told, nothing is changed."""
        return verify(self._store)

    def drift(self) -> list[Drift]:
        """The tables that have moved past what is published, by writers that never finished."""
        return find_drift(self._store)

    def repair(self) -> list[Drift]:
        """Bring tables that have drifted back to what is published; refused while a sidecar is pending."""
        self._check_writable()
        with upkeep_run(self._store, "repair"):
            return repair(self._store)

    @overload
    def transaction(
        self,
        *,
        branch: str = MAIN,
        actor: str = "",
        message: str = "",
        publish_id: str = "",
        if_commit: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Transaction: ...

    @overload
    def transaction(
        self,
        spark: Any,
        *,
        branch: str = MAIN,
        actor: str = "",
        message: str = "",
        publish_id: str = "",
        if_commit: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> FrameTransaction: ...

    def transaction(
        self,
        spark: Any = None,
        *,
        branch: str = MAIN,
        actor: str = "",
        message: str = "",
        publish_id: str = "",
        if_commit: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Transaction | FrameTransaction:
        """Changes that are made on the present head and published together; with a SparkSession, by DataFrames."""
        self._check_writable()
        request = WriteRequest(
            branch=branch,
            writer=Writer.TRANSACTION,
            actor=actor,
            message=message,
            publish_id=publish_id,
            if_commit=if_commit,
            metadata=metadata or {},
        )
        base = self.base(branch=branch)
        request = replace(request, incarnation=base.incarnation)
        if spark is not None:
            return pipeline().transaction(spark, self._store, base, request)
        return Transaction(self._store, base, request)

    # -------- ending

    def close(self) -> None:
        """Let go of the commits this graph holds, and say that nothing more is staged."""
        self._store.leases.release()
        self._store.staging.end(self._store.objects)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self._mode!r})"

    def _check_writable(self) -> None:
        if self._mode == "ro":
            raise Unsupported(
                message=f"the graph at {self.uri} is open for reading only", hint='open it with mode="rw"'
            )


def _load_mode(mode: LoadMode | str) -> LoadMode:
    try:
        return LoadMode(mode)
    except ValueError:
        raise InvalidInput(message=f"mode is {mode!r}", hint=f"use {', '.join(LoadMode)}") from None


def open_graph(
    uri: str | Path,
    mode: Mode = "rw",
    *,
    options: Mapping[str, str] | None = None,
    patience: Patience | None = None,
    publish_ids_kept: timedelta | None = None,
    clock: Clock = SYSTEM_CLOCK,
    ids: IdSource = ULIDS,
) -> Graph:
    """The graph at an address. Read-write, it first settles what dead writers left; read-only it changes nothing.

    `publish_ids_kept` says for how long a publish id is known to have been used.
    """
    if mode not in ("rw", "ro"):
        raise InvalidInput(message=f"mode is {mode!r}", hint='use "rw" or "ro"')
    store = GraphStore.open(Location.parse(uri, options), clock=clock, ids=ids, patience=patience)
    if publish_ids_kept is not None:
        store.manifest.publish_ids_kept = publish_ids_kept
    if mode == "rw":
        migrate(store.manifest, MAIN)
        heal(store)
    return Graph(store, mode)


def init_graph(
    uri: str | Path,
    schema: str,
    *,
    actor: str = "",
    message: str = "",
    options: Mapping[str, str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    ids: IdSource = ULIDS,
) -> Graph:
    """A new graph with the schema that a text declares and no rows."""
    location = Location.parse(uri, options)
    create_graph(location, schema, actor=actor, message=message, clock=clock, ids=ids)
    return open_graph(uri, options=options, clock=clock, ids=ids)


__all__ = ["Graph", "Mode", "Mutated", "Written", "init_graph", "open_graph"]
