"""From matched rows to the result: properties fetched, groups aggregated, distinct, order, limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.query.read import CheckedRead, Ordering, Output
from headgate.graph.read.aggregate import aggregated, distinct_rows
from headgate.graph.read.bindings import Bindings, Bound
from headgate.graph.read.match import Matcher
from headgate.graph.schema.arrow import arrow_schema, arrow_type
from headgate.graph.schema.model import FLOATS, ID, Kind, TableType

_HIDDEN = "order "
"""Begins the name of a column that is there for the order alone; no output can have a space in its name."""


def project(
    read: CheckedRead, rows: Bindings, matcher: Matcher, types: Mapping[str, TableType], limit: int | None
) -> pa.Table:
    """The table a read returns."""
    if not read.is_aggregate and not read.distinct and not read.order and limit is not None:
        rows = rows.take(np.arange(min(limit, rows.count), dtype=np.int64))
    projection = _Projection(rows, matcher, types)
    if read.is_aggregate:
        table = projection.aggregates(read.outputs)
    elif read.distinct:
        table = projection.distinct(read.outputs)
    else:
        hidden = [(f"{_HIDDEN}{at}", order) for at, order in enumerate(read.order) if order.column is not None]
        columns = {output.name: projection.column(output) for output in read.outputs}
        columns |= {name: projection.property(order) for name, order in hidden}
        table = pa.table(columns) if columns else pa.table({})
    table = _ordered(table, read.order)
    table = table.select([output.name for output in read.outputs])
    return table.slice(0, limit) if limit is not None else table


def sorts_first(read: CheckedRead, limit: int | None) -> bool:
    """Whether the rows that are kept can be told by the order alone, before anything else is fetched."""
    return limit is not None and bool(read.order) and not read.is_aggregate and not read.distinct


def first_in_order(
    read: CheckedRead, rows: Bindings, matcher: Matcher, types: Mapping[str, TableType], limit: int | None
) -> Bindings:
    """The first rows in the read's order; only what the order looks at is fetched."""
    projection = _Projection(rows, matcher, types)
    outputs = {output.name: output for output in read.outputs}
    columns: dict[str, pa.Array] = {}
    for at, order in enumerate(read.order):
        name = f"{_HIDDEN}{at}" if order.column is not None else order.output
        columns[name] = projection.property(order) if order.column is not None else projection.column(outputs[name])
    numbered = pa.table({**columns, "row number": pa.array(np.arange(rows.count, dtype=np.int64))})
    chosen = _ordered(numbered, read.order).slice(0, limit)["row number"].combine_chunks()
    return projection.rows.take(chosen.to_numpy())


class _Projection:
    def __init__(self, rows: Bindings, matcher: Matcher, types: Mapping[str, TableType]) -> None:
        self._rows = rows
        self._matcher = matcher
        self._types = types
        self._bound: dict[str, Bound] = dict(rows.variables)

    @property
    def rows(self) -> Bindings:
        """The rows, with what was fetched for them."""
        return replace(self._rows, variables=dict(self._bound))

    def column(self, output: Output) -> pa.Array:
        """An output that is no aggregate, for every row."""
        if output.column is not None:
            return self._property(output.column.variable, output.column.column)
        bound = self._whole(output.variable)
        return self._structs(output.variable, bound, bound.places)

    def property(self, order: Ordering) -> pa.Array:
        assert order.column is not None
        return self._property(order.column.variable, order.column.column)

    def _property(self, variable: str, column: str) -> pa.Array:
        # All that will be asked of the variable, so that its table is read once.
        columns = (column, *self._matcher.needed.get(variable, ()))
        bound = self._bound[variable] = self._matcher.with_values(self._bound[variable], columns)
        return bound.gather(bound.ids.cast(pa.string()) if column == ID else bound.values[column])

    def _whole(self, variable: str) -> Bound:
        columns = tuple(arrow_schema(self._types[variable]).names)
        bound = self._bound[variable] = self._matcher.with_values(self._bound[variable], columns)
        return bound

    def _structs(self, variable: str, bound: Bound, places: Any) -> pa.Array:
        fields = [field.with_nullable(True).remove_metadata() for field in arrow_schema(self._types[variable])]
        arrays = [bound.ids.cast(pa.string()) if field.name == ID else bound.values[field.name] for field in fields]
        whole = pa.StructArray.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)], fields=fields
        )
        return replace(bound, places=places).gather(whole)

    def aggregates(self, outputs: tuple[Output, ...]) -> pa.Table:
        """One row for each group; the groups are what the outputs without an aggregate say."""
        if all(output.function == "count" and not output.distinct for output in outputs):
            return pa.table({output.name: pa.array([self._count(output)], pa.int64()) for output in outputs})
        inputs = {output.name: self._input(output) for output in outputs}
        table = aggregated(outputs, inputs, self._rows.count)
        return self._restored(table, outputs)

    def distinct(self, outputs: tuple[Output, ...]) -> pa.Table:
        inputs = {output.name: self._input(output) for output in outputs}
        return self._restored(distinct_rows(inputs), outputs)

    def _count(self, output: Output) -> int:
        if output.variable:
            return int(np.count_nonzero(self._bound[output.variable].places >= 0))
        if output.column is None:
            return self._rows.count
        values = self._property(output.column.variable, output.column.column)
        return int(len(values) - values.null_count)

    def _input(self, output: Output) -> pa.Array | None:
        """What a group is made by or an aggregate is made of; a row of a table goes by its place."""
        if output.column is not None:
            return self._property(output.column.variable, output.column.column)
        if not output.variable:
            return None
        bound = self._bound[output.variable] if output.function else self._whole(output.variable)
        return pa.array(bound.places, pa.int64(), mask=bound.places < 0)

    def _restored(self, table: pa.Table, outputs: tuple[Output, ...]) -> pa.Table:
        """The table in the outputs' own types, with rows in place of their places."""
        columns: dict[str, pa.Array] = {}
        for output in outputs:
            column = table[output.name].combine_chunks()
            if output.variable and not output.function:
                places = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
                columns[output.name] = self._structs(output.variable, self._bound[output.variable], places)
            else:
                columns[output.name] = column.cast(_type_of(output))
        return pa.table(columns)


def _type_of(output: Output) -> pa.DataType:
    """The column type of a property or aggregate."""
    if output.function == "count" or output.column is None:
        return pa.int64()
    declared = arrow_type(output.column.type)
    if output.function == "avg":
        return pa.float64()
    if output.function == "collect":
        return pa.list_(declared)
    if output.function == "sum":
        kind = output.column.type.kind
        return pa.float64() if kind in FLOATS else pa.uint64() if kind in (Kind.U32, Kind.U64) else pa.int64()
    return declared


def _ordered(table: pa.Table, order: tuple[Ordering, ...]) -> pa.Table:
    """The rows in order, nulls last whichever way it goes."""
    if not order or table.num_rows < 2:
        return table
    names = [f"{_HIDDEN}{at}" if item.column is not None else item.output for at, item in enumerate(order)]
    directions: dict[str, str] = {}
    for name, item in zip(names, order, strict=True):
        directions.setdefault(name, "descending" if item.descending else "ascending")
    keys = [(name, direction, "at_end") for name, direction in directions.items()]
    return table.take(pc.sort_indices(table.select(list(directions)), sort_keys=keys))
