"""Rows of a pinned snapshot as a DataFrame: one partition a fragment or split, conditions asked of Lance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.errors import InvalidInput, NotFound
from headgate.graph.language.diagnostics import nearest
from headgate.graph.storage import Location
from headgate.graph.storage.lance_errors import as_error
from headgate.graph.write.base import Base
from headgate.spark.pinned import Column, Fragment, Pinned, Split
from headgate.spark.types import spark_columns
from headgate.spark.work import TableRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "headgate"
STORAGE = "storage."
"""The prefix of options that reach an object store."""
_BATCH_ROWS = 1 << 16


def pinned(base: Base, name: str, columns: Sequence[str] | None = None) -> Pinned:
    """A type at the base's commit, with the columns that are wanted, or all."""
    declared = base.type(name)
    known = spark_columns(declared)
    wanted = tuple(columns) if columns else tuple(known)
    unknown = [column for column in wanted if column not in known]
    if unknown:
        raise InvalidInput(
            message=f"{name} has no column {', '.join(unknown)}",
            hint=nearest(unknown[0], list(known)) or f"it has: {', '.join(known)}",
        )
    kinds = dict.fromkeys(declared.system_columns, "String")
    kinds |= {item.name: "" if item.type.is_list else item.type.kind.value for item in declared.properties}
    row, pin = base.tables[name]
    fragments = base.snapshot(name).dataset.get_fragments()
    return Pinned(
        graph=base.store.location.uri,
        path=row.path,
        fork=pin.fork,
        version=pin.version,
        commit=base.commit,
        type=name,
        columns=tuple(Column(column, spark_type, kinds[column]) for column, spark_type in known.items()),
        wanted=wanted,
        fragments=tuple(Fragment(int(one.fragment_id), int(one.count_rows())) for one in fragments),
    )


def read_split(
    what: Pinned, storage: Mapping[str, str], split: Split, conditions: Sequence[str], target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in exactly the Arrow types that Spark expects."""
    table = TableRef(Location(what.graph, dict(storage)), what.path, what.fork, what.version)
    where = " AND ".join(f"({one})" for one in conditions) or None
    try:
        dataset = table.open().dataset
        bounds = {} if where else {"offset": split.start, "limit": split.rows}
        scanner = dataset.scanner(
            columns=list(what.wanted),
            filter=where,
            fragments=[dataset.get_fragment(split.fragment)],
            batch_size=_BATCH_ROWS,
            **bounds,
        )
        for batch in scanner.to_batches():
            if batch.num_rows:
                columns = [_cast(batch.column(place), field.type) for place, field in enumerate(target)]
                yield pa.RecordBatch.from_arrays(columns, schema=target)
    except NotFound as gone:
        raise _gone(what, gone.message) from gone
    except (OSError, ValueError) as error:
        found = as_error(error, doing=f"read {what.type} at {what.commit}")
        raise (_gone(what, found.message) if isinstance(found, NotFound) else found) from error


def _gone(what: Pinned, reason: str) -> NotFound:
    return NotFound(
        message=f"the snapshot {what.commit} is gone: {reason}",
        kind="commit",
        name=what.commit,
        hint="read a newer commit; cleanup has removed this one",
    )


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted)


def read_frame(spark: SparkSession, base: Base, type_name: str, *, columns: Sequence[str] | None = None) -> DataFrame:
    """A type at a commit, as a DataFrame that conditions are pushed into."""
    return read_pinned(spark, base, pinned(base, type_name, columns))


def read_pinned(spark: SparkSession, base: Base, what: Pinned) -> DataFrame:
    from headgate.spark.source import register_source

    register_source(spark)
    location = base.store.location
    reach: dict[str, Any] = {f"{STORAGE}{name}": value for name, value in location.options.items()}
    options = {"graph": location.uri, "type": what.type, "pinned": what.to_text(), **reach}
    return spark.read.format(FORMAT).options(**options).load()
