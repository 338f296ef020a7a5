"""What a merge would do: the outcome, the tables that change, and what stands in the way. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from headgate.errors import InvalidInput, NotFound
from headgate.graph.changes.pairing import Pair, Side
from headgate.graph.changes.rows import TableDifference
from headgate.graph.manifest.publisher import TableAt
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.travel import commit_at
from headgate.graph.merge.bases import Commits, merge_bases
from headgate.graph.merge.conflicts import Choices, ConflictKind, RowConflict
from headgate.graph.merge.resolve import Resolver
from headgate.graph.merge.rows import TableMerge, ThreeWay, merge_by_id, merge_rows, put_changes_of_ours
from headgate.graph.merge.schema import SchemasDiverge, merged_schema
from headgate.graph.merge.virtual import VirtualBase
from headgate.graph.schema.arrow import arrow_schema
from headgate.graph.schema.model import Schema, TableType
from headgate.graph.storage import TableSnapshot
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base, check_kept
from headgate.graph.write.evaluate import Delta, Evaluation
from headgate.graph.write.task import base_at


class MergeOutcome(StrEnum):
    UP_TO_DATE = "up_to_date"
    """Ours has everything of theirs."""
    FAST_FORWARD = "fast_forward"
    """Ours has changed nothing since: it becomes what theirs is."""
    MERGED = "merged"


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    outcome: MergeOutcome
    ours: Base
    theirs: Base
    bases: tuple[str, ...] = ()
    schema: Schema
    merges: dict[str, TableMerge] = field(default_factory=dict)
    """By the name of the type in the result."""
    adopted: dict[str, str] = field(default_factory=dict)
    """Types whose table is shown as theirs has it, by their names in the result and in theirs."""
    dropped: tuple[str, ...] = ()
    """Types that ours loses, by their names there."""
    conflicts: tuple[RowConflict, ...] = ()
    deltas: dict[str, Delta] = field(default_factory=dict)
    evaluation: Evaluation | None = None

    def shown(self) -> dict[str, TableAt]:
        return {self.theirs.table_key(name): self.theirs.pinned(name) for name in self.adopted.values()}


def make_plan(store: GraphStore, state: ManifestState, into: str, theirs_ref: str, choices: Choices) -> MergePlan:
    """Compare three ways, on the present head of `into`."""
    ours, theirs = Base.of(store, state, into), base_at(store, state, theirs_ref)
    commits = Commits(store.manifest, state)
    if theirs.commit in commits.ancestors(ours.commit):
        return MergePlan(outcome=MergeOutcome.UP_TO_DATE, ours=ours, theirs=theirs, schema=ours.schema)
    _check_types(choices, ours, theirs)
    bases = merge_bases(commits, ours.commit, theirs.commit)
    if not bases:
        raise InvalidInput(
            message=f"{into} and {theirs_ref} have no commit in common", hint="merge branches of one graph"
        )
    return _Planner(store, state, commits, ours, theirs, bases, choices).run()


def _check_types(choices: Choices, ours: Base, theirs: Base) -> None:
    for name in choices.types():
        if ours.schema.find(name) is None and theirs.schema.find(name) is None:
            known = ", ".join(table.name for table in ours.schema.tables())
            raise NotFound(message=f"there is no type {name}", kind="type", name=name, hint=f"the graph has: {known}")


class _Planner:
    def __init__(
        self,
        store: GraphStore,
        state: ManifestState,
        commits: Commits,
        ours: Base,
        theirs: Base,
        bases: list[str],
        choices: Choices,
    ) -> None:
        self._store, self._state, self._commits = store, state, commits
        self._ours, self._theirs, self._bases = ours, theirs, bases
        for ref in (*bases, theirs.commit):
            # Written down first, then looked at by the newest floors: so a cleanup sees the merge, or it the cleanup.
            store.leases.take(ref)
            check_kept(store.manifest.state(), commit_at(store.manifest, state, ref))
        self._base = base_at(store, state, bases[0])
        self._choices = choices
        self._conflicts: list[RowConflict] = []
        self._adopted: dict[str, str] = {}

    def run(self) -> MergePlan:
        ours, theirs, base = self._ours, self._theirs, self._base
        outcome = MergeOutcome.FAST_FORWARD if self._bases == [ours.commit] else MergeOutcome.MERGED
        try:
            schema = merged_schema(base.schema, ours.schema, theirs.schema)
        except SchemasDiverge as told:
            return MergePlan(
                outcome=outcome,
                ours=ours,
                theirs=theirs,
                bases=tuple(self._bases),
                schema=ours.schema,
                conflicts=told.conflicts,
            )
        merges = {table.name: merge for table in schema.tables() for merge in self._merge(table)}
        self._conflicts += [conflict for merge in merges.values() for conflict in merge.conflicts]
        dropped = tuple(self._dropped(schema))
        self._check_dropped_by_ours(schema)
        deltas: dict[str, Delta] = {}
        evaluation = None
        if outcome is not MergeOutcome.FAST_FORWARD and not self._conflicts:
            resolver = Resolver(self._store.objects, schema, merges, self._snapshot_in(schema), self._choices)
            deltas, evaluation = resolver.run()
            self._conflicts += resolver.conflicts
        return MergePlan(
            outcome=outcome,
            ours=ours,
            theirs=theirs,
            bases=tuple(self._bases),
            schema=schema,
            merges=merges,
            adopted=self._adopted,
            dropped=dropped,
            conflicts=tuple(self._conflicts),
            deltas=deltas,
            evaluation=evaluation,
        )

    def _merge(self, table: TableType) -> Iterator[TableMerge]:
        base, ours, theirs = (_find(side, table.id) for side in (self._base, self._ours, self._theirs))
        if theirs is None:
            return
        if ours is None:
            self._adopted[table.name] = theirs
            return
        here, there = _pin(self._ours, ours), _pin(self._theirs, theirs)
        was = None if base is None else _pin(self._base, base)
        same_columns = arrow_schema(self._ours.type(ours)) == arrow_schema(table)
        same_rules = self._ours.type(ours) == table
        if here == there or (same_rules and there == was and len(self._bases) == 1):
            if self._choices:  # a choice about edges may bring back nodes that theirs has left alone
                yield TableMerge(ThreeWay(table, None, _side(self._ours, ours), _side(self._theirs, theirs)))
            return
        fits = arrow_schema(self._theirs.type(theirs)) == arrow_schema(table)
        if not same_columns and here == was and fits and len(self._bases) == 1:
            self._adopted[table.name] = theirs
            return
        sides = ThreeWay(
            table,
            None if base is None else _side(self._base, base),
            _side(self._ours, ours),
            _side(self._theirs, theirs),
        )
        choice = self._choices.of(table.name)
        if len(self._bases) == 1:
            merge = merge_rows(self._store.objects, sides, choice)
        else:
            merge = self._by_virtual_base(sides)
        if sides.ours.type != table and not sides.rewritten:
            put_changes_of_ours(self._store.objects, merge)
        yield merge

    def _by_virtual_base(self, sides: ThreeWay) -> TableMerge:
        objects, table = self._store.objects, sides.type
        parts = []
        for side in (sides.theirs, sides.ours):
            found = TableDifference(objects, Pair(sides.base, side)).candidates
            parts += [found.removed.ids, found.added.ids, found.after.ids]
        ids = pa.concat_arrays(parts).unique()
        virtual = VirtualBase(self._commits, lambda ref: base_at(self._store, self._state, ref))
        ours, stored = virtual.stored(self._ours, table, ids)
        return merge_by_id(
            sides,
            ids.to_pylist(),
            base=virtual.rows(self._bases, table, ids),
            ours=ours,
            theirs=virtual.stored(self._theirs, table, ids)[0],
            stored=stored,
            choice=self._choices.of(table.name),
        )

    def _dropped(self, schema: Schema) -> Iterator[str]:
        """Types that theirs dropped; a conflict where ours has changed their rows since."""
        kept = {table.id for table in schema.tables()}
        for name, (row, _) in self._ours.tables.items():
            if row.type_id in kept:
                continue
            if self._choices.of(name) is None and self._changed(row.type_id, self._ours):
                self._told_dropped(name, "theirs", "ours")
            yield name

    def _check_dropped_by_ours(self, schema: Schema) -> None:
        kept = {table.id for table in schema.tables()}
        for name, (row, _) in self._theirs.tables.items():
            was_there = _find(self._base, row.type_id) is not None
            asked = row.type_id not in kept and was_there and self._choices.of(name) is None
            if asked and self._changed(row.type_id, self._theirs):
                self._told_dropped(name, "ours", "theirs")

    def _changed(self, type_id: int, side: Base) -> bool:
        base, name = _find(self._base, type_id), _find(side, type_id)
        if base is None or name is None or _pin(self._base, base) == _pin(side, name):
            return False
        found = TableDifference(self._store.objects, Pair(_side(self._base, base), _side(side, name)))
        return bool(len(found.candidates.added) or len(found.candidates.removed) or len(found.really_changed[0]))

    def _told_dropped(self, name: str, dropped: str, changed: str) -> None:
        message = f"type {name} was dropped in {dropped}, and rows of it were changed in {changed}"
        self._conflicts.append(RowConflict(ConflictKind.DELETE_VERSUS_UPDATE, name, "", message))

    def _snapshot_in(self, schema: Schema) -> Callable[[str], TableSnapshot]:
        """The tables that the merge leaves alone, by their names in the result."""

        def snapshot(name: str) -> TableSnapshot:
            if name in self._adopted:
                return self._theirs.snapshot(self._adopted[name])
            table = schema.find(name)
            assert table is not None
            held = _find(self._ours, table.id)
            assert held is not None
            return self._ours.snapshot(held)

        return snapshot


def _find(base: Base, type_id: int) -> str | None:
    return next((name for name, (row, _) in base.tables.items() if row.type_id == type_id), None)


def _side(base: Base, name: str) -> Side:
    return Side(base.type(name), base.snapshot(name))


def _pin(base: Base, name: str) -> tuple[str, int, str]:
    row, pin = base.tables[name]
    return row.table, pin.version, pin.fork
