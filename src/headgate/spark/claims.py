"""Claims on ids, made by executors: each row of a table says what it is, what it names and what it takes away.

A claim is two salted 64-bit hashes of a text and a set of flags. Keys leave the executors in this form alone, and one
grouping by the hashes answers at once which ids are given twice, which are taken, and which ends name no node. The
128 bits with a salt drawn for each write stand for the text: two texts of a graph with a billion ids share them with a
chance below one in 10^19.

Claims go through Spark's shuffle by the bucket of their hash, each bucket of a source as one block of Arrow data: a
row of the shuffle is some ten thousand claims, and neither the JVM nor Python ever handles them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.schema.keys import row_ids
from headgate.graph.schema.model import ID
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.lookup import ADDRESS
from headgate.graph.storage.parts import part_from_text, read_column, read_part
from headgate.spark.work import TableRef

NEW, STORED, REMOVED, END, STRICT, MERGED, KEPT_END, CASCADE = 1, 2, 4, 8, 16, 32, 64, 128
CALL = 8
"""The bit of the first call: each later call of a transaction has the next one."""
MOST_CALLS = 48
BLOCKS = "bucket int, flags long, claim int, source int, block binary"
_BLOCKS = pa.schema(
    [
        *(("bucket", pa.int32()), ("flags", pa.int64()), ("claim", pa.int32())),
        *(("source", pa.int32()), ("block", pa.binary())),
    ]
)
_OFFSET = 0xFFFFFFFF
_READ_ROWS = 1 << 20


@dataclass(frozen=True)
class Claim:
    """What a source's rows claim with some columns: texts of one domain are compared with each other."""

    columns: tuple[str, ...]
    domain: str
    flags: int


@dataclass(frozen=True)
class Source:
    """Rows of one type that one task reads: a staged fragment, a stored one, or a column of ids that go."""

    number: int
    table: TableRef
    type: str
    rows: int
    claims: tuple[Claim, ...] = ()
    part: str = ""
    fragment: int | None = None
    removed: str = ""

    @property
    def stored(self) -> bool:
        return self.fragment is not None


def read_source(source: Source, columns: Sequence[str]) -> Iterator[tuple[pa.Table, pa.Array]]:
    """The rows of a source with the place of each: its offset in the fragment."""
    first = 0
    if source.removed:
        for ids in read_column(source.table.location, source.removed, ID):
            yield pa.table({ID: ids}), _range(first, len(ids))
            first += len(ids)
        return
    at = source.table.open()
    if source.fragment is None:
        for batch in read_part(
            source.table.location, at, part_from_text([source.part]), columns, batch_rows=_READ_ROWS
        ):
            yield pa.Table.from_batches([batch]), _range(first, batch.num_rows)
            first += batch.num_rows
        return
    try:
        fragment = at.dataset.get_fragment(source.fragment)
        scanner = at.dataset.scanner(
            columns=list(columns), fragments=[fragment], with_row_address=True, batch_size=_READ_ROWS
        )
        for batch in scanner.to_batches():
            rows = pa.Table.from_batches([batch])
            offsets = pc.bit_wise_and(rows[ADDRESS].combine_chunks(), pa.scalar(_OFFSET, pa.uint64()))
            yield rows.select(list(columns)), offsets.cast(pa.int64())
    except Exception as error:
        raise as_error(error, doing=f"read table {at.path}") from error


def _range(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count, dtype=np.int64))


def texts(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """One text per row; null where a column is, and then there is nothing to compare."""
    if len(columns) == 1:
        column = rows[columns[0]].combine_chunks()
        return column if pa.types.is_string(column.type) else row_ids([column])
    return row_ids([rows[name] for name in columns])


@lru_cache(maxsize=1)
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection


def hashes(column: pa.Array, salt: str, domain: str) -> tuple[pa.Array, pa.Array]:
    """Two 64-bit hashes of each text."""
    connection = database()
    connection.register("given", pa.table({"x": column}))
    query = "SELECT hash($a || x) AS a, hash($b || x) AS b FROM given"
    found = connection.sql(query, params={"a": f"{salt}1{domain}\x00", "b": f"{salt}2{domain}\x00"}).to_arrow_table()
    return found["a"].combine_chunks(), found["b"].combine_chunks()


@dataclass(frozen=True)
class Detail:
    """What a claim carries besides its hashes."""

    place: bool = False
    """The offset of its row."""
    id: bool = False
    """The id of its row."""
    text: bool = False
    """The text that was hashed, for people."""
    identity: bool = False
    """The hashes are those of the source's first claim, which says who the row is; its own are beside them."""


def claims_of(source: Source, salt: str, buckets: int, detail: Detail) -> Iterator[pa.RecordBatch]:
    """What a source claims, as one block for each bucket and claim."""
    wanted = {name for claim in source.claims for name in claim.columns} | ({ID} if detail.id else set())
    for rows, offsets in read_source(source, sorted(wanted)):
        who: tuple[pa.Array, pa.Array] | None = None
        for number, claim in enumerate(source.claims):
            told = texts(rows, claim.columns)
            there = None if not told.null_count else told.is_valid()
            kept = told if there is None else told.filter(there)
            a, b = hashes(kept, salt, claim.domain)
            columns: dict[str, Any] = {"a": a, "b": b}
            if detail.identity:
                if who is None:
                    who = a, b
                    continue
                columns = {"a": _kept(who[0], there), "b": _kept(who[1], there), "c": a, "d": b}
            if detail.place:
                columns["offset"] = _kept(offsets, there)
            if detail.id:
                columns["id"] = _kept(rows[ID].combine_chunks(), there)
            if detail.text:
                columns["text"] = kept
            yield from _blocks(pa.record_batch(columns), source.number, claim.flags, number, buckets)


def _kept(column: pa.Array, there: pa.Array | None) -> pa.Array:
    return column if there is None else column.filter(there)


def blocks_of(claims: pa.Table, flags: int, buckets: int) -> pa.Table:
    """Claims that no source makes any more, put into the buckets of their hashes."""
    parts = [
        pa.Table.from_batches([block])
        for batch in claims.combine_chunks().to_batches()
        for block in _blocks(batch, -1, flags, 0, buckets)
    ]
    return pa.concat_tables([_BLOCKS.empty_table(), *parts])


def _blocks(batch: pa.RecordBatch, source: int, flags: int, claim: int, buckets: int) -> Iterator[pa.RecordBatch]:
    bucket = (batch.column(0).to_numpy() >> np.uint64(40)).astype(np.uint16) % np.uint16(buckets)
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    sorted_batch = batch.take(pa.array(order))
    start = 0
    for number, end in enumerate(ends.tolist()):
        if end > start:
            block = pack(sorted_batch.slice(start, end - start))
            yield pa.record_batch(
                {
                    "bucket": pa.array([number], pa.int32()),
                    "flags": pa.array([flags], pa.int64()),
                    "claim": pa.array([claim], pa.int32()),
                    "source": pa.array([source], pa.int32()),
                    "block": pa.array([block], pa.binary()),
                },
                schema=_BLOCKS,
            )
        start = end


def pack(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(block: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()


def unpack_all(blocks: pa.Table) -> pa.Table:
    """The claims of all blocks, with the flags, claim and source of each."""
    parts = []
    for row in range(blocks.num_rows):
        table = unpack(blocks["block"][row].as_buffer())
        for name, kind in (("flags", pa.int64()), ("claim", pa.int32()), ("source", pa.int32())):
            constant = np.full(table.num_rows, blocks[name][row].as_py())
            table = table.append_column(name, pa.array(constant, kind))
        parts.append(table)
    return pa.concat_tables(parts, promote_options="default")
