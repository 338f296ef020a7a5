"""Check a write's whole delta once: keys, unique values, both ends of every edge, edges left behind, cardinality.

Values are checked when rows are shaped; everything that needs other rows is checked here, for mutations, loads and
merges alike. Every check is a look-up of what changed, never a scan for its own sake. Tables it reads are recorded:
the publish expects them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.schema.keys import row_ids
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, Schema, TableType
from headgate.graph.storage import TableSnapshot
from headgate.graph.storage.lookup import rows_with, scan
from headgate.graph.write.distinct import repeated

NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True)
class Rejection:
    """One row that may not be written, and why. `row` counts the delta's own rows; None is a stored row."""

    type: str
    row: int | None
    id: str
    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Delta:
    """How one table changes: the rows that come, by the columns that are checked, and the ids that go."""

    table: TableType
    at: TableSnapshot
    keys: pa.Table
    """`id`, for edges `src` and `dst`, and the columns of unique constraints; ids are distinct."""
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    """Ids of stored rows that this write removes, whether or not they come back."""
    image: bool = False
    """The rows are all that the table will hold."""
    strict: pa.Array = field(default_factory=lambda: NO_IDS)
    """Ids that no stored row may have, other than one deleted by this write."""
    made_up: bool = False
    """All ids were made up by this write: none can be stored."""
    replaced: pa.Table | None = None
    """The stored rows that go, where they are known: address and the columns of `keys`. Else they are looked up."""

    @property
    def ids(self) -> pa.Array:
        return _flat(self.keys[ID])


@dataclass(frozen=True)
class Evaluation:
    rejected: tuple[Rejection, ...]
    replaced: Mapping[str, pa.Table]
    """Per type the stored rows that go: their `id` and address, and `src` for edges."""
    reads: frozenset[str]
    """Types whose tables were read."""


def key_columns(table: TableType) -> list[str]:
    """The columns of a type that an evaluation looks at."""
    named = [name for unique in table.uniques for name in unique.properties]
    return list(dict.fromkeys([*table.system_columns, *named]))


def evaluate(schema: Schema, deltas: Mapping[str, Delta], snapshot: Callable[[str], TableSnapshot]) -> Evaluation:
    """Everything that is wrong with a write, and what it replaces. `snapshot` gives the base of other tables."""
    return _Evaluator(schema, deltas, snapshot).run()


