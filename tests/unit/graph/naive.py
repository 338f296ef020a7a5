"""What a query means, as plainly as it can be said: try every assignment of rows to variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from tests.unit.graph.tables import Rows

from headgate.graph.query.predicate import (
    AllOf,
    Always,
    AnyOf,
    ColumnRef,
    Comparison,
    Constant,
    InSet,
    IsNull,
    Predicate,
    Slot,
    TextTest,
)
from headgate.graph.query.read import CheckedRead, Match, Output, Step
from headgate.graph.schema.model import TableType

Row = dict[str, Any]
Binding = dict[str, Row | None]


class Naive:
    def __init__(self, rows: Rows, values: Mapping[str, Any]) -> None:
        self._rows = rows
        self._values = values

    def run(self, read: CheckedRead) -> list[Row]:
        """The result rows without order and limit."""
        bindings = list(self._match(read.match, {}))
        if not read.is_aggregate:
            made = [{output.name: self._value(output, binding) for output in read.outputs} for binding in bindings]
            return _unique(made) if read.distinct else made
        groups: dict[str, list[Binding]] = {}
        keys = [output for output in read.outputs if not output.function]
        for binding in bindings:
            groups.setdefault(repr([self._value(key, binding) for key in keys]), []).append(binding)
        if not keys:
            groups.setdefault("[]", [])
        made = []
        for members in groups.values():
            row = {
                output.name: self._aggregate(output, members) if output.function else self._value(output, members[0])
                for output in read.outputs
            }
            made.append(row)
        return made

    def _match(self, match: Match, around: Binding) -> Iterator[Binding]:
        for binding in self._core(match, around):
            extended = [binding]
            for inner in match.optional:
                names = [name for name, _ in inner.brought()]
                extended = [
                    found
                    for base in extended
                    for found in (list(self._match(inner, base)) or [{**base, **dict.fromkeys(names)}])
                ]
            for found in extended:
                if all(self._holds(item, found) for item in match.late) and not any(
                    next(self._match(inner, found), None) is not None for inner in match.absent
                ):
                    yield found

    def _core(self, match: Match, around: Binding) -> Iterator[Binding]:
        names = [name for name, _ in match.nodes]
        for chosen in product(*(self._rows.get(node.name, []) for _, node in match.nodes)):
            nodes: Binding = {**around, **dict(zip(names, chosen, strict=True))}
            for binding in self._steps(match.steps, nodes):
                if all(self._holds(item, binding) for item in match.where):
                    yield binding

    def _steps(self, steps: tuple[Step, ...], binding: Binding) -> Iterator[Binding]:
        if not steps:
            yield binding
            return
        step, rest = steps[0], steps[1:]
        src, dst = binding[step.src], binding[step.dst]
        if src is None or dst is None:
            return
        edges = self._rows.get(step.edge.name, [])
        if step.edge_variable:
            for edge in edges:
                if edge["src"] == src["id"] and edge["dst"] == dst["id"]:
                    yield from self._steps(rest, {**binding, step.edge_variable: edge})
        elif self._joined(edges, src["id"], dst["id"], step):
            yield from self._steps(rest, binding)

    def _joined(self, edges: list[Row], src: str, dst: str, step: Step) -> bool:
        low, high = (step.hops.min, step.hops.max) if step.hops else (1, 1)
        reached = {src}
        for length in range(1, (high or len(edges) + 1) + 1):
            reached = {edge["dst"] for edge in edges if edge["src"] in reached}
            if length >= low and dst in reached:
                return True
        return False

    def _holds(self, predicate: Predicate, binding: Binding) -> bool:
        match predicate:
            case Always(holds):
                return holds
            case AllOf(parts):
                return all(self._holds(part, binding) for part in parts)
            case AnyOf(parts):
                return any(self._holds(part, binding) for part in parts)
            case IsNull(term, negated):
                return (self._term(term, binding) is None) != negated
            case _:
                left, right = self._term(predicate.left, binding), self._term(predicate.right, binding)
                return left is not None and right is not None and self._test(predicate, left, right)

    def _test(self, leaf: Comparison | InSet | TextTest, left: Any, right: Any) -> bool:
        match leaf:
            case Comparison(op=op):
                return bool(
                    {"=": left == right, "!=": left != right}[op]
                    if op in ("=", "!=")
                    else {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]
                )
            case InSet(negated=negated):
                return (left in right) != negated
            case TextTest(test=test, negated=negated):
                return (right in left if test == "contains" else left.startswith(right)) != negated

    def _term(self, term: Any, binding: Binding) -> Any:
        match term:
            case ColumnRef():
                row = binding[term.variable]
                return None if row is None else row.get(term.column)
            case Constant(value):
                return value
            case Slot(parameter):
                return self._values[parameter]

    def _value(self, output: Output, binding: Binding) -> Any:
        if output.column is not None:
            return self._term(output.column, binding)
        return binding[output.variable]

    def _aggregate(self, output: Output, members: list[Binding]) -> Any:
        if output.column is None and not output.variable:
            return len(members)
        found = [value for binding in members if (value := self._value(output, binding)) is not None]
        if output.distinct:
            found = _unique(found)
        match output.function:
            case "count":
                return len(found)
            case "collect":
                return sorted(found, key=repr)
            case "sum":
                return sum(found) if found else None
            case "avg":
                return sum(found) / len(found) if found else None
            case "min":
                return min(found) if found else None
            case _:
                return max(found) if found else None


def _unique(values: list[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())


def whole_rows(rows: Rows, tables: list[TableType]) -> Rows:
    """Rows with every column there, as a table gives them back."""
    return {
        table.name: [
            {name: row.get(name) for name in (*table.system_columns, *(p.name for p in table.properties))}
            for row in rows.get(table.name, [])
        ]
        for table in tables
    }
