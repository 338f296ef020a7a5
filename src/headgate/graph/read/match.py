"""Running a match: start where the fewest rows are, walk the traversals, check conditions as soon as they can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.query.evaluate import keep
from headgate.graph.query.predicate import FALSE, TRUE, ColumnRef, Predicate, all_of, bind, column_refs, variables
from headgate.graph.query.read import Match, Step
from headgate.graph.read.bindings import UNBOUND, Bindings, Bound, Ints, joined
from headgate.graph.read.expand import Reached, all_pairs, reach
from headgate.graph.read.start import Rank, rank, start_condition
from headgate.graph.read.tables import Tables
from headgate.graph.schema.model import ID, TableType


@dataclass
class Matcher:
    """Runs the blocks of one query at one commit."""

    tables: Tables
    values: Mapping[str, Any]
    """The parameters."""
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Properties that will be asked for, by variable: fetched along where a variable's rows are looked up anyway."""
    first_rows: int | None = None
    """Set where any so many rows of the one table that is scanned will do."""

    def run(self, match: Match, rows: Bindings, types: Mapping[str, TableType]) -> Bindings:
        """The rows extended by what the block binds; `types` are the variables bound around it."""
        types = {**types, **dict(match.brought())}
        where = [bind(item, self.values) for item in match.where]
        rows = _Block(self, match, where, types).run(rows)
        for inner in match.optional:
            rows = self._optional(inner, rows, types)
        late = all_of([bind(item, self.values) for item in match.late])
        rows = self.filtered(rows, late)
        for inner in match.absent:
            rows = self._absent(inner, rows, types)
        return rows

    def _optional(self, inner: Match, rows: Bindings, types: Mapping[str, TableType]) -> Bindings:
        """Every row, with what the block finds for it, or with nothing bound."""
        found, origin = self._from_each(inner, rows, types)
        missing = np.setdiff1d(np.arange(rows.count), origin)
        kept = rows.take(np.concatenate([origin, missing]))
        for name, _table in inner.brought():
            bound = found.variables[name]
            places = np.concatenate([bound.places, np.full(len(missing), UNBOUND, dtype=np.int64)])
            kept = kept.with_variable(name, replace(bound, places=places))
        return kept

    def _absent(self, inner: Match, rows: Bindings, types: Mapping[str, TableType]) -> Bindings:
        """The rows for which the block finds nothing."""
        _found, origin = self._from_each(inner, rows, types)
        mask = np.ones(rows.count, dtype=bool)
        mask[origin] = False
        return rows.keep(mask)

    def _from_each(self, inner: Match, rows: Bindings, types: Mapping[str, TableType]) -> tuple[Bindings, Ints]:
        """What a block finds, and for which row each find is."""
        marked = rows.with_variable(_ROW, Bound("", pa.nulls(rows.count), np.arange(rows.count, dtype=np.int64)))
        found = self.run(inner, marked, types)
        return found, found.variables[_ROW].places

    def filtered(self, rows: Bindings, where: Predicate) -> Bindings:
        """The rows a condition holds for, its columns fetched as needed."""
        if where == TRUE or rows.count == 0:
            return rows
        fetched = dict(rows.variables)
        for name in variables(where):
            if name:
                columns = tuple(ref.column for ref in column_refs(where) if ref.variable == name)
                fetched[name] = self.with_values(fetched[name], columns)

        def column(ref: ColumnRef) -> pa.Array:
            bound = fetched[ref.variable]
            return bound.gather(bound.ids if ref.column == ID else bound.values[ref.column])

        mask = keep(where, column, rows.count)
        return replace(rows, variables=fetched).keep(mask)

    def with_values(self, bound: Bound, columns: tuple[str, ...]) -> Bound:
        """The variable with these properties fetched."""
        missing = tuple(name for name in columns if name != ID and name not in bound.values)
        if not missing:
            return bound
        bound = bound.compact()
        places, found = self.tables.find(bound.table, ID, bound.ids, missing)
        order = np.full(len(bound.ids), -1, dtype=np.int64)
        order[places] = np.arange(len(places))
        at = pa.array(order, mask=order < 0)
        fresh = {name: found[name].combine_chunks().take(at) for name in missing}
        return replace(bound, values={**bound.values, **fresh})


_ROW = "#"
"""Not a name a variable can have: the row of the block around."""