class _Evaluator:
    def __init__(self, schema: Schema, deltas: Mapping[str, Delta], snapshot: Callable[[str], TableSnapshot]) -> None:
        self._schema = schema
        self._deltas = deltas
        self._snapshot = snapshot
        self._rejected: list[Rejection] = []
        self._replaced: dict[str, pa.Table] = {}
        self._reads: set[str] = set()

    def run(self) -> Evaluation:
        for name, delta in self._deltas.items():
            self._replaced[name] = self._find_replaced(delta)
        for delta in self._deltas.values():
            self._check_new(delta)
            self._check_unique(delta)
            if isinstance(delta.table, EdgeType):
                self._check_ends(delta, delta.table)
            else:
                self._check_left_behind(delta)
        for edge in self._schema.edges:
            self._check_cardinality(edge)
        return Evaluation(tuple(self._rejected), self._replaced, frozenset(self._reads))

    # -------- what is stored

    def _at(self, name: str) -> TableSnapshot:
        delta = self._deltas.get(name)
        if delta is not None:
            return delta.at
        self._reads.add(name)
        return self._snapshot(name)

    def _find_replaced(self, delta: Delta) -> pa.Table:
        if delta.replaced is not None:
            return delta.replaced
        columns = [ID, SRC] if isinstance(delta.table, EdgeType) else [ID]
        sought = NO_IDS if delta.image else delta.deleted
        if not delta.image and not delta.made_up:
            sought = pc.unique(pa.concat_arrays([sought, delta.ids])) if len(sought) else delta.ids
        return rows_with(delta.at, ID, sought, columns, address=True)

    def _gone(self, delta: Delta) -> pa.Array:
        """Ids of stored rows that are no longer there after the write."""
        if not delta.image:
            return _minus(delta.deleted, delta.ids)
        stored = [_flat(batch[ID]) for batch in scan(delta.at, [ID])]
        return _minus(pa.concat_arrays(stored), delta.ids) if stored else NO_IDS

    # -------- checks

    def _check_new(self, delta: Delta) -> None:
        if not len(delta.strict):
            return
        stored = _minus(_flat(self._replaced[delta.table.name][ID]), delta.deleted)
        taken = delta.strict.filter(pc.is_in(delta.strict, stored))
        self._reject(delta, ID, taken, "duplicate_key", (f"there is a {delta.table.name} ", " already"))

    def _check_unique(self, delta: Delta) -> None:
        for unique in delta.table.uniques:
            columns = list(unique.properties)
            named = ", ".join(columns)
            mine = _combined(delta.keys, columns)
            self._reject_where(delta, mine, repeated(mine), "unique", (f"{named} ", " is given more than once"))
            if delta.image:
                continue
            unmoved = _unmoved(delta, columns, mine)
            if unmoved is not None:
                # What a row held before it may hold: only values that are new to their rows can be another's.
                mine = pc.if_else(unmoved, pa.scalar(None, mine.type), mine)
            first = _flat(delta.keys[columns[0]]).filter(pc.is_valid(mine))
            if not len(first):
                continue
            stored = rows_with(delta.at, columns[0], pc.unique(first), [ID, *columns])
            others = stored.filter(
                pc.invert(pc.is_in(stored[ID], pc.unique(pa.concat_arrays([delta.deleted, delta.ids]))))
            )
            taken = pc.unique(_combined(others, columns).drop_null())
            self._reject_where(delta, mine, taken, "unique", (f"another row has {named} ", " already"))

    def _check_ends(self, delta: Delta, edge: EdgeType) -> None:
        if not delta.keys.num_rows:
            return
        for side, node in ((SRC, edge.src), (DST, edge.dst)):
            wanted = pc.unique(_flat(delta.keys[side]))
            missing = self._missing_nodes(node, wanted)
            self._reject(
                delta,
                side,
                missing,
                "endpoint",
                (f"{side} names {node} ", ", which does not exist"),
            )

    def _missing_nodes(self, node: str, wanted: pa.Array) -> pa.Array:
        delta = self._deltas.get(node)
        if delta is not None:
            wanted = _minus(wanted, delta.ids)
            if delta.image:
                return wanted
        if not len(wanted):
            return wanted
        stored = _flat(rows_with(self._at(node), ID, wanted, [ID])[ID])
        if delta is not None:
            stored = _minus(stored, delta.deleted)
        return _minus(wanted, stored)

    def _check_left_behind(self, delta: Delta) -> None:
        gone = self._gone(delta)
        if not len(gone):
            return
        for edge in self._schema.edges_at(delta.table.name):
            changed = self._deltas.get(edge.name)
            if changed is not None and changed.image:
                continue
            for side, node in ((SRC, edge.src), (DST, edge.dst)):
                if node != delta.table.name:
                    continue
                left = rows_with(self._at(edge.name), side, gone, [ID])
                if changed is not None:
                    left = left.filter(pc.invert(pc.is_in(left[ID], pa.concat_arrays([changed.deleted, changed.ids]))))
                for found in left.slice(0, 1000).to_pylist():
                    self._rejected.append(
                        Rejection(
                            edge.name,
                            None,
                            found[ID],
                            "dangling",
                            f"{edge.name} {found[ID]} would be left without its {side} {node} {found[side]}",
                        )
                    )

    def _check_cardinality(self, edge: EdgeType) -> None:
        limits = edge.cardinality
        delta = self._deltas.get(edge.name)
        source = self._deltas.get(edge.src)
        if limits.is_open or (delta is None and (source is None or limits.min == 0)):
            return
        affected = self._affected_sources(edge, delta, source)
        if not len(affected):
            return
        counts = self._edge_counts(edge, delta, affected)
        if limits.max is not None:
            most = limits.max
            over = [src for src, count in counts.items() if count > most]
            if delta is not None:
                self._reject(
                    delta,
                    SRC,
                    pa.array(over, pa.string()),
                    "cardinality",
                    (f"{edge.src} ", f" would have more than {most} {edge.name}"),
                )
        if limits.min:
            under = [src for src in affected.to_pylist() if counts.get(src, 0) < limits.min]
            there = set(under) - set(self._missing_nodes(edge.src, pa.array(under, pa.string())).to_pylist())
            self._rejected.extend(
                Rejection(
                    edge.src,
                    None,
                    src,
                    "cardinality",
                    f"{edge.src} {src} would have {counts.get(src, 0)} {edge.name}, and needs {limits.min}",
                )
                for src in under
                if src in there
            )

    def _affected_sources(self, edge: EdgeType, delta: Delta | None, source: Delta | None) -> pa.Array:
        parts = []
        if delta is not None:
            parts.append(_flat(delta.keys[SRC]))
            parts.append(_flat(self._replaced[edge.name][SRC]))
            if delta.image and edge.cardinality.min:
                parts += [_flat(batch[ID]) for batch in scan(self._at(edge.src), [ID])]
        if source is not None and edge.cardinality.min:
            parts.append(source.ids)
        return pc.unique(pa.concat_arrays(parts)) if parts else NO_IDS

    def _edge_counts(self, edge: EdgeType, delta: Delta | None, affected: pa.Array) -> dict[str, int]:
        columns = []
        if delta is None or not delta.image:
            stored = rows_with(self._at(edge.name), SRC, affected, [ID])
            if delta is not None:
                stored = stored.filter(pc.invert(pc.is_in(stored[ID], self._replaced[edge.name][ID].combine_chunks())))
            columns.append(_flat(stored[SRC]))
        if delta is not None:
            columns.append(_flat(delta.keys[SRC]))
        counted = pc.value_counts(pa.concat_arrays(columns))
        return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))

    # -------- telling

    def _reject(self, delta: Delta, column: str, values: pa.Array, code: str, told: tuple[str, str]) -> None:
        if len(values):
            self._reject_where(delta, _flat(delta.keys[column]), values, code, told)

    def _reject_where(self, delta: Delta, column: pa.Array, values: pa.Array, code: str, told: tuple[str, str]) -> None:
        if not len(values):
            return
        hits = pc.indices_nonzero(pc.is_in(column, values))
        ids = delta.ids
        for row in hits.to_pylist():
            self._rejected.append(
                Rejection(delta.table.name, row, ids[row].as_py(), code, f"{told[0]}{column[row].as_py()}{told[1]}")
            )


def _unmoved(delta: Delta, columns: list[str], mine: pa.Array) -> pa.Array | None:
    """Which rows hold what the rows they replace hold; None where those are not known."""
    old = delta.replaced
    if old is None or not set(columns) <= set(old.column_names):
        return None
    place = pc.index_in(delta.ids, value_set=_flat(old[ID]))
    return pc.fill_null(pc.equal(_combined(old, columns).take(place), mine), False)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _minus(values: pa.Array, taken: pa.Array) -> pa.Array:
    return values.filter(pc.invert(pc.is_in(values, taken))) if len(values) and len(taken) else values


def _combined(rows: pa.Table, columns: Iterable[str]) -> pa.Array:
    """One text per row for several columns; null where any of them is."""
    return row_ids([rows[name] for name in columns])
