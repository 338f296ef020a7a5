"""SQL over a graph at one commit: every type is a view, and DuckDB's filters and columns are handed on to Lance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from headgate.errors import HeadgateError, InvalidInput, Unsupported
from headgate.graph.language.diagnostics import nearest
from headgate.graph.read.database import cursor
from headgate.graph.read.result import QueryResult
from headgate.graph.read.source import TableSource
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import TableType

_NO_SUCH_TABLE = re.compile(r"Table with name (\S+) does not exist")
_NOT_PUSHED = "not yet supported by Substrait"
"""What Lance says of a filter on a type it has no Substrait form for, such as unsigned numbers."""


def run_sql(source: TableSource, text: str, params: Mapping[str, Any] | None = None) -> QueryResult:
    """The result of one SELECT; parameters are written `$name`."""
    with cursor() as connection:
        for table in source.schema.tables():
            connection.register(table.name, TypeView(source, table))
        try:
            _check_statement(connection, text)
            relation = connection.sql(text, params=dict(params) if params else None)
            return QueryResult(relation.to_arrow_table(), source.commit)
        except duckdb.Error as error:
            raise _told(error, source) from error


class TypeView(pads.Dataset):  # type: ignore[misc]
    """A type's table as DuckDB scans it: opened when it is read, with columns and filter pushed down."""

    def __init__(self, source: TableSource, table: TableType) -> None:
        self._source = source
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._table).remove_metadata()

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **options: Any) -> pads.Scanner:  # noqa: A002
        dataset = self._source.dataset(self._table.name)
        try:
            reader = dataset.scanner(columns=columns or self.schema.names, filter=filter).to_reader()
        except ValueError as error:
            if filter is None or _NOT_PUSHED not in str(error):
                raise
            reader = dataset.scanner(columns=self._read_for(columns, filter)).to_reader()
            return pads.Scanner.from_batches(reader, columns=columns, filter=filter)
        return pads.Scanner.from_batches(reader)

    def _read_for(self, columns: list[str] | None, condition: Any) -> list[str]:
        """The columns to read so that a filter can be applied afterwards: those asked for, and those it names."""
        names = self.schema.names
        told = str(condition)
        return [name for name in names if columns is None or name in columns or name in told]


def _check_statement(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        raise InvalidInput(message=f"the SQL holds {len(statements)} statements", hint="write one SELECT")
    kind = statements[0].type
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise Unsupported(
            message=f"SQL reads a graph, and this is {str(kind).rpartition('.')[2]}",
            hint="write SELECT; change the graph with a mutation or a load",
        )


def _told(error: duckdb.Error, source: TableSource) -> HeadgateError:
    message = str(error).strip()
    missing = _NO_SUCH_TABLE.search(message)
    if missing:
        known = [table.name for table in source.schema.tables()]
        return InvalidInput(message=f"there is no type {missing.group(1)}", hint=nearest(missing.group(1), known))
    return InvalidInput(message=f"the SQL cannot be run: {message}", hint="each type is a view of its name")
