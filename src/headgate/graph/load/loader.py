"""Shape, check and write the rows of a load, chunk by chunk; what cross-row checks need is all that is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import InvalidInput
from headgate.graph.load.sources import Chunk, Rejected
from headgate.graph.load.spool import Spool
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, TableType
from headgate.graph.storage import Part, TableSnapshot
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.distinct import last_rows, repeated
from headgate.graph.write.ends import with_known_ids
from headgate.graph.write.evaluate import NO_IDS, Delta, key_columns
from headgate.graph.write.shape import shape
from headgate.graph.write.text import typed

PART_ROWS = 1 << 18
PART_BYTES = 96 << 20
_IN_FLIGHT = 1


class LoadMode(StrEnum):
    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@dataclass
class TypeLoad:
    """The rows of one type: their checked columns in memory, the rest written or spooled."""

    table: TableType
    at: TableSnapshot
    keys: list[pa.Table] = field(default_factory=list)
    chunks: list[tuple[Chunk, np.ndarray | None]] = field(default_factory=list)
    """Each chunk without its rows, and which of them were good, where not all were."""
    starts: list[int] = field(default_factory=list)
    rows: int = 0
    made_up: bool = True
    buffer: list[pa.Table] = field(default_factory=list)
    parts: list[Future[Part]] = field(default_factory=list)
    spool: Spool | None = None

    def all_keys(self) -> pa.Table:
        if len(self.keys) > 1:
            self.keys = [pa.concat_tables(self.keys).combine_chunks()]
        return self.keys[0]

    def place(self, row: int) -> str:
        """Where the row stands in its input."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        chunk, good = self.chunks[number]
        within = row - self.starts[number]
        return chunk.place(int(good[within]) if good is not None else within)


