"""What readers can still ask for: which commits are kept, and so which version of which table. Pure.

Kept are the heads, the last commits of each branch, those that were a head recently, the commits that branches were
made from or last merged, and those somebody holds. Of each table a floor says which versions are kept as a rule; what
is kept below it is the exception, and the commits that show it are listed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.graph.manifest.rows import Commit, Head, Pin, Row, SchemaRow, Tombstone
from headgate.graph.manifest.state import ManifestState


class Stored(NamedTuple):
    """A table's own history, or that of one of its forks."""

    table: str
    fork: str


@dataclass(frozen=True)
class Retention:
    floors: Mapping[Stored, int] = field(default_factory=dict)
    """Versions from here on are kept, whatever they are."""
    below: Mapping[Stored, frozenset[int]] = field(default_factory=dict)
    """Versions below the floor that are kept too."""
    orders: Mapping[str, int] = field(default_factory=dict)
    """Commits of a branch from this order on are kept."""
    exceptions: tuple[str, ...] = ()
    """Commits that are kept too, though they are older, or show something below a floor."""
    rows: frozenset[str] = frozenset()
    """Pins, tombstones and schemas that a kept commit shows."""

    def is_shown(self, row: Row) -> bool:
        """Whether a row of the history can still count."""
        return row.order >= self.orders.get(row.branch, 0) or row.object_id in self.rows

    def is_kept(self, stored: Stored, version: int) -> bool:
        floor = self.floors.get(stored)
        return floor is None or version >= floor or version in self.below.get(stored, ())


def retention(state: ManifestState, *, keep: int, cutoff: str, held: Iterable[str] = ()) -> Retention:
    """What to keep, by rows that include the whole history; `cutoff` is the time since which heads count as recent."""
    return _Planner(state, keep, cutoff, set(held)).plan()


class _Planner:
    def __init__(self, state: ManifestState, keep: int, cutoff: str, held: set[str]) -> None:
        self._state, self._keep, self._cutoff, self._held = state, keep, cutoff, held
        self._commits: dict[str, list[Commit]] = defaultdict(list)
        self._shown: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in state.rows.values():
            if isinstance(row, Commit):
                self._commits[row.branch].append(row)
            elif isinstance(row, Pin | Tombstone | SchemaRow):
                key = "" if isinstance(row, SchemaRow) else row.table
                self._shown[row.branch][key].append(row)
        for tables in self._shown.values():
            for rows in tables.values():
                rows.sort(key=lambda row: row.order)

    def plan(self) -> Retention:
        regular = {(branch, order) for branch, order in self._regular()}
        extra = {place for start in (*self._extra(), *regular) for place in self._inherited(*start)} | set(
            self._extra()
        )
        pinned = {place: list(self._visible(*place)) for place in regular | extra}
        names = {(row.branch, row.order): row.id for rows in self._commits.values() for row in rows}
        ruled: dict[Stored, set[int]] = defaultdict(set)
        every: dict[Stored, set[int]] = defaultdict(set)
        for tables in self._shown.values():
            for rows in tables.values():
                for row in rows:
                    if isinstance(row, Pin):
                        every[Stored(row.table, row.fork)].add(row.version)
        for place in regular:
            for row in pinned[place]:
                if isinstance(row, Pin):
                    ruled[Stored(row.table, row.fork)].add(row.version)
        floors = {
            stored: self._raised(stored, min(ruled[stored]) if stored in ruled else max(versions) + 1)
            for stored, versions in every.items()
        }
        orders = self._orders(regular)
        below: dict[Stored, set[int]] = defaultdict(set)
        exceptions = {names[place] for place in extra if place in names and place[1] < orders.get(place[0], 0)}
        for place, rows in pinned.items():
            for row in rows:
                if isinstance(row, Pin) and row.version < floors[Stored(row.table, row.fork)]:
                    below[Stored(row.table, row.fork)].add(row.version)
                    exceptions.add(names.get(place, ""))
        return Retention(
            floors=floors,
            below={stored: frozenset(versions) for stored, versions in below.items()},
            orders=orders,
            exceptions=tuple(sorted(exceptions - {""})),
            rows=frozenset(row.object_id for rows in pinned.values() for row in rows),
        )

    def _orders(self, regular: set[tuple[str, int]]) -> dict[str, int]:
        """The lowest order of each branch that is kept as a rule; of one that is deleted there is none."""
        before = self._state.kept.orders
        lowest: dict[str, int] = {}
        for row in self._state.rows.values():
            if isinstance(row, Head):
                mine = [order for branch, order in regular if branch == row.branch]
                lowest[row.branch] = max(min(mine, default=row.order + 1), before.get(row.branch, 0))
        return lowest

    def _raised(self, stored: Stored, version: int) -> int:
        """A floor only rises: what lies below one may be gone already."""
        before = self._state.find_floor(stored.table, stored.fork)
        return max(version, before.version if before else 0)

    def _heads(self) -> Iterator[Head]:
        for row in self._state.rows.values():
            if isinstance(row, Head) and not row.closed:
                yield row

    def _regular(self) -> Iterator[tuple[str, int]]:
        for head in self._heads():
            yield head.branch, head.order
            own = [row for row in self._commits[head.branch] if row.order > head.inherited and not row.superseded_by]
            own.sort(key=lambda row: row.order, reverse=True)
            until: str | None = None
            for place, commit in enumerate(own):
                wanted = place < self._keep or until is None or until >= self._cutoff
                if wanted and self._state.is_kept(commit):
                    yield head.branch, commit.order
                until = commit.created_at

    def _extra(self) -> Iterator[tuple[str, int]]:
        merged: dict[tuple[str, str], Commit] = {}
        # What an earlier cleanup has let go of does not come back, whoever asks for it now.
        listed = [row for rows in self._commits.values() for row in rows if self._state.is_kept(row)]
        by_id = {row.id: row for row in listed}
        for commit in listed:
            recent = commit.superseded_by and commit.created_at >= self._cutoff
            if commit.id in self._held or recent:
                yield commit.branch, commit.order
            source = by_id.get(commit.merged_parent)
            if source is not None:
                last = merged.get((commit.branch, source.branch))
                if last is None or last.order < commit.order:
                    merged[(commit.branch, source.branch)] = commit
        for commit in merged.values():
            source = by_id[commit.merged_parent]
            yield commit.branch, commit.order
            yield source.branch, source.order

    def _inherited(self, branch: str, order: int) -> Iterator[tuple[str, int]]:
        """What the branches above show of themselves at an order of this one."""
        for name, limit in self._state.lineage(branch, order):
            if name != branch or limit != order:
                yield name, limit

    def _visible(self, branch: str, order: int) -> Iterator[Row]:
        """The rows of a branch itself that count at one of its orders."""
        made = self._state.incarnation(branch, order)
        above = made.inherited if made is not None else 0
        for rows in self._shown[branch].values():
            place = bisect_right(rows, order, key=lambda row: row.order) - 1
            if place >= 0 and rows[place].order > above:
                yield rows[place]
