"""What a read returns and in which order: columns, aggregates, and the names they go by."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.graph.language.diagnostics import Diagnostics, Span, nearest
from headgate.graph.query import syntax as q
from headgate.graph.query.columns import find_column
from headgate.graph.query.predicate import ColumnRef
from headgate.graph.query.read import Ordering, Output
from headgate.graph.schema.model import NUMBERS, PropertyType, TableType

AGGREGATES = ("avg", "collect", "count", "max", "min", "sum")
_NUMERIC = ("avg", "sum")
_ORDERED = ("max", "min")

Known = Mapping[str, TableType]
Parameters = Mapping[str, q.Parameter]


def read_outputs(
    body: q.Read, known: Known, parameters: Parameters, diagnostics: Diagnostics, at: Span
) -> tuple[Output, ...]:
    """The columns of the result, each with a name of its own."""
    if not body.items:
        diagnostics.add(at, "return { } returns nothing", "name what to return, such as $a.name")
    outputs: list[Output] = []
    for item in body.items:
        made = _output(item, known, parameters, diagnostics)
        if made is None:
            continue
        if any(other.name.casefold() == made.name.casefold() for other in outputs):
            diagnostics.add(item.at, f"two columns are named {made.name}", "give one a name with as")
        outputs.append(made)
    return tuple(outputs)


def _output(item: q.Item, known: Known, parameters: Parameters, diagnostics: Diagnostics) -> Output | None:
    value = item.value
    if isinstance(value, q.Aggregate):
        return _aggregate(value, item.alias, known, parameters, diagnostics)
    if isinstance(value, q.Variable):
        found = _variable(value, known, diagnostics)
        return None if found is None else Output(item.alias or value.name, variable=value.name)
    column = find_column(value, known, parameters, diagnostics)
    return None if column is None else Output(item.alias or column.name, column)


def _variable(value: q.Variable, known: Known, diagnostics: Diagnostics) -> TableType | None:
    found = known.get(value.name)
    if found is None:
        names = [f"${name}" for name in known]
        diagnostics.add(value.at, f"the match binds no ${value.name}", nearest(f"${value.name}", names))
    return found


def _aggregate(
    value: q.Aggregate, alias: str | None, known: Known, parameters: Parameters, diagnostics: Diagnostics
) -> Output | None:
    name = alias or value.function
    if value.function not in AGGREGATES:
        message = f"there is no aggregate {value.function}"
        diagnostics.add(value.at, message, nearest(value.function, AGGREGATES))
        return None
    if isinstance(value.argument, q.Aggregate):
        diagnostics.add(value.at, "an aggregate of an aggregate has no meaning here", "aggregate a property")
        return None
    if value.argument is None:
        if value.function != "count" or value.distinct:
            diagnostics.add(value.at, f"only count takes *, without distinct, and this is {value.function}")
        return Output(name, function="count")
    if isinstance(value.argument, q.Variable):
        found = _variable(value.argument, known, diagnostics)
        if found is not None and value.function != "count":
            diagnostics.add(value.at, f"{value.function} takes a property", f"such as ${value.argument.name}.id")
        return Output(name, variable=value.argument.name, function=value.function, distinct=value.distinct)
    column = find_column(value.argument, known, parameters, diagnostics)
    if column is None:
        return None
    _check_argument(value, column.type, diagnostics)
    return Output(name, column, function=value.function, distinct=value.distinct)


def _check_argument(value: q.Aggregate, declared: PropertyType, diagnostics: Diagnostics) -> None:
    if value.function in _NUMERIC and (declared.kind not in NUMBERS or declared.is_list):
        diagnostics.add(value.at, f"{value.function} takes numbers, and this is {declared}", "count it instead")
    elif value.function in _ORDERED and not declared.is_ordered:
        diagnostics.add(value.at, f"a {declared} has no order for {value.function}", "count it instead")
    elif value.distinct and (declared.is_list or not declared.is_ordered) and declared.kind != "Bool":
        diagnostics.add(value.at, f"distinct does not work on a {declared}", "remove distinct")


def read_order(
    body: q.Read, outputs: tuple[Output, ...], known: Known, diagnostics: Diagnostics
) -> tuple[Ordering, ...]:
    """The orderings; what is returned grouped or distinct can only be ordered by what is returned."""
    names = {output.name: output for output in outputs}
    grouped = body.distinct or any(output.function for output in outputs)
    made: list[Ordering] = []
    for sort in body.order:
        if isinstance(sort.by, q.Column):
            found = names.get(sort.by.name)
            if found is None:
                hint = nearest(sort.by.name, names)
                diagnostics.add(sort.by.at, f"the result has no column {sort.by.name}", hint)
                continue
        else:
            column = find_column(sort.by, known, {}, diagnostics)
            if column is None:
                continue
            found = next((output for output in outputs if output.column == column and not output.function), None)
            if found is None:
                if grouped:
                    what = f"${sort.by.variable}.{sort.by.name} is not returned, so a group has no one value of it"
                    diagnostics.add(sort.by.at, what, "return it, or order by what is returned")
                _check_order(column, sort.by.at, diagnostics)
                made.append(Ordering(column=column, descending=sort.descending))
                continue
        _check_output_order(found, sort.by.at, diagnostics)
        made.append(Ordering(output=found.name, descending=sort.descending))
    return tuple(made)


def _check_output_order(output: Output, at: Span, diagnostics: Diagnostics) -> None:
    if output.function == "collect" or (output.variable and not output.function):
        diagnostics.add(at, f"{output.name} has no order", "order by a property")
    elif output.column is not None and not output.function:
        _check_order(output.column, at, diagnostics)


def _check_order(column: ColumnRef, at: Span, diagnostics: Diagnostics) -> None:
    if not column.type.is_ordered and column.type.kind != "Bool":
        diagnostics.add(at, f"a {column.type} has no order", "order by another property")
