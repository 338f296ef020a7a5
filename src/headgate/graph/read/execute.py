"""Running a checked read at one commit, and telling how it would run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.errors import InvalidInput, Problem
from headgate.graph.query.parameters import bind_parameters
from headgate.graph.query.read import CheckedRead
from headgate.graph.read.bindings import Bindings
from headgate.graph.read.match import Matcher
from headgate.graph.read.project import project
from headgate.graph.read.result import QueryResult
from headgate.graph.read.source import TableSource
from headgate.graph.read.tables import Event, Tables
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import TableType


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
    types = dict(read.match.brought())
    matcher = Matcher(tables or Tables(source), values, needed_columns(read, types))
    rows = matcher.run(read.match, Bindings(), {})
    table = project(read, rows, matcher, types, limit)
    return Profile(QueryResult(table, source.commit), tuple(matcher.tables.events))


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
