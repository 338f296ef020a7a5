"""Running a checked read at one commit, and telling how it would run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.errors import InvalidInput, Problem
from headgate.graph.query.parameters import bind_parameters
from headgate.graph.query.predicate import all_of, bind, variables
from headgate.graph.query.read import CheckedRead
from headgate.graph.read.bindings import Bindings
from headgate.graph.read.match import Matcher
from headgate.graph.read.project import first_in_order, project, sorts_first
from headgate.graph.read.result import QueryResult
from headgate.graph.read.source import TableSource
from headgate.graph.read.tables import Event, Tables
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import NodeType, TableType


@dataclass(frozen=True)
class Profile:
    """A result, and every access to a table on the way to it."""

    result: QueryResult
    events: tuple[Event, ...]


def execute(
    source: TableSource,
    read: CheckedRead,
    params: Mapping[str, Any] | None = None,
    *,
    tables: Tables | None = None,
) -> QueryResult:
    """The result of a read with its parameters, at the commit of the source."""
    return profile(source, read, params, tables=tables).result


def profile(
    source: TableSource,
    read: CheckedRead,
    params: Mapping[str, Any] | None = None,
    *,
    tables: Tables | None = None,
) -> Profile:
    """The result, with what was read to get it."""
    values = bind_parameters(read.name, read.parameters, params)
    limit = _limit(read, values)
    tables = tables or Tables(source)
    alone = _one_table(read)
    if alone is not None and _only_counts(read):
        where = all_of([bind(item, values) for item in read.match.where])
        count = pa.array([tables.count(alone.name, where)], pa.int64())
        table = pa.table({output.name: count for output in read.outputs})
        table = table if limit is None else table.slice(0, limit)
    else:
        table = _matched(read, values, limit, tables, any_rows=alone is not None)
    return Profile(QueryResult(table, source.commit), tuple(tables.events))


def _matched(
    read: CheckedRead, values: Mapping[str, Any], limit: int | None, tables: Tables, *, any_rows: bool
) -> pa.Table:
    """The result of the match; `any_rows` where its rows are those of one table, so that a limit can cut the scan."""
    types = dict(read.match.brought())
    needed = needed_columns(read, types)
    matcher = Matcher(tables, values, needed)
    if any_rows and not (read.order or read.distinct or read.is_aggregate):
        matcher.first_rows = limit
    if not sorts_first(read, limit):
        return project(read, matcher.run(read.match, Bindings(), {}), matcher, types, limit)
    matcher.needed = {}
    rows = first_in_order(read, matcher.run(read.match, Bindings(), {}), matcher, types, limit)
    matcher.needed = needed
    return project(read, rows, matcher, types, limit)


def _one_table(read: CheckedRead) -> NodeType | None:
    """The node type of a match that is one variable with conditions of its own and nothing else."""
    match = read.match
    if len(match.nodes) != 1 or match.steps or match.late or match.optional or match.absent:
        return None
    (name, node) = match.nodes[0]
    return node if all(variables(item) == {name} for item in match.where) else None


def _only_counts(read: CheckedRead) -> bool:
    return all(output.function == "count" and output.column is None and not output.distinct for output in read.outputs)


def needed_columns(read: CheckedRead, types: Mapping[str, TableType]) -> dict[str, tuple[str, ...]]:
    """The properties of each variable that conditions across variables, outputs and the order look at."""
    needed: dict[str, dict[str, None]] = {name: {} for name in types}
    for output in read.outputs:
        if output.column is not None:
            needed[output.column.variable][output.column.column] = None
        elif output.variable and not output.function:
            needed[output.variable] |= dict.fromkeys(arrow_schema(types[output.variable]).names)
    for order in read.order:
        if order.column is not None:
            needed[order.column.variable][order.column.column] = None
    return {name: tuple(columns) for name, columns in needed.items()}


def _limit(read: CheckedRead, values: Mapping[str, Any]) -> int | None:
    limit = values[read.limit] if isinstance(read.limit, str) else read.limit
    if limit is not None and limit < 0:
        problem = Problem(f"${read.limit}", f"{limit} is no number of rows", "use a whole number from 0")
        raise InvalidInput(message=f"the parameters of {read.name} are wrong", problems=(problem,))
    return limit
