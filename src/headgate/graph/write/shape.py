"""Rows as they are given, brought into the shape their table declares; what does not fit is told row by row.

One place for mutations, loads and tasks: the value rules are the schema's, ids come from the key or are made up, and
an edge's ends are named by the keys of their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headgate.errors import InvalidInput, Problem
from headgate.graph.query.predicate import endpoint_id
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.keys import row_ids
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, Kind, NodeType, PropertyType, Schema, TableType
from headgate.graph.schema.values import BadValue, Rules, check_column
from headgate.graph.write.ids import fresh_ids
from headgate.ids import IdSource

FROM, TO = "from", "to"
_TEXT = PropertyType(Kind.STRING)


@dataclass(frozen=True)
class Shaped:
    """Rows in their table's columns. A row in `bad` is not to be written."""

    rows: pa.Table
    made_up: bool
    """Whether the ids were made up just now, so that no stored row can have one of them."""
    bad: Mapping[int, tuple[BadValue, ...]] = field(default_factory=dict)


def shape(
    schema: Schema,
    table: TableType,
    given: pa.Table | Sequence[Mapping[str, Any]],
    *,
    ids: IdSource,
    text: bool = False,
) -> Shaped:
    """Check and complete rows. Unknown columns are a mistake of the whole input and raise."""
    columns = _columns(given)
    if isinstance(table, EdgeType):
        for outer, inner in ((FROM, SRC), (TO, DST)):
            if outer in columns and inner not in columns:
                columns[inner] = columns.pop(outer)
    count = len(given) if not isinstance(given, pa.Table) else given.num_rows
    _refuse_unknown(table, columns)
    bad: dict[int, list[BadValue]] = {}
    done: dict[str, pa.Array] = {}
    if isinstance(table, EdgeType):
        for side, node in ((SRC, table.src), (DST, table.dst)):
            found = schema.find_node(node)
            assert found is not None
            done[side] = _endpoints(found, side, columns.pop(side, pa.nulls(count)), bad, text=text)
    for item in table.properties:
        rules = Rules.of(table, item)
        column = columns.get(item.name)
        if column is None:
            column = pa.nulls(count) if item.default is None else pa.array([item.default] * count)
        checked = check_column(rules, column, text=text)
        done[item.name] = checked.array
        _note(bad, checked.bad)
    made_up = False
    if table.key:
        done[ID] = row_ids([done[name] for name in table.key])
    elif ID in columns:
        checked = check_column(Rules(ID, _TEXT, nullable=True), columns[ID], text=text)
        _note(bad, checked.bad)
        done[ID] = _filled(checked.array, ids)
    else:
        done[ID], made_up = fresh_ids(ids, count), True
    declared = arrow_schema(table)
    if bad:
        # Bad values are null here; the rows are dropped before they are written.
        loose = pa.schema([column.with_nullable(True) for column in declared])
        rows = pa.table([done[name] for name in declared.names], schema=loose)
    else:
        rows = pa.table([done[name] for name in declared.names], schema=declared)
    return Shaped(rows, made_up, {row: tuple(reasons) for row, reasons in bad.items()})


def _columns(given: pa.Table | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if isinstance(given, pa.Table):
        return {name: given[name] for name in given.column_names}
    names = dict.fromkeys(name for row in given for name in row)
    return {name: _loose_array([row.get(name) for row in given]) for name in names}


def _loose_array(values: list[Any]) -> Any:
    """Values as Arrow where they agree on a type; else as they are, for the row-by-row pass."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
        return Mixed(values)


class Mixed:
    """A column whose values have no common Arrow type."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self.type = pa.null() if not values else _NO_TYPE

    def to_pylist(self) -> list[Any]:
        return self._values

    def __len__(self) -> int:
        return len(self._values)


_NO_TYPE = pa.struct([])


def _refuse_unknown(table: TableType, columns: Mapping[str, Any]) -> None:
    known = {*table.system_columns, *(item.name for item in table.properties)}
    unknown = [name for name in columns if name not in known]
    if unknown:
        has = ", ".join(item.name for item in table.properties) or "no properties"
        raise InvalidInput(
            message=f"{table.name} has no property {', '.join(unknown)}",
            problems=tuple(Problem(where=name, message=f"is not a property of {table.name}") for name in unknown),
            hint=f"{table.name} has: {has}",
        )


def _endpoints(node: NodeType, side: str, column: Any, bad: dict[int, list[BadValue]], *, text: bool) -> pa.Array:
    """The ids of the nodes that a column of key values names."""
    if len(node.key) <= 1:
        declared = node.property(node.key[0]).type if node.key else _TEXT
        checked = check_column(Rules(side, declared), column, text=text)
        _note(bad, checked.bad)
        return row_ids([checked.array])
    out: list[str | None] = []
    for row, value in enumerate(column.to_pylist()):
        try:
            if value is None:
                raise BadValue("required", f"{side} is required and must name a {node.name}")
            out.append(endpoint_id(node, value))
        except BadValue as problem:
            bad.setdefault(row, []).append(problem)
            out.append(None)
    return pa.array(out, pa.string())


def _filled(column: pa.Array, ids: IdSource) -> pa.Array:
    if not column.null_count:
        return column
    return pa.array([value if value is not None else ids.new() for value in column.to_pylist()], pa.string())


def _note(bad: dict[int, list[BadValue]], found: Mapping[int, BadValue]) -> None:
    for row, problem in found.items():
        bad.setdefault(row, []).append(problem)
