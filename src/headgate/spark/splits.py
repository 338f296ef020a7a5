"""Files as pieces that executors read by themselves: no row of them goes through the JVM.

Parquet is cut between row groups, JSONL between lines, other files are read whole. Every row's place is told as the
in-process load tells it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headgate.errors import InvalidInput
from headgate.graph.load.sources import Chunk as Rows
from headgate.graph.load.sources import Rejected, chunks, file_format, json_lines, records, type_of_file
from headgate.graph.schema.model import Schema
from headgate.graph.storage import Location
from headgate.spark.staging import CHUNK_ROWS, SAMPLE, Chunk, Staging, Told, stage_chunks

_PIECE_ROWS = 1 << 19
_PIECE_BYTES = 32 << 20


@dataclass(frozen=True)
class Piece:
    """A part of a file that one task reads."""

    path: str
    form: str
    type: str | None
    first: int = 1
    """The number of its first row or line."""
    groups: tuple[int, ...] = ()
    start: int = 0
    end: int = 0
    rows: int = 0


def pieces_of(schema: Schema, path: Path, type_name: str | None) -> list[Piece]:
    """The pieces of a file, in its order."""
    form = file_format(path)
    if form == "jsonl":
        return list(_lines(path, type_name))
    name = type_of_file(schema, path, type_name)
    if form != "parquet":
        return [Piece(str(path), form, name)]
    return list(_row_groups(path, name))


def _row_groups(path: Path, name: str) -> Iterator[Piece]:
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise InvalidInput(message=f"{path} cannot be read: {error}", hint="it must be a parquet file") from error
    groups: list[int] = []
    first, rows = 1, 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        rows += metadata.row_group(number).num_rows
        if rows >= _PIECE_ROWS or number == metadata.num_row_groups - 1:
            yield Piece(str(path), "parquet", name, first, tuple(groups), rows=rows)
            groups, first, rows = [], first + rows, 0


def _lines(path: Path, type_name: str | None) -> Iterator[Piece]:
    size, start, line = path.stat().st_size, 0, 1
    with path.open("rb") as file:
        while start < size:
            block = file.read(_PIECE_BYTES)
            rest = b"" if block.endswith(b"\n") else file.readline()
            end = start + len(block) + len(rest)
            yield Piece(str(path), "jsonl", type_name, line, start=start, end=end)
            line += block.count(b"\n") + rest.count(b"\n")
            start = end


@dataclass(frozen=True)
class FileStaging:
    """What executors need to stage rows of files."""

    location: Location = field(repr=False)
    schema: Schema = field(repr=False)
    types: Mapping[str, Staging] = field(repr=False)
    rejects: str = ""

    def pieces(self, group: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Stage pieces one after the other; an answer for every type of each."""
        for piece in group:
            yield from self._piece(piece)

    def lines(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage a partition of lines of JSON that Spark has read."""
        rejected = self._rejected()
        lines = (line for batch in batches for line in batch.column(0).to_pylist() if line)
        numbered = json_lines(io.BytesIO("\n".join(lines).encode()), "line", rejected)
        yield from self._by_type(records(self.schema, numbered, "line", rejected), rejected)

    def _piece(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        rejected = self._rejected()
        name = Path(piece.path).name
        if piece.form == "jsonl":
            found = records(self.schema, _numbered(piece, rejected), name, rejected, piece.type)
            yield from self._by_type(found, rejected)
            return
        assert piece.type is not None
        whole = chunks(self.schema, Path(piece.path), type_name=piece.type, rejected=rejected)
        given = _parquet(piece) if piece.form == "parquet" else (_chunk(rows) for rows in whole)
        yield stage_chunks(self.types[piece.type], given, rejects=self.rejects).batch()

    def _by_type(self, found: Iterator[Rows], rejected: Rejected) -> Iterator[pa.RecordBatch]:
        by_type: dict[str, list[Rows]] = {}
        for rows in found:
            by_type.setdefault(rows.type, []).append(rows)
        for name, given in by_type.items():
            yield stage_chunks(self.types[name], [_chunk(rows) for rows in given], rejects=self.rejects).batch()
        if rejected.count:
            yield Told.unread(rejected, self.location, self.rejects).batch()

    def _rejected(self) -> Rejected:
        return Rejected(kept=1 << 40 if self.rejects else SAMPLE)


def _chunk(rows: Rows) -> Chunk:
    return Chunk(rows.rows, rows.place, rows.text)


def _parquet(piece: Piece) -> Iterator[Chunk]:
    import pyarrow.parquet as pq

    name, first = Path(piece.path).name, piece.first
    with pq.ParquetFile(piece.path, memory_map=True) as file:
        for batch in file.iter_batches(batch_size=CHUNK_ROWS, row_groups=list(piece.groups)):
            yield Chunk(pa.Table.from_batches([batch]), Rows("", [], name, first).place)
            first += batch.num_rows


def _numbered(piece: Piece, rejected: Rejected) -> Iterator[tuple[int, object]]:
    with Path(piece.path).open("rb") as file:
        file.seek(piece.start)
        block = io.BytesIO(file.read(piece.end - piece.start))
    yield from json_lines(block, Path(piece.path).name, rejected, first=piece.first)