class _Block:
    """The traversals and conditions of one block, run in the order that keeps rows few."""

    def __init__(self, matcher: Matcher, match: Match, where: list[Predicate], types: Mapping[str, TableType]) -> None:
        self._matcher = matcher
        self._tables = matcher.tables
        self._nodes = dict(match.nodes)
        self._steps = list(match.steps)
        self._where = where
        self._types = types

    def run(self, rows: Bindings) -> Bindings:
        rows = self._check(rows)
        while True:
            step = self._next_step(rows)
            if step is not None:
                self._steps.remove(step)
                rows = self._walk(rows, step)
            elif any(name not in rows.variables for name in self._nodes):
                rows = self._start(rows)
            else:
                return rows
            rows = self._check(rows)

    def _check(self, rows: Bindings) -> Bindings:
        """Apply every condition whose variables are bound."""
        ready = [item for item in self._where if variables(item) <= set(rows.variables)]
        self._where = [item for item in self._where if item not in ready]
        return self._matcher.filtered(rows, all_of(ready))

    def _next_step(self, rows: Bindings) -> Step | None:
        """A step with a bound end: one that only filters first, else the one with the fewest starts."""
        best: tuple[int, Step] | None = None
        for step in self._steps:
            bound = [end for end in step.ends if end in rows.variables]
            if len(bound) == 2:
                return step
            if bound and (best is None or len(rows.variables[bound[0]].ids) < best[0]):
                best = len(rows.variables[bound[0]].ids), step
        return best[1] if best else None

    def _own(self, variable: str) -> Predicate:
        """The conditions on one variable alone, taken off the list."""
        own = [item for item in self._where if variables(item) == {variable}]
        self._where = [item for item in self._where if item not in own]
        return all_of(own)

    def _start(self, rows: Bindings) -> Bindings:
        """Bind the variable that the fewest rows are expected for."""
        unbound = [name for name in self._nodes if name not in rows.variables]
        ranks = {name: rank(self._nodes[name], self._conditions_on(name), self._tables) for name in unbound}
        first = min(unbound, key=lambda name: ranks[name])
        if ranks[first] is Rank.EVERYTHING:
            step = next((step for step in self._steps if not set(step.ends) & set(rows.variables)), None)
            if step is not None and step.hops is None and step.src != step.dst:
                self._steps.remove(step)
                return self._start_from_edges(rows, step)
        where = start_condition(self._nodes[first], self._own(first))
        # A row that a later step drops should not have been fetched, unless it is one of a few.
        fetch = ranks[first] <= Rank.INDEXED or not self._steps
        columns = self._matcher.needed.get(first, ()) if fetch else ()
        # With no row to extend, what the scan would find is of no use.
        wanted = where if rows.count else FALSE
        limit = self._matcher.first_rows
        table = self._tables.scan(self._nodes[first].name, (ID, *columns), wanted, limit=limit)
        crossed, places = rows.crossed(table.num_rows)
        values = {name: table[name].combine_chunks() for name in columns if name != ID}
        return crossed.with_variable(first, Bound(self._nodes[first].name, table[ID].combine_chunks(), places, values))

    def _conditions_on(self, variable: str) -> Predicate:
        return all_of([item for item in self._where if variables(item) == {variable}])

    def _start_from_edges(self, rows: Bindings, step: Step) -> Bindings:
        """Bind both ends of every edge: each is a node that exists, so none is looked up."""
        where = self._own(step.edge_variable) if step.edge_variable else TRUE
        starts, found = all_pairs(self._tables, step, where if rows.count else FALSE)
        crossed, at = rows.crossed(len(found.origins))
        made = crossed.with_variable(step.src, Bound(step.edge.src, starts, found.origins[at]))
        made = made.with_variable(step.dst, Bound(step.edge.dst, found.ids, found.places[at]))
        return self._with_edge(made, step, found, at)

    def _walk(self, rows: Bindings, step: Step) -> Bindings:
        both = step.src in rows.variables and step.dst in rows.variables
        forward = step.src in rows.variables
        if both:
            forward = len(rows.variables[step.src].used()) <= len(rows.variables[step.dst].used())
        near, far = (step.src, step.dst) if forward else (step.dst, step.src)
        start = rows.variables[near].compact()
        rows = rows.with_variable(near, start)
        where = self._own(step.edge_variable) if step.edge_variable else TRUE
        found = reach(self._tables, step, start.ids, forward=forward, where=where)
        if both:
            return self._close(rows, step, start, rows.variables[far], found)
        found = self._restrict(far, found) if far in self._nodes else found
        at_rows, hits = joined(start.places, found.origins)
        table = step.edge.dst if forward else step.edge.src
        made = rows.take(at_rows).with_variable(far, Bound(table, found.ids, found.places[hits]))
        return self._with_edge(made, step, found, hits)

    def _restrict(self, variable: str, found: Reached) -> Reached:
        """What was reached, without the nodes that the variable's own conditions exclude."""
        where = self._own(variable)
        if where == TRUE or not len(found.ids):
            return found
        places, _ = self._tables.find(self._nodes[variable].name, ID, found.ids, (ID,), where)
        kept = np.zeros(len(found.ids), dtype=bool)
        kept[places] = True
        hits = np.flatnonzero(kept[found.places])
        edges = None if found.edges is None else found.edges.take(pa.array(hits))
        return Reached(found.origins[hits], found.ids, found.places[hits], edges)

    def _close(self, rows: Bindings, step: Step, start: Bound, end: Bound, found: Reached) -> Bindings:
        """The rows whose two bound ends the step joins, once for each edge if that has a name."""
        known = pc.index_in(found.ids, value_set=end.ids) if len(found.ids) else pa.array([], pa.int32())
        ends = known.fill_null(UNBOUND).to_numpy(zero_copy_only=False).astype(np.int64)[found.places]
        width = max(1, len(end.ids))
        hit_keys = np.where(ends < 0, UNBOUND - 1, found.origins * width + ends)
        row_keys = np.where((start.places < 0) | (end.places < 0), UNBOUND, start.places * width + end.places)
        at_rows, hits = joined(row_keys, hit_keys)
        return self._with_edge(rows.take(at_rows), step, found, hits)

    def _with_edge(self, rows: Bindings, step: Step, found: Reached, hits: Ints) -> Bindings:
        if not step.edge_variable or found.edges is None:
            return rows
        return rows.with_variable(step.edge_variable, Bound(step.edge.name, found.edges, hits))
