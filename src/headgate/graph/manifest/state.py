"""What the manifest's live rows say: heads, and what each branch shows. Immutable; nothing here touches a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from headgate.errors import NotFound
from headgate.graph.manifest.rows import (
    Audit,
    Barrier,
    Commit,
    Floor,
    Fork,
    Format,
    Head,
    Ids,
    Kept,
    Pin,
    PublishRow,
    Row,
    SchemaRow,
    StagingFloor,
    TableRow,
    Tombstone,
)


@dataclass(frozen=True)
class ManifestState:
    """The live rows of one version of the manifest. Rows that only history needs may be missing."""

    version: int
    rows: Mapping[str, Row] = field(repr=False)
    """By object id."""

    def with_rows(self, rows: Iterable[Row], *, version: int) -> ManifestState:
        """The state once these rows have been merged as `version`."""
        return ManifestState(version, {**self.rows, **{row.object_id: row for row in rows}})

    @cached_property
    def format_stamp(self) -> int:
        found = self.rows.get("format")
        return found.stamp if isinstance(found, Format) else 0

    @cached_property
    def next_id(self) -> int:
        """The id that the next schema change gives out first; 0 until one has been made."""
        found = self.rows.get("ids")
        return found.next_id if isinstance(found, Ids) else 0

    def schemas(self) -> list[SchemaRow]:
        """The live schemas of all branches."""
        return [row for row in self.rows.values() if isinstance(row, SchemaRow)]

    @cached_property
    def barrier(self) -> Barrier | None:
        found = self.rows.get("barrier")
        return found if isinstance(found, Barrier) else None

    @cached_property
    def branches(self) -> tuple[str, ...]:
        heads = (row for row in self.rows.values() if isinstance(row, Head))
        return tuple(sorted(row.branch for row in heads if not row.closed))

    def find_head(self, branch: str) -> Head | None:
        found = self.rows.get(f"head:{branch}")
        return found if isinstance(found, Head) else None

    def head(self, branch: str) -> Head:
        """Where an open branch is."""
        found = self.find_head(branch)
        if found is None or found.closed:
            known = ", ".join(self.branches)
            raise NotFound(
                message=f"there is no branch {branch}", kind="branch", name=branch, hint=f"the graph has: {known}"
            )
        return found

    def incarnation(self, branch: str, order: int | None = None) -> Head | Fork | None:
        """The branch that has this name, or that had it when an order was published."""
        head = self.find_head(branch)
        if head is None or order is None or order > head.inherited:
            return head
        earlier = [fork for fork in self._forks.get(branch, ()) if fork.inherited < order]
        return max(earlier, key=lambda fork: fork.inherited, default=None)

    @cached_property
    def _forks(self) -> dict[str, list[Fork]]:
        grouped: dict[str, list[Fork]] = {}
        for row in self.rows.values():
            if isinstance(row, Fork):
                grouped.setdefault(row.branch, []).append(row)
        return grouped

    def find_commit(self, commit: str) -> Commit | None:
        """A commit that is still among the live rows."""
        found = self.rows.get(f"commit:{commit}")
        return found if isinstance(found, Commit) else None

    def find_publish(self, publish_id: str) -> PublishRow | None:
        found = self.rows.get(f"publish:{publish_id}")
        return found if isinstance(found, PublishRow) else None

    def find_audit(self, operation_id: str) -> Audit | None:
        found = self.rows.get(f"audit:{operation_id}")
        return found if isinstance(found, Audit) else None

    def find_floor(self, table: str, fork: str = "") -> Floor | None:
        found = self.rows.get(f"floor:{table}:{fork}" if fork else f"floor:{table}")
        return found if isinstance(found, Floor) else None

    @cached_property
    def staging_floor(self) -> str:
        """Staging records below this one are revoked."""
        found = self.rows.get("staging")
        return found.below if isinstance(found, StagingFloor) else ""

    @cached_property
    def exceptions(self) -> frozenset[str]:
        """The commits that can be read although they are older than what is kept as a rule."""
        return frozenset(self.kept.commits)

    @cached_property
    def kept(self) -> Kept:
        found = self.rows.get("kept")
        return found if isinstance(found, Kept) else Kept()

    def is_kept(self, commit: Commit) -> bool:
        """Whether no cleanup has let go of a commit."""
        return commit.order >= self.kept.orders.get(commit.branch, 0) or commit.id in self.exceptions

    def table(self, table: str) -> TableRow:
        found = self.rows.get(f"table:{table}")
        if not isinstance(found, TableRow):
            raise NotFound(message=f"there is no table {table}", kind="table", name=table)
        return found

    def commits(self, branch: str) -> list[Commit]:
        """The live commits made on a branch, newest first."""
        found = [row for row in self.rows.values() if isinstance(row, Commit) and row.branch == branch]
        return sorted(found, key=lambda row: row.order, reverse=True)

    def holds_all_since(self, branch: str, order: int) -> bool:
        """Whether every commit that was published on a branch after an order is among the live rows."""
        # Each publish takes the next order. One commit that is kept for another reason says nothing about the others.
        head = self.find_head(branch)
        return head is None or sum(row.order > order for row in self.commits(branch)) >= head.order - order

    @cached_property
    def _by_branch(self) -> dict[str, list[Row]]:
        grouped: dict[str, list[Row]] = {}
        for row in self.rows.values():
            if isinstance(row, Pin | Tombstone | SchemaRow):
                grouped.setdefault(row.branch, []).append(row)
        return grouped

    def lineage(self, branch: str, order: int | None = None) -> Iterator[tuple[str, int]]:
        """The branches whose rows are shown, nearest first, each with the highest order that counts."""
        for name, _, limit in self._reach(branch, order):
            yield name, limit

    def _reach(self, branch: str, order: int | None) -> Iterator[tuple[str, int, int]]:
        """The lineage, with the order above which each branch's own rows begin."""
        limit = order
        name = branch
        while name:
            made = self.incarnation(name, limit)
            if made is None:
                return
            yield name, made.inherited, made.order if limit is None else limit
            name, limit = made.parent_branch, made.base_order

    def pins(self, branch: str, order: int | None = None) -> dict[str, Pin]:
        """The version of every table that a branch shows, now or right after a publish order."""
        shown = self._newest(branch, order)
        return {name: row for name, row in shown.items() if isinstance(row, Pin)}

    def schema(self, branch: str, order: int | None = None) -> SchemaRow:
        found = self._newest(branch, order).get("")
        if not isinstance(found, SchemaRow):
            raise NotFound(message=f"branch {branch} has no schema", kind="schema", name=branch)
        return found

    def _newest(self, branch: str, order: int | None) -> dict[str, Row]:
        """Per table the row that counts; the schema's is under the empty name."""
        found: dict[str, Row] = {}
        for name, above, limit in self._reach(branch, order):
            here: dict[str, Row] = {}
            for row in self._by_branch.get(name, ()):
                key = "" if isinstance(row, SchemaRow) else row.table  # type: ignore[attr-defined]
                if above < row.order <= limit and (key not in here or here[key].order < row.order):
                    here[key] = row
            found = {**here, **found}
        return found

    def needed(self, *, commits: int) -> set[str]:
        """The rows that publishing needs: everything but superseded pins and schemas and all but the last commits."""
        kept = {name for name, row in self.rows.items() if not isinstance(row, _MOVABLE)}
        for branch in self.branches:
            kept.update(row.object_id for row in self._newest(branch, None).values())
            kept.update(row.object_id for row in self.commits(branch)[:commits])
            head = self.find_head(branch)
            if head is not None:
                kept.add(f"commit:{head.commit}")
        publishes = [row for row in self.rows.values() if isinstance(row, PublishRow)]
        newest = sorted(publishes, key=lambda row: row.created_at, reverse=True)[:commits]
        kept.update(row.object_id for row in newest)
        return kept

    def without(self, names: Iterable[str]) -> ManifestState:
        gone = set(names)
        return replace(self, rows={name: row for name, row in self.rows.items() if name not in gone})


_MOVABLE = (Pin, Tombstone, SchemaRow, Commit, PublishRow, Audit)
