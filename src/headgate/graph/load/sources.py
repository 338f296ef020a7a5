"""Chunks of rows, each of one type, from whatever a load is given; what cannot be read is told with its line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from headgate.errors import InvalidInput, NotFound, Problem, Unsupported
from headgate.graph.language.diagnostics import nearest
from headgate.graph.schema.model import ID, EdgeType, Schema, TableType

Source: TypeAlias = "str | Path | pa.Table | pa.RecordBatchReader | Sequence[Mapping[str, Any]] | Mapping[str, Any]"
CHUNK_ROWS = 1 << 17
LONGEST_LINE = 64 << 20
_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


@dataclass(frozen=True)
class Chunk:
    """Rows of one type, and where each of them stands."""

    type: str
    rows: pa.Table | list[dict[str, Any]]
    input: str
    first: int = 1
    """The place of the first row, where places go up by one."""
    places: list[int] | None = None
    text: bool = False
    """The values are text whose types are the schema's to say."""

    def place(self, row: int) -> str:
        at = self.places[row] if self.places is not None else self.first + row
        return f"{self.input}:{at}"


@dataclass
class Rejected:
    """Rows that were refused so far: the first ones in full, all of them counted."""

    kept: int = 1000
    count: int = 0
    problems: list[Problem] = field(default_factory=list)

    def add(self, where: str, message: str) -> None:
        self.count += 1
        if len(self.problems) < self.kept:
            self.problems.append(Problem(where=where, message=message))


def chunks(schema: Schema, source: Source, *, type_name: str | None, rejected: Rejected) -> Iterator[Chunk]:
    """Everything a source holds."""
    if isinstance(source, str | Path):
        yield from _file(schema, Path(source), type_name, rejected)
    elif isinstance(source, Mapping):
        for name, rows in source.items():
            yield from chunks(schema, rows, type_name=name, rejected=rejected)
    elif isinstance(source, pa.Table):
        name = _named(schema, type_name, "an Arrow table")
        for start in range(0, source.num_rows, CHUNK_ROWS):
            yield Chunk(name, source.slice(start, CHUNK_ROWS), name, first=start + 1)
    elif isinstance(source, pa.RecordBatchReader):
        yield from _batches(_named(schema, type_name, "a record batch reader"), source, "row")
    else:
        if type_name is None:
            yield from records(schema, enumerate(source, 1), "row", rejected)
        else:
            name = _named(schema, type_name, "rows")
            for start in range(0, len(source), CHUNK_ROWS):
                rows = [dict(row) for row in source[start : start + CHUNK_ROWS]]
                yield Chunk(name, rows, name, first=start + 1)


def file_format(path: Path) -> str:
    """The format that a file's name tells: jsonl, csv, parquet or arrow."""
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(_FORMATS)
        raise Unsupported(message=f"{path} has no known format", hint=f"its name must end in one of {known}")
    if not path.is_file():
        raise NotFound(message=f"there is no file {path}", kind="file", name=str(path), hint="check the path")
    return kind


def type_of_file(schema: Schema, path: Path, type_name: str | None) -> str:
    """The type of a file's rows: the one that is named, or the one that the file is named after."""
    return _named(schema, type_name or _type_of(schema, path), str(path))


def _file(schema: Schema, path: Path, type_name: str | None, rejected: Rejected) -> Iterator[Chunk]:
    kind = file_format(path)
    if kind == "jsonl":
        with path.open("rb") as file:
            yield from records(schema, json_lines(file, path.name, rejected), path.name, rejected, type_name)
        return
    name = type_of_file(schema, path, type_name)
    try:
        if kind == "csv":
            yield from _csv(schema, path, name)
        elif kind == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(path, memory_map=True) as parquet:
                yield from _batches(name, parquet.iter_batches(batch_size=CHUNK_ROWS), path.name)
        else:
            with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as stored:
                numbers = range(stored.num_record_batches)
                yield from _batches(name, (stored.get_batch(number) for number in numbers), path.name)
    except pa.ArrowInvalid as error:
        raise InvalidInput(message=f"{path} cannot be read: {error}", hint=f"it must be a {kind} file") from error


def _type_of(schema: Schema, path: Path) -> str | None:
    """The type that a file is named after."""
    return next((table.name for table in schema.tables() if table.name.lower() == path.stem.lower()), None)


def _named(schema: Schema, name: str | None, what: str) -> str:
    known = ", ".join(table.name for table in schema.tables())
    if name is None:
        raise InvalidInput(message=f"{what} does not say which type its rows have", hint=f"name one of: {known}")
    if schema.find(name) is None:
        raise NotFound(message=f"there is no type {name}", kind="type", name=name, hint=f"the graph has: {known}")
    return name


