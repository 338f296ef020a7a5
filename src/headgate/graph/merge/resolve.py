"""What the rules of the whole graph refuse in a merge: edges without nodes, unique values, cardinality, values.

The evaluator is the one every write is checked by. Where a side was chosen, rows are left or brought back as it says,
and the result is checked again, until nothing is refused or nothing more can be done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.changes.pairing import as_type
from headgate.graph.merge.conflicts import Choice, Choices, ConflictKind, RowConflict
from headgate.graph.merge.rows import Row, TableMerge, kept_rows, taken_rows
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import DST, ID, SRC, EdgeType, Schema
from headgate.graph.schema.values import Rules, check_column
from headgate.graph.storage import TableSnapshot
from headgate.graph.storage.differences import rows_at
from headgate.graph.storage.lookup import ADDRESS, rows_with
from headgate.graph.storage.objects import SmallObjects
from headgate.graph.write.evaluate import Delta, Evaluation, Rejection, evaluate, key_columns

_ROUNDS = 20
_KINDS = {
    "endpoint": ConflictKind.ORPHAN_EDGE,
    "dangling": ConflictKind.ORPHAN_EDGE,
    "unique": ConflictKind.UNIQUE,
    "cardinality": ConflictKind.CARDINALITY,
    "value": ConflictKind.VALUE,
}


class Resolver:
    def __init__(
        self,
        objects: SmallObjects,
        schema: Schema,
        merges: Mapping[str, TableMerge],
        snapshot: Callable[[str], TableSnapshot],
        choices: Choices,
    ) -> None:
        self._objects = objects
        self._schema = schema
        self._merges = merges
        self._snapshot = snapshot
        self._choices = choices
        self.conflicts: list[RowConflict] = []

    def run(self) -> tuple[dict[str, Delta], Evaluation]:
        """Check until nothing is refused, or `conflicts` says what is."""
        for _ in range(_ROUNDS):
            deltas = {
                name: self.delta(merge)
                for name, merge in self._merges.items()
                if merge.changes or merge.sides.rewritten
            }
            evaluation = evaluate(self._schema, deltas, self._snapshot)
            refused = [*self._bad_values(), *evaluation.rejected]
            if not refused:
                return deltas, evaluation
            if not self._settle(refused):
                break
        return deltas, evaluation

    def delta(self, merge: TableMerge) -> Delta:
        table = merge.sides.type
        columns = key_columns(table)
        schema = pa.schema([arrow_schema(table).field(name) for name in columns])
        made = pa.Table.from_pylist(list(merge.made.values()), schema=arrow_schema(table)).select(columns)
        taken = taken_rows(self._objects, merge, merge.taken.at, columns)
        kept = [rows.select(columns).cast(schema) for rows in kept_rows(merge)] if merge.sides.rewritten else []
        keys = pa.concat_tables([taken.cast(schema), made.cast(schema), *kept]).combine_chunks()
        return Delta(
            table=table,
            at=merge.sides.ours.at,
            keys=keys,
            image=merge.sides.rewritten,
            deleted=pa.array(sorted(merge.deleted), pa.string()),
            replaced=self._replaced(merge),
        )

    def _replaced(self, merge: TableMerge) -> pa.Table:
        at = pa.array(list(merge.stored.values()), pa.uint64())
        side, table = merge.sides.ours, merge.sides.type
        columns = key_columns(table if side.type == table else side.type)
        found = rows_at(self._objects, side.at, at.to_numpy(), columns)
        if side.type != table:
            found = found.select(list(table.system_columns))
        return found.append_column(ADDRESS, at).combine_chunks()

    def _bad_values(self) -> list[Rejection]:
        """Values of one side that the schema of the result, which is not that side's, does not take."""
        out = []
        for name, merge in self._merges.items():
            table = merge.sides.type
            if table == merge.sides.ours.type == merge.sides.theirs.type or not merge.changes:
                continue
            loose = pa.schema([column.with_nullable(True) for column in arrow_schema(table)])
            taken = taken_rows(self._objects, merge, merge.taken.at, loose.names).cast(loose)
            rows = pa.concat_tables([taken, pa.Table.from_pylist(list(merge.made.values()), schema=loose)])
            for item in table.properties:
                for place, reason in check_column(Rules.of(table, item), rows[item.name]).bad.items():
                    row = rows[ID][place].as_py()
                    out.append(Rejection(name, place, row, "value", f"{name} {row}: {reason}"))
        return out

    def _settle(self, refused: list[Rejection]) -> bool:
        """Do what was chosen about each; False if something is left to be told, or nothing could be done."""
        moved = False
        for found in refused:
            choice = self._choices.of(found.type)
            if choice is None:
                self.conflicts.append(self._told(found))
            elif self._apply(found, choice):
                moved = True
        if not moved and not self.conflicts:
            self.conflicts += [self._told(found) for found in refused]
        return not self.conflicts

    def _told(self, found: Rejection) -> RowConflict:
        merge = self._merges.get(found.type)
        ours = self._find(self._snapshot(found.type), found)
        theirs = None if merge is None else self._find(merge.sides.theirs.at, found)
        return RowConflict(_KINDS[found.code], found.type, found.id, found.message, (), None, ours, theirs)

    @staticmethod
    def _find(at: TableSnapshot, found: Rejection) -> Row | None:
        rows = rows_with(at, ID, pa.array([found.id]), at.dataset.schema.names).to_pylist()
        return rows[0] if rows else None

    def _apply(self, found: Rejection, choice: Choice) -> bool:
        merge = self._merges.get(found.type)
        if merge is None:
            return False
        if found.code == "dangling":
            return self._keep_nodes(merge, found.id) if choice == "ours" else self._drop(merge, found.id)
        if choice == "ours":
            return merge.leave(found.id)
        if found.code == "endpoint":
            return self._bring_nodes(merge, found.id)
        if found.code == "unique":
            return self._take_back(merge, self._holders(merge, found.id))
        if found.code == "cardinality" and isinstance(merge.sides.type, EdgeType):
            return self._take_back(merge, self._added_by_ours(merge, found.id))
        return False

    # -------- what choosing a side means

    def _keep_nodes(self, merge: TableMerge, edge: str) -> bool:
        """Ours keeps its edge, and so the nodes that theirs removed."""
        table = merge.sides.type
        assert isinstance(table, EdgeType)
        ends = rows_with(merge.sides.ours.at, ID, pa.array([edge]), [ID, SRC, DST]).to_pylist()
        gone = {
            (node, row[side])
            for row in ends
            for side, node in ((SRC, table.src), (DST, table.dst))
            if node in self._merges and row[side] in self._merges[node].deleted
        }
        for node, row in gone:
            self._merges[node].leave(row)
        return bool(gone)

    @staticmethod
    def _drop(merge: TableMerge, edge: str) -> bool:
        found = rows_with(merge.sides.ours.at, ID, pa.array([edge]), [ID], address=True)
        for at in found[ADDRESS].to_pylist():
            merge.delete(edge, stored=at)
        return bool(found.num_rows)

    def _bring_nodes(self, merge: TableMerge, edge: str) -> bool:
        """Theirs keeps its edge, and so the nodes that ours removed."""
        table = merge.sides.type
        assert isinstance(table, EdgeType)
        (row,) = self._written(merge, [edge])
        moved = False
        for side, node in ((SRC, table.src), (DST, table.dst)):
            into = self._merges.get(node)
            if into is None or row[side] in into.made or self._is_there(into, row[side]):
                continue
            source = into.sides.theirs
            found = rows_with(source.at, ID, pa.array([row[side]]), arrow_schema(source.type).names)
            for back in as_type(found, source.type, into.sides.type).to_pylist():
                into.put(back, stored=None)
                moved = True
        return moved

    @staticmethod
    def _is_there(merge: TableMerge, row: str) -> bool:
        if row in merge.deleted:
            return False
        return bool(rows_with(merge.sides.ours.at, ID, pa.array([row]), [ID]).num_rows)

    def _holders(self, merge: TableMerge, row: str) -> list[str]:
        """Rows of ours that hold a unique value of a row of theirs."""
        (mine,) = self._written(merge, [row])
        out = []
        for unique in merge.sides.type.uniques:
            first, *rest = unique.properties
            if any(mine[name] is None for name in unique.properties):
                continue
            at = merge.sides.ours.at
            held = rows_with(at, first, pa.array([mine[first]], at.dataset.schema.field(first).type), [ID, *rest])
            out += [
                other[ID]
                for other in held.to_pylist()
                if other[ID] != row and all(other[name] == mine[name] for name in rest)
            ]
        return out

    def _added_by_ours(self, merge: TableMerge, edge: str) -> list[str]:
        """Edges of ours from the same node that the base does not have."""
        (mine,) = self._written(merge, [edge])
        held = rows_with(merge.sides.ours.at, SRC, pa.array([mine[SRC]]), [ID])[ID].combine_chunks()
        base = merge.sides.base
        if base is not None and len(held):
            old = rows_with(base.at, ID, held, [ID])[ID].combine_chunks()
            held = held.filter(pc.invert(pc.is_in(held, value_set=old)))
        return [name for name in held.to_pylist() if name not in merge.deleted]

    def _take_back(self, merge: TableMerge, rows: list[str]) -> bool:
        """Bring rows of ours back to what they were in the base; remove them where they were not."""
        base, ours = merge.sides.base, merge.sides.ours.at
        moved = False
        for row in rows:
            if row in merge.deleted or row in merge.made:
                continue
            found = rows_with(ours, ID, pa.array([row]), [ID], address=True)[ADDRESS].to_pylist()
            was: list[Row] = []
            if base is not None:
                old = rows_with(base.at, ID, pa.array([row]), arrow_schema(base.type).names)
                was = as_type(old, base.type, merge.sides.type).to_pylist()
            for at in found:
                moved = True
                if was:
                    merge.put(was[0], stored=at)
                else:
                    merge.delete(row, stored=at)
        return moved

    def _written(self, merge: TableMerge, rows: list[str]) -> list[Row]:
        """Rows as the merge would write them."""
        out = []
        for row in rows:
            if row in merge.made:
                out.append(merge.made[row])
                continue
            index = pc.index(merge.taken.ids, pa.scalar(row)).as_py()
            names = arrow_schema(merge.sides.type).names
            out += taken_rows(self._objects, merge, merge.taken.at[index : index + 1], names).to_pylist()
        return out
