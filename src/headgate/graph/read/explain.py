"""How a query would run, in words: where it starts, which way each step goes, what is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.graph.query.lance_sql import lance_sql
from headgate.graph.query.parameters import bind_parameters
from headgate.graph.query.predicate import FALSE, TRUE, Predicate, all_of, bind, column_refs, variables
from headgate.graph.query.read import CheckedRead, Match, Step
from headgate.graph.read.execute import needed_columns
from headgate.graph.read.source import TableSource
from headgate.graph.read.start import Rank, rank, start_condition
from headgate.graph.read.tables import Tables
from headgate.graph.schema.model import DST, ID, SRC, NodeType


def explain(
    source: TableSource, read: CheckedRead, params: Mapping[str, Any] | None = None, *, tables: Tables | None = None
) -> list[str]:
    """The plan, a line for each thing that is done, inner blocks indented."""
    values = bind_parameters(read.name, read.parameters, params)
    plan = _Plan(tables or Tables(source), values)
    plan.block(read.match, set(), "")
    for name, columns in needed_columns(read, dict(read.match.brought())).items():
        if columns and columns != (ID,):
            plan.lines.append(f"fetch    ${name}: {', '.join(columns)}")
    plan.lines += _ending(read, values)
    return plan.lines


def _ending(read: CheckedRead, values: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if read.is_aggregate:
        groups = [output.name for output in read.outputs if not output.function]
        made = [output.name for output in read.outputs if output.function]
        by = f" by {', '.join(groups)}" if groups else ""
        lines.append(f"group    {', '.join(made)}{by}")
    if read.distinct:
        lines.append("distinct")
    if read.order:
        parts = [
            f"{order.column.name if order.column else order.output}{' desc' if order.descending else ''}"
            for order in read.order
        ]
        lines.append(f"order    {', '.join(parts)}")
    if read.limit is not None:
        lines.append(f"limit    {values[read.limit] if isinstance(read.limit, str) else read.limit}")
    return lines


class _Plan:
    def __init__(self, tables: Tables, values: Mapping[str, Any]) -> None:
        self._tables = tables
        self._values = values
        self.lines: list[str] = []

    def block(self, match: Match, known: set[str], indent: str) -> None:
        """The lines of one block; `known` gains the variables it binds."""
        nodes, steps = dict(match.nodes), list(match.steps)
        where = [bind(item, self._values) for item in match.where]
        while steps or any(name not in known for name in nodes):
            step = next((item for item in steps if set(item.ends) <= known), None)
            step = step or next((item for item in steps if set(item.ends) & known), None)
            if step is not None:
                steps.remove(step)
                self.lines.append(indent + self._step(step, known, where))
                known |= {*step.ends, step.edge_variable} - {""}
            else:
                self._start(nodes, steps, known, where, indent)
            self._filters(where, known, indent)
        self._filters(where, known, indent)
        for inner in match.optional:
            self.lines.append(f"{indent}optional")
            self.block(inner, known, indent + "  ")
        for late in match.late:
            self.lines.append(f"{indent}filter   {_condition(bind(late, self._values))}")
        for inner in match.absent:
            self.lines.append(f"{indent}not")
            self.block(inner, set(known), indent + "  ")

    def _start(
        self, nodes: dict[str, NodeType], steps: list[Step], known: set[str], where: list[Predicate], indent: str
    ) -> None:
        unbound = [name for name in nodes if name not in known]
        own = {name: all_of([item for item in where if variables(item) == {name}]) for name in unbound}
        ranks = {name: rank(nodes[name], own[name], self._tables) for name in unbound}
        first = min(unbound, key=lambda name: ranks[name])
        loose = next((item for item in steps if not set(item.ends) & known and item.src != item.dst), None)
        if ranks[first] is Rank.EVERYTHING and loose is not None and loose.hops is None:
            steps.remove(loose)
            self.lines.append(f"{indent}start    ${loose.src} {loose.edge.verb} ${loose.dst}: every {loose.edge.name}")
            known |= {*loose.ends, loose.edge_variable} - {""}
            return
        where[:] = [item for item in where if variables(item) != {first}]
        condition = start_condition(nodes[first], own[first])
        filtered = "" if condition == TRUE else f" where {lance_sql(condition)}"
        how = self._how(nodes[first], condition, ranks[first])
        self.lines.append(f"{indent}start    ${first}: {how} {nodes[first].name}{filtered}")
        known.add(first)

    def _how(self, node: NodeType, condition: Predicate, found: Rank) -> str:
        columns = {ref.column for ref in column_refs(condition)}
        used = sorted(name for name in columns if self._tables.is_indexed(node.name, name))
        if found <= Rank.INDEXED and used:
            return f"index lookup on {', '.join(used)} of"
        return f"scan of {self._tables.rows(node.name):,} rows of"

    def _step(self, step: Step, known: set[str], where: list[Predicate]) -> str:
        forward = step.src in known
        near = SRC if forward else DST
        own = [item for item in where if step.edge_variable and variables(item) == {step.edge_variable}]
        where[:] = [item for item in where if item not in own]
        table = step.edge.name
        rows = self._tables.rows(table)
        if self._tables.is_indexed(table, near):
            most = self._tables.costs.most_probed(rows, warm=False)
            how = f"index lookup on {table}.{near} from up to {most} rows, join over cached {SRC}, {DST} from more"
        else:
            how = f"join over cached {SRC}, {DST} of {table} ({near} has no index)"
        hops = ""
        if step.hops is not None:
            hops = f" {step.hops.min} to {step.hops.max or 'any number of'} hops"
        closing = " (both bound)" if set(step.ends) <= known else ""
        filtered = f" where {_condition(all_of(own))}" if own else ""
        return f"walk     ${step.src} {step.edge.verb} ${step.dst}{hops}{closing}: {how}{filtered}"

    def _filters(self, where: list[Predicate], known: set[str], indent: str) -> None:
        for item in [item for item in where if variables(item) <= known]:
            where.remove(item)
            self.lines.append(f"{indent}filter   {_condition(item)}")


def _condition(predicate: Predicate) -> str:
    if predicate == FALSE:
        return "never"
    names = sorted(f"${name}" for name in variables(predicate) if name)
    on = f" on {', '.join(names)}" if names else ""
    return f"{lance_sql(predicate) or 'always'}{on}"