def _batches(name: str, batches: Iterable[pa.RecordBatch], told: str) -> Iterator[Chunk]:
    first = 1
    for batch in batches:
        yield Chunk(name, pa.Table.from_batches([batch]), told, first=first)
        first += batch.num_rows


def _csv(schema: Schema, path: Path, name: str) -> Iterator[Chunk]:
    from pyarrow import csv

    with path.open("rb") as file:
        header = csv.open_csv(path).schema.names if file.read(1) else []
    if not header:
        return
    options = csv.ConvertOptions(
        column_types={column: pa.string() for column in header}, strings_can_be_null=True, null_values=[""]
    )
    first = 2
    with csv.open_csv(path, read_options=csv.ReadOptions(block_size=16 << 20), convert_options=options) as reader:
        for batch in reader:
            yield Chunk(name, pa.Table.from_batches([batch]), path.name, first=first, text=True)
            first += batch.num_rows


def json_lines(file: BinaryIO, told: str, rejected: Rejected, *, first: int = 1) -> Iterator[tuple[int, Any]]:
    """Each line with its number; `first` is the number of the first."""
    loads = json.loads
    number = first - 1
    while line := file.readline(LONGEST_LINE):
        number += 1
        if len(line) >= LONGEST_LINE and not line.endswith(b"\n"):
            while rest := file.readline(LONGEST_LINE):
                if rest.endswith(b"\n"):
                    break
            rejected.add(f"{told}:{number}", f"the line is longer than {LONGEST_LINE >> 20} MiB")
            continue
        if line.isspace():
            continue
        try:
            yield number, loads(line)
        except (ValueError, RecursionError) as error:
            rejected.add(f"{told}:{number}", f"is not JSON: {error}")


class _Gathered:
    """The rows of one type that have been read and not handed on."""

    def __init__(self, table: TableType) -> None:
        self.table = table
        names = {item.name for item in table.properties}
        self.known = names if table.key else names | {ID}
        self.rows: list[dict[str, Any]] = []
        self.places: list[int] = []


def records(
    schema: Schema,
    given: Iterable[tuple[int, Any]],
    told: str,
    rejected: Rejected,
    type_name: str | None = None,
) -> Iterator[Chunk]:
    """Rows of numbered records that say their type, or have the one that is named."""
    gathered: dict[str, _Gathered] = {}
    for number, record in given:
        try:
            name, row = _record(record, type_name)
            group = gathered.get(name)
            if group is None:
                group = gathered[name] = _Gathered(_type(schema, name, edge="edge" in record))
            known = group.known
            if not known >= row.keys() - _ENDS:
                raise _Unreadable(_unknown(group.table, row))
        except _Unreadable as problem:
            rejected.add(f"{told}:{number}", str(problem))
            continue
        group.rows.append(row)
        group.places.append(number)
        if len(group.rows) >= CHUNK_ROWS:
            yield Chunk(name, group.rows, told, places=group.places)
            group.rows, group.places = [], []
    for name, group in gathered.items():
        if group.rows:
            yield Chunk(name, group.rows, told, places=group.places)


_ENDS = {"from", "to"}


class _Unreadable(Exception):
    pass


def _record(record: Any, type_name: str | None) -> tuple[str, dict[str, Any]]:
    """The type and the row of one line."""
    if not isinstance(record, dict):
        raise _Unreadable('must be an object such as {"type": …, "data": {…}}')
    if "type" in record and "data" in record:
        name, row = record["type"], record["data"]
    elif "edge" in record:
        if "from" not in record or "to" not in record:
            raise _Unreadable('an edge needs "from" and "to"')
        name = record["edge"]
        row = {**(record.get("data") or {}), "from": record["from"], "to": record["to"]}
    elif type_name is not None:
        return type_name, record
    else:
        raise _Unreadable('needs "type" and "data", or "edge", "from" and "to"')
    if not isinstance(name, str) or not isinstance(row, dict):
        raise _Unreadable('"type" must be a name and "data" an object')
    return name, row


def _type(schema: Schema, name: str, *, edge: bool) -> TableType:
    found = schema.find(name)
    if found is None:
        close = nearest(name, [table.name for table in schema.tables()])
        raise _Unreadable(f"there is no type {name}" + (f"; {close}" if close else ""))
    if edge != isinstance(found, EdgeType):
        wanted = '"edge", "from" and "to"' if not edge else '"type" and "data"'
        raise _Unreadable(f"{name} is written with {wanted}")
    return found


def _unknown(table: TableType, row: Mapping[str, Any]) -> str:
    names = {item.name for item in table.properties} | ({"from", "to"} if isinstance(table, EdgeType) else set())
    unknown = sorted(set(row) - names - ({ID} if not table.key else set()))
    return f"{table.name} has no property {', '.join(unknown)}"
