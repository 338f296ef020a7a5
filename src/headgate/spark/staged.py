"""What a transaction has staged so far: taken in when executors have answered, removed when it is not published."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import HeadgateError, InvalidInput, Problem
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import TableType
from headgate.graph.storage import Part, TableSnapshot
from headgate.graph.storage.parts import SCRATCH, part_from_text, read_column, read_part_table
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written
from headgate.graph.write.parts import How, Made, PartWrite
from headgate.spark.staging import Told
from headgate.spark.telling import told_problem

if TYPE_CHECKING:
    from headgate.spark.checks import Rejected

_SHOWN = 100
_FEW_PARTS = 4


class StagedRows:
    def __init__(
        self, store: GraphStore, base: Base, *, folder: str = "", rejects: Path | None = None, record: str = ""
    ) -> None:
        """`record` is the one that files were staged under by another process; else it is this one's."""
        self._store, self.base, self._rejects = store, base, rejects
        self._covered = contextlib.ExitStack()
        self.record = record or self._covered.enter_context(store.staged_under())
        self.folder = folder or store.ids.new()
        self.writes: list[PartWrite] = []
        self.told: list[Told] = []
        self.rejected: Rejected | None = None
        self._made = Made()
        self.named = False
        """Whether a sidecar may name the files."""

    def take(self, table: TableType, how: How, told: Sequence[Told]) -> None:
        """Take in the answers of the tasks that staged one DataFrame."""
        self.told += told
        self.writes.append(
            PartWrite(
                type=table.name,
                how=how,
                rows=sum(one.rows for one in told),
                parts=tuple(part_from_text(one.fragments) for one in told if one.fragments),
                removed=tuple(path for one in told for path in one.removed),
                made_up=how is not How.DELETE and not table.key and all(one.made_up for one in told if one.rows),
            )
        )

    def add(self, table: TableType, how: How, told: Sequence[Told]) -> None:
        """Take in the answers; raises if any row is bad."""
        self.take(table, how, told)
        bad = sum(one.bad for one in told)
        if bad:
            sample = [Problem(where, reason) for one in told for where, reason in one.sample][:_SHOWN]
            more = f", of which {len(sample)} are shown" if bad > len(sample) else ""
            raise InvalidInput(
                message=f"{bad} rows do not fit {table.name}{more}", problems=tuple(sample), hint="correct them"
            )

    def publish(self, table: TableType, how: How, told: Sequence[Told], publish: Callable[[], Written]) -> Written:
        """Take in the answers and publish them, or remove what they name."""
        try:
            self.add(table, how, told)
        except BaseException:
            self.discard()
            raise
        return self.ended(publish)

    def ended(self, publish: Callable[[], Written]) -> Written:
        """Publish, and then remove what was not.

        Once the write was prepared a sidecar may name its files, and whoever recovers it may publish them: from then on
        they are removed by cleanup alone, unless others have taken their place in the commit.
        """
        self.named = False
        try:
            written = publish()
        except BaseException:
            self._leave()
            raise
        if written.changed and not written.repeated:
            self._remove(self._made.superseded)
            self._forget_columns()
            self._covered.close()
        else:
            self._leave()
        return written

    def _leave(self) -> None:
        if not self.named:
            self.discard()
            return
        self._forget_columns()
        self._covered.close()

    def renew(self, made: Made) -> None:
        """The write was prepared, perhaps once more: what an earlier time has made is of no use."""
        self._remove(self._made.parts)
        self._made = made

    def _rejections(self) -> Iterator[str]:
        """Every row that was refused, as a line of JSON, where they were kept."""
        for one in self.told:
            if one.rejected:
                for column in read_column(self._store.location, one.rejected, "told"):
                    yield from column.to_pylist()
        if self.rejected is not None:
            for path in self.rejected.kept:
                for column in read_column(self._store.location, path, "told"):
                    for line in column.to_pylist():
                        problem = told_problem(self.base, self.rejected.sources, json.loads(line))
                        yield json.dumps({"where": problem.where, "reason": problem.message}, ensure_ascii=False)

    def discard(self) -> None:
        """Remove every file that was staged. What cannot be removed now is left to cleanup."""
        at = {write.type: self.base.snapshot(write.type) for write in self.writes}
        self._remove([(at[write.type], part) for write in self.writes for part in write.parts])
        self._remove(self._made.parts)
        self.writes, self._made = [], Made()
        if self._rejects is not None and (self.rejected is not None or any(one.bad for one in self.told)):
            with self._rejects.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in self._rejections())
        self._forget_columns()
        self._covered.close()

    def _remove(self, parts: Sequence[tuple[TableSnapshot, Part]]) -> None:
        with contextlib.suppress(HeadgateError):
            for at, part in parts:
                self._store.tables.discard(at, part)

    def _forget_columns(self) -> None:
        with contextlib.suppress(HeadgateError):
            for found in self._store.objects.list(f"{SCRATCH}/{self.folder}"):
                self._store.objects.delete(found.name)


def gather(store: GraphStore, base: Base, writes: Sequence[PartWrite], made: Made) -> list[PartWrite]:
    """Few rows in many small parts, as one part each: a DataFrame of a hundred partitions is no hundred files."""
    done = []
    for write in writes:
        if len(write.parts) > _FEW_PARTS:
            at = base.snapshot(write.type)
            names = arrow_schema(base.type(write.type)).names
            whole = store.tables.write_part(at, read_part_table(store.location, at, write.parts, names))
            made.parts.append((at, whole))
            made.superseded += [(at, part) for part in write.parts]
            write = replace(write, parts=(whole,))
        done.append(write)
    return done
