"""Groups and aggregates, by DuckDB over Arrow columns in memory."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa
from sqlglot import exp

from headgate.errors import InvalidInput
from headgate.graph.query.read import Output
from headgate.graph.read.database import cursor
from headgate.graph.schema.model import FLOATS, Kind

_ROWS = "matched"


def aggregated(outputs: tuple[Output, ...], inputs: Mapping[str, pa.Array | None], count: int) -> pa.Table:
    """The outputs for each group of rows; without group columns there is one group, even of no rows."""
    query = exp.select(*(_result(output).as_(output.name, quoted=True) for output in outputs))
    groups = [output.name for output in outputs if not output.function]
    query = query.from_(exp.to_table(_ROWS))
    if groups:
        query = query.group_by(*(exp.column(name, quoted=True) for name in groups))
    try:
        return _run(query, inputs, count)
    except duckdb.OutOfRangeException as error:
        raise InvalidInput(
            message="a sum leaves the range of its 64-bit type", hint="sum a floating-point property, or use SQL"
        ) from error


def distinct_rows(inputs: Mapping[str, pa.Array | None]) -> pa.Table:
    """Each row once."""
    count = next((len(array) for array in inputs.values() if array is not None), 0)
    columns = (exp.column(name, quoted=True) for name in inputs)
    return _run(exp.select(*columns).distinct().from_(exp.to_table(_ROWS)), inputs, count)


def _result(output: Output) -> exp.Expression:
    column = exp.column(output.name, quoted=True)
    if not output.function:
        return column
    if output.column is None and not output.variable:
        return exp.Count(this=exp.Star())
    argument = exp.Distinct(expressions=[column]) if output.distinct else column
    if output.function == "collect":
        kept = exp.Not(this=exp.Is(this=column, expression=exp.Null()))
        gathered = exp.Filter(this=exp.Anonymous(this="list", expressions=[argument]), expression=exp.Where(this=kept))
        return exp.Coalesce(this=gathered, expressions=[exp.Array()])
    made = {"count": exp.Count, "sum": exp.Sum, "avg": exp.Avg, "min": exp.Min, "max": exp.Max}[output.function]
    call: exp.Expression = made(this=argument)
    if output.function == "sum" and output.column is not None and output.column.type.kind not in FLOATS:
        unsigned = output.column.type.kind in (Kind.U32, Kind.U64)
        return exp.Cast(this=call, to=exp.DataType.build("ubigint" if unsigned else "bigint", dialect="duckdb"))
    return call


def _run(query: exp.Expression, inputs: Mapping[str, pa.Array | None], count: int) -> pa.Table:
    columns = {name: array for name, array in inputs.items() if array is not None}
    # A table without columns has no rows for DuckDB, so there is always one.
    table = pa.table({**columns, "row number": pa.nulls(count, pa.int8())})
    with cursor() as connection:
        connection.register(_ROWS, table)
        return connection.sql(query.sql(dialect="duckdb")).to_arrow_table()
