"""DataFrames into several tables of a graph as one commit, read and made on a base that does not move.

Each call stages its rows on the executors at once; nothing is visible before the commit, which checks all of it
together and publishes it or nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.errors import ExpectedVersionMismatch, InvalidInput, Unsupported
from headgate.graph.manifest.publisher import schema_mismatch
from headgate.graph.manifest.state import ManifestState
from headgate.graph.schema.model import TableType
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written, write
from headgate.graph.write.parts import How, Made, PartWrite, insert_only, prepare_parts
from headgate.graph.write.prepared import Prepared, WriteRequest
from headgate.publication import Ref
from headgate.spark.checks import Checks
from headgate.spark.claims import MOST_CALLS
from headgate.spark.reading import read_frame
from headgate.spark.sources import Written as WrittenSources
from headgate.spark.staged import StagedRows, gather
from headgate.spark.staging import Staging, Told, stage_frame, stage_removals
from headgate.spark.types import check_frame
from headgate.spark.work import TableRef
from headgate.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

IN_PROCESS_ROWS = 100_000
"""Up to this many rows are checked in this process, by look-ups: no plan of Spark pays for fewer."""


class SparkTransaction:
    """DataFrames that become visible together. As a context manager it commits when the block ends well."""

    def __init__(
        self,
        spark: SparkSession,
        store: GraphStore,
        base: Base,
        request: WriteRequest,
        *,
        types: Sequence[str] | None = None,
        writable: bool = True,
        in_process_rows: int | None = None,
        rejects: Path | None = None,
    ) -> None:
        """`rejects` is a file for every row that is refused, with its reason; without it a sample is told."""
        self._spark, self._store, self._base, self._request = spark, store, base, request
        self._types, self._writable = types, writable
        self._in_process_rows = IN_PROCESS_ROWS if in_process_rows is None else in_process_rows
        self._keep_wrong = rejects is not None
        self._staged = StagedRows(store, base, rejects=rejects)
        self._over = ""
        self._prepared: tuple[dict[str, tuple[int, str]], Prepared | None] | None = None
        self.written: Written | None = None

    @property
    def base(self) -> Ref:
        """The commit that is read."""
        return Ref(self._base.commit)

    @property
    def writes(self) -> tuple[PartWrite, ...]:
        """What has been staged so far."""
        return tuple(self._staged.writes)

    # -------- reading

    def read(self, type_name: str, *, columns: Sequence[str] | None = None) -> DataFrame:
        """The rows of a type at the base, as a DataFrame; what this transaction has staged is not among them."""
        self._check_usable()
        self._type(type_name)
        return read_frame(self._spark, self._base, type_name, columns=columns)

    # -------- changing

    def append(self, type_name: str, frame: DataFrame) -> None:
        """Add rows; one whose id is taken is refused."""
        self._stage(type_name, frame, How.APPEND)

    def merge(self, type_name: str, frame: DataFrame) -> None:
        """Add rows, or replace those with their id; an edge without a key is known by its two ends.

        Of several rows with one id the last one counts, in the order of the DataFrame's partitions and rows.
        """
        self._stage(type_name, frame, How.MERGE)

    def overwrite(self, type_name: str, frame: DataFrame) -> None:
        """Replace every row of a type."""
        self._stage(type_name, frame, How.OVERWRITE)

    def delete(self, type_name: str, frame: DataFrame) -> None:
        """Remove the rows that a DataFrame names by `id` or by the columns of the key, and with a node its edges."""
        self._stage(type_name, frame, How.DELETE)

    def stage_all(self, told: Mapping[str, Sequence[Told]], how: How, unread: Sequence[Told] = ()) -> None:
        """Take in what executors have staged by other means, bad rows and all; `unread` were rows of no type."""
        for name, answers in told.items():
            self._staged.take(self._checked_type(name, how), how, answers)
        self._staged.told += unread

    @property
    def reads(self) -> Base:
        """The graph at the commit that is read."""
        return self._base

    def staging(self, type_name: str) -> Staging:
        """What an executor needs to stage rows of a type for this transaction."""
        table = self._type(type_name)
        return Staging(table=TableRef.of(self._base, table.name), schema=self._base.schema, type=table.name)

    @property
    def folder(self) -> str:
        return self._staged.folder

    def _stage(self, type_name: str, frame: DataFrame, how: How) -> None:
        table = self._checked_type(type_name, how)
        self._prepared = None
        check_frame(self._base.schema, table, frame.schema, how)
        check_workers(self._spark)
        staging = self.staging(type_name)
        try:
            if how is How.DELETE:
                told = stage_removals(staging, frame, self.folder)
            else:
                told = stage_frame(staging, frame, rejects=f"{self.folder}/rejected" if self._keep_wrong else "")
            self._staged.add(table, how, told)
        except BaseException:
            self.rollback("failed")
            raise

    def _checked_type(self, type_name: str, how: How) -> TableType:
        self._check_usable()
        table = self._type(type_name)
        if not self._writable:
            raise Unsupported(message="the graph was declared for reading only", hint="declare it without ReadOnly")
        before = {one.how for one in self._staged.writes if one.type == type_name}
        if before and How.OVERWRITE in {how, *before}:
            raise InvalidInput(
                message=f"{type_name} is overwritten and written in another way in one transaction",
                hint="overwrite it with all its rows, or in a transaction of its own",
            )
        if sum(one.type == type_name for one in self._staged.writes) >= MOST_CALLS:
            raise InvalidInput(
                message=f"one transaction writes {type_name} more than {MOST_CALLS} times",
                hint="union the DataFrames",
            )
        return table

    # -------- ending

    def commit(self) -> Written:
        """Check all that was staged and publish it as one commit, or raise and leave nothing visible."""
        self._check_usable()
        self.written = self.published(
            lambda: write(self._store, self._request, self._prepare, staged_under=self.staged_under)
        )
        return self.written

    def published(self, publish: Callable[[], Written]) -> Written:
        """Run a publish of what was staged, and remove the files that it turns out not to need."""
        self._check_usable()
        self._over = "failed"
        written = self._staged.ended(publish)
        self._over = "committed"
        return written

    @property
    def staged_under(self) -> str:
        """The record that covers the files until they are published."""
        return self._staged.record

    def told(self) -> dict[str, str]:
        """What has been changed, per type, for people."""
        found: dict[str, list[str]] = {}
        for one in self.writes:
            found.setdefault(one.type, []).append(f"{one.how} of {one.rows} rows")
        return {name: ", ".join(parts) for name, parts in found.items()}

    def rollback(self, why: str = "rolled back") -> None:
        """Forget the changes, and remove the files that were staged."""
        if not self._over:
            self._over = why
            self._staged.discard()

    def __enter__(self) -> SparkTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._over:
            self.commit()
        elif not self._over:
            self.rollback()

    # -------- inside

    def _prepare(self, state: ManifestState) -> Prepared | None:
        free = insert_only(self._staged.writes)
        return self.prepare_on(Base.of(self._store, state, self._request.branch) if free else self._base)

    def prepare_on(self, base: Base) -> Prepared | None:
        """Check what was staged against a base, and stage one transaction a table."""
        if base.schema_order != self._base.schema_order:
            raise schema_mismatch(base.branch, expected=self._base.schema_order, actual=base.schema_order)
        for name in {found.type for found in self._staged.writes}:
            if base.pinned(name).fork != self._base.pinned(name).fork:
                # The branch got a fork of the table since: what was staged lies in another folder.
                raise ExpectedVersionMismatch(
                    message=f"table {name} was forked while rows were staged for it",
                    table=base.table_key(name),
                    expected=self._base.pinned(name).version,
                    actual=base.pinned(name).version,
                    hint="write again",
                )
        pins = {name: (pin.version, pin.fork) for name, (_, pin) in base.tables.items()}
        if self._prepared is None or self._prepared[0] != pins:
            self._staged.named = False
            self._prepared = pins, self._check(base)
        self._staged.named = self._prepared[1] is not None
        return self._prepared[1]

    def _check(self, base: Base) -> Prepared | None:
        writes = tuple(one for one in self._staged.writes if one.rows or one.how is How.OVERWRITE)
        if not writes:
            return None
        rows = sum(one.rows for one in writes)
        if rows <= self._in_process_rows or WrittenSources(base, writes).needs_process():
            log.info("%s rows are checked in this process", f"{rows:,}")
            made = Made()
            try:
                return prepare_parts(base, gather(self._store, base, writes, made), made)
            finally:
                self._staged.renew(made)
        log.info("%s rows are checked by Spark", f"{rows:,}")
        checks = Checks(self._spark, base, writes, self.folder, keep_wrong=self._keep_wrong)
        try:
            return checks.prepare()
        finally:
            self._staged.renew(checks.made)
            self._staged.rejected = checks.rejected

    def _type(self, name: str) -> TableType:
        return self._base.declared(name, self._types)

    def _check_usable(self) -> None:
        if self._over:
            raise InvalidInput(message=f"this transaction is {self._over}", hint="start a new one")


__all__ = ["IN_PROCESS_ROWS", "SparkTransaction"]