class Loader:
    def __init__(
        self,
        store: GraphStore,
        base: Base,
        mode: LoadMode,
        folder: Path,
        rejected: Rejected,
        *,
        dry_run: bool = False,
    ) -> None:
        self._store = store
        self._base = base
        self._mode = mode
        self._folder = folder
        self._rejected = rejected
        self._dry_run = dry_run
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headgate-load")
        self.types: dict[str, TypeLoad] = {}
        self.schema_order = base.schema_order

    def add_all(self, found: Iterable[Chunk]) -> None:
        for chunk in found:
            self.add(chunk)
        for load in self.types.values():
            self._flush(load)

    def add(self, chunk: Chunk) -> None:
        load = self._of(chunk.type)
        rows = typed(load.table, chunk.rows) if chunk.text and isinstance(chunk.rows, pa.Table) else chunk.rows
        shaped = shape(self._base.schema, load.table, rows, ids=self._store.ids, text=chunk.text)
        good: np.ndarray | None = None
        kept = shaped.rows
        if shaped.bad:
            for row, reasons in shaped.bad.items():
                self._rejected.add(chunk.place(row), "; ".join(map(str, reasons)))
            good = np.setdiff1d(np.arange(kept.num_rows), np.fromiter(shaped.bad, dtype=np.int64))
            kept = kept.take(pa.array(good)).cast(arrow_schema(load.table))
        load.chunks.append((Chunk(chunk.type, [], chunk.input, chunk.first, chunk.places), good))
        load.starts.append(load.rows)
        load.rows += kept.num_rows
        load.made_up = load.made_up and shaped.made_up
        load.keys.append(kept.select(key_columns(load.table)))
        if self._rejected.count:
            return
        if load.spool is not None:
            load.spool.add(kept)
            return
        load.buffer.append(kept)
        if sum(part.num_rows for part in load.buffer) >= PART_ROWS or _bytes(load.buffer) >= PART_BYTES:
            self._flush(load)

    def _of(self, name: str) -> TypeLoad:
        if name not in self.types:
            table = self._base.type(name)
            load = TypeLoad(table, self._base.snapshot(name))
            if self._mode is LoadMode.MERGE and (table.key or isinstance(table, EdgeType)):
                load.spool = Spool(self._folder, name, arrow_schema(table))
            self.types[name] = load
        return self.types[name]

    def _flush(self, load: TypeLoad) -> None:
        if not load.buffer or self._rejected.count:
            return
        rows, load.buffer = pa.concat_tables(load.buffer), []
        if self._dry_run:
            return
        waiting = [part for part in load.parts if not part.done()]
        if len(waiting) > _IN_FLIGHT:
            waiting[0].result()
        load.parts.append(self._writer.submit(self._store.tables.write_part, load.at, rows))

    # -------- once all rows are there

    def refuse_twice(self) -> None:
        """Reject rows that hold an id another row of the load holds, where no row may take another's place."""
        for load in self.types.values():
            if load.spool is not None or load.made_up:
                continue
            ids = load.all_keys()[ID].combine_chunks()
            twice = repeated(ids)
            if not len(twice):
                continue
            for row in pc.indices_nonzero(pc.is_in(ids, twice)).to_pylist():
                self._rejected.add(load.place(row), f"{load.table.name} {ids[row]} is given more than once")

    def finish(self, base: Base) -> dict[str, tuple[Delta, list[Part]]]:
        """The delta of every type on a base, with its rows written."""
        return {name: self._finished(load, base) for name, load in self.types.items() if load.rows or self._is_image}

    @property
    def _is_image(self) -> bool:
        return self._mode is LoadMode.OVERWRITE

    def _finished(self, load: TypeLoad, base: Base) -> tuple[Delta, list[Part]]:
        at = base.snapshot(load.table.name)
        keys = load.all_keys()
        if load.spool is not None:
            keys, parts = self._last_of_each(load, at)
        else:
            parts = [part.result() for part in load.parts]
        strict = keys[ID].combine_chunks() if self._mode is LoadMode.APPEND and not load.made_up else NO_IDS
        return (
            Delta(
                table=load.table,
                at=at,
                keys=keys,
                image=self._is_image,
                strict=strict,
                made_up=load.made_up and load.spool is None,
            ),
            parts,
        )

    def _last_of_each(self, load: TypeLoad, at: TableSnapshot) -> tuple[pa.Table, list[Part]]:
        """Keep the last row of each identity, with the id of the stored row it replaces."""
        keys = load.all_keys()
        ends = isinstance(load.table, EdgeType) and not load.table.key
        kept = last_rows(keys, [SRC, DST] if ends else [ID])
        if kept is not None:
            keys = keys.take(kept)
        if ends:
            keys = with_known_ids(keys, at)
        parts: list[Part] = []
        start = 0
        for rows in () if self._dry_run else _regrouped(load, kept):
            if ends:
                place = rows.schema.get_field_index(ID)
                rows = rows.set_column(place, rows.schema.field(place), keys[ID].slice(start, rows.num_rows))
            start += rows.num_rows
            parts.append(self._store.tables.write_part(at, rows))
        return keys, parts

    def discard(self) -> None:
        """Remove the files of rows that were written and will not be published."""
        for load in self.types.values():
            for waiting in load.parts:
                if not waiting.cancel():
                    self._store.tables.discard(load.at, waiting.result())

    def close(self) -> None:
        self._writer.shutdown(wait=True)


def _regrouped(load: TypeLoad, kept: pa.Array | None) -> Iterable[pa.Table]:
    """The spooled rows that count, in tables large enough to be a part."""
    assert load.spool is not None
    wanted = None if kept is None else kept.to_numpy()
    gathered: list[pa.Table] = []
    start = count = 0
    for batch in load.spool.batches():
        rows = pa.Table.from_batches([batch])
        if wanted is not None:
            low, high = np.searchsorted(wanted, [start, start + batch.num_rows])
            rows = rows.take(pa.array(wanted[low:high] - start))
        start += batch.num_rows
        gathered.append(rows)
        count += rows.num_rows
        if count >= PART_ROWS:
            yield pa.concat_tables(gathered)
            gathered, count = [], 0
    if count:
        yield pa.concat_tables(gathered)


def _bytes(tables: Iterable[pa.Table]) -> int:
    return sum(table.nbytes for table in tables)


def require_rows(types: Mapping[str, TypeLoad], told: str) -> None:
    if not any(load.rows for load in types.values()):
        raise InvalidInput(message=f"{told} holds no rows", hint="check that it is the right file")
