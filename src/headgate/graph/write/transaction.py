"""Several changes as one commit, read and made on a base that does not move.

A transaction sees its own changes. It is used once: after commit, failure or leaving it nothing more can be done
with it. Nothing is stored before `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

import pyarrow as pa

from headgate.errors import InvalidInput, Problem, Unsupported
from headgate.graph.manifest.state import ManifestState
from headgate.graph.pipeline import FrameTransaction, is_frame, pipeline
from headgate.graph.query.predicate import TRUE
from headgate.graph.read.result import QueryResult
from headgate.graph.read.snapshot import Snapshot
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, TableType
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written, write
from headgate.graph.write.distinct import last_rows, repeated
from headgate.graph.write.ends import with_known_ids
from headgate.graph.write.filters import matching
from headgate.graph.write.mutate import Affected, apply
from headgate.graph.write.overlay import Overlay
from headgate.graph.write.pending import Pending
from headgate.graph.write.prepare import check_pending, prepare_pending
from headgate.graph.write.prepared import Prepared, WriteRequest
from headgate.graph.write.shape import shape
from headgate.graph.write.statements import mutation
from headgate.publication import Ref

Rows: TypeAlias = "pa.Table | Sequence[Mapping[str, Any]]"


class Transaction:
    """Changes to a graph that become visible together. As a context manager it commits when the block ends well."""

    def __init__(
        self,
        store: GraphStore,
        base: Base,
        request: WriteRequest,
        *,
        types: Sequence[str] | None = None,
        writable: bool = True,
    ) -> None:
        self._types = types
        self._writable = writable
        self._store = store
        self._base = base
        self._request = request
        self._pending = Pending(base.schema, base.snapshot)
        self._overlay = Overlay(base)
        self._frames: FrameTransaction | None = None
        self._over = ""
        self._held = True
        store.leases.hold(base.commit)
        self.written: Written | None = None

    @property
    def base(self) -> Ref:
        """The commit that is read."""
        return Ref(self._base.commit)

    @property
    def pending(self) -> Pending:
        """What has been changed so far."""
        return self._pending

    @property
    def reads(self) -> Base:
        """The graph at the commit that is read."""
        return self._base

    # -------- reading

    def read(self, type_name: str, *, columns: list[str] | None = None, where: str | None = None) -> pa.Table:
        """The rows of a type, earlier changes of this transaction included. `where` is an SQL condition."""
        self._check_usable()
        table = self._type(type_name)
        if where is None:
            return self._pending.rows(table, TRUE, columns=columns)
        rows = matching(self._pending, self._base, table, where)
        return rows.select(columns) if columns else rows

    def query(self, text: str, **params: Any) -> QueryResult:
        """The result of a read, earlier changes of this transaction included."""
        return self._snapshot().query(text, params)

    def sql(self, text: str) -> QueryResult:
        """The result of a SELECT over the types as views, earlier changes of this transaction included."""
        return self._snapshot().sql(text)

    def frame(self, spark: Any, type_name: str, *, columns: Sequence[str] | None = None) -> Any:
        """The rows of a type at the base, as a DataFrame; changes of this transaction are not among them."""
        self._check_usable()
        return pipeline().read(spark, self._base, self._type(type_name).name, columns)

    # -------- changing

    def mutate(self, text: str, **params: Any) -> Affected:
        """Run the statements of a mutation query."""
        self._check_usable()
        checked = mutation(text, self._base.schema)
        for statement in checked.statements:
            self._type(statement.table.name)
        self._check_writable()
        return apply(self._pending, checked.bind(params), self._store.ids)

    def append(self, type_name: str, rows: Rows) -> None:
        """Add rows; one whose id is taken is refused."""
        table = self._type(type_name)
        if is_frame(rows):
            self._check_may_write()
            self._by_frames(rows).append(type_name, rows)
            return
        self._check_writable()
        shaped, made_up = self._shaped(table, rows)
        _refuse_twice(table, shaped)
        self._pending.insert(table, shaped, made_up=made_up, strict=True)

    def merge(self, type_name: str, rows: Rows) -> None:
        """Add rows, or replace those with their id; an edge without a key is known by its two ends."""
        table = self._type(type_name)
        if is_frame(rows):
            self._check_may_write()
            self._by_frames(rows).merge(type_name, rows)
            return
        self._check_writable()
        shaped, made_up = self._shaped(table, rows)
        if isinstance(table, EdgeType) and not table.key:
            shaped, made_up = self._by_ends(table, shaped), False
        self._pending.insert(table, _last_of_each(shaped, [ID]), made_up=made_up)

    def overwrite(self, type_name: str, rows: Rows) -> None:
        """Replace every row of a type."""
        table = self._type(type_name)
        if is_frame(rows):
            self._check_may_write()
            self._by_frames(rows).overwrite(type_name, rows)
            return
        self._check_writable()
        shaped, _ = self._shaped(table, rows)
        _refuse_twice(table, shaped)
        self._pending.overwrite(table, shaped)

    def delete(self, type_name: str, *, where: str | None = None, ids: Any = None) -> int:
        """Remove rows by an SQL condition or by id, and with a node its edges; how many there were.

        `ids` may be a DataFrame that names rows by `id` or by their key; then nobody counts.
        """
        self._check_usable()
        table = self._type(type_name)
        if is_frame(ids):
            self._check_may_write()
            self._by_frames(ids).delete(type_name, ids)
            return 0
        self._check_writable()
        if (where is None) == (ids is None):
            raise InvalidInput(message=f"delete from {type_name} needs either where or ids", hint="give one of them")
        if ids is not None:
            known = self._pending.ids_with(table, ID, pa.array(ids, pa.string()))
        else:
            known = matching(self._pending, self._base, table, where or "")[ID].combine_chunks()
        return self._pending.delete(table, known)

    # -------- ending

    def commit(self) -> Written:
        """Publish the changes as one commit, or raise and leave nothing visible."""
        self._check_usable()
        self._over = "committed"
        try:
            if self._frames is not None:
                self.written = self._frames.commit()
            else:
                self.written = write(self._store, self._request, self._prepare)
        except BaseException:
            self._over = "failed"
            raise
        finally:
            self._overlay.close()
            self._let_go()
        return self.written

    def rollback(self) -> None:
        """Forget the changes."""
        self._over = self._over or "rolled back"
        self._overlay.close()
        self._let_go()
        if self._frames is not None:
            self._frames.rollback()

    def _let_go(self) -> None:
        """Tell cleanup that the base is no longer read."""
        if self._held:
            self._held = False
            self._store.leases.let_go(self._base.commit)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._over:
            self.commit()
        else:
            self.rollback()

    # -------- for whoever publishes it

    def check(self) -> None:
        """Raise what publishing the changes on the base would raise."""
        if self._frames is not None:
            self._frames.prepare_on(self._base)
        else:
            check_pending(self._base, self._pending)

    def prepare_on(self, base: Base) -> Prepared | None:
        """Check and stage the changes on a base whose touched tables have the same content."""
        if self._frames is not None:
            return self._frames.prepare_on(base)
        return prepare_pending(base, self._pending.on(base.snapshot), insert_only=False)

    def published(self, publish: Callable[[], Written]) -> Written:
        """Run the publish of these changes; files that it turns out not to need are removed."""
        return publish() if self._frames is None else self._frames.published(publish)

    @property
    def staged_under(self) -> str:
        """The record that covers files which are staged already; empty if none are."""
        return self._frames.staged_under if self._frames is not None else ""

    def told(self) -> Mapping[str, str]:
        """What has been changed, per type, for people."""
        return self._frames.told() if self._frames is not None else _changed_tables(self._pending)

    # -------- inside

    def _by_frames(self, frame: Any) -> FrameTransaction:
        if self._pending.tables():
            raise _two_ways()
        if self._frames is None:
            self._frames = pipeline().transaction(frame.sparkSession, self._store, self._base, self._request)
        return self._frames

    def _snapshot(self) -> Snapshot:
        self._check_usable()
        return Snapshot(self._overlay.source(self._pending))

    def _prepare(self, state: ManifestState) -> Prepared | None:
        return prepare_pending(self._base, self._pending, insert_only=False)

    def _type(self, name: str) -> TableType:
        return self._base.declared(name, self._types)

    def _check_writable(self) -> None:
        if self._frames is not None:
            raise _two_ways()
        self._check_may_write()

    def _check_may_write(self) -> None:
        if not self._writable:
            raise Unsupported(message="the graph was declared for reading only", hint="declare it without ReadOnly")

    def _check_usable(self) -> None:
        if self._over:
            raise InvalidInput(message=f"this transaction is {self._over}", hint="start a new one")

    def _shaped(self, table: TableType, rows: Rows) -> tuple[pa.Table, bool]:
        self._check_usable()
        shaped = shape(self._base.schema, table, rows, ids=self._store.ids)
        if shaped.bad:
            problems = tuple(
                Problem(where=f"{table.name} row {row}", message="; ".join(map(str, reasons)))
                for row, reasons in list(shaped.bad.items())[:100]
            )
            raise InvalidInput(
                message=f"{len(shaped.bad)} rows do not fit {table.name}", problems=problems, hint="correct them"
            )
        return shaped.rows, shaped.made_up

    def _by_ends(self, table: EdgeType, rows: pa.Table) -> pa.Table:
        """The rows with the ids of the edges that have the same ends, where there are any."""
        mine = self._pending.find(table.name)
        rows = _last_of_each(rows, [SRC, DST])
        return with_known_ids(rows, self._base.snapshot(table.name), mine.added if mine else None)


def _two_ways() -> Unsupported:
    return Unsupported(
        message="a transaction is made of DataFrames or of rows, and this one has both",
        hint="make a DataFrame of the rows with spark.createDataFrame",
    )


def _last_of_each(rows: pa.Table, columns: list[str]) -> pa.Table:
    kept = last_rows(rows, columns)
    return rows if kept is None else rows.take(kept)


def _refuse_twice(table: TableType, rows: pa.Table) -> None:
    twice = repeated(rows[ID].combine_chunks()).to_pylist()
    if twice:
        raise InvalidInput(
            message=f"{len(twice)} ids of {table.name} are given more than once: {', '.join(map(repr, twice[:5]))}",
            hint="give each row an id of its own, or merge",
        )


def _changed_tables(pending: Pending) -> dict[str, str]:
    told = {}
    for name, table in pending.tables().items():
        if table.image:
            told[name] = f"overwritten with {table.added.num_rows} rows"
        else:
            parts = [f"{table.added.num_rows} rows written"] if table.added.num_rows else []
            parts += [f"{len(table.deleted)} removed"] if len(table.deleted) else []
            told[name] = ", ".join(parts)
    return told
