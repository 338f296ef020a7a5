"""What is kept, decided over rows alone."""

from __future__ import annotations

from headgate.graph.manifest.rows import Commit, Floor, Head, Kept, Pin, Row
from headgate.graph.manifest.state import ManifestState
from headgate.graph.upkeep.retention import Retention, Stored, retention

T = Stored("t", "")


def history(count: int, branch: str = "main", *, first: int = 1, **head: object) -> list[Row]:
    """A branch whose n-th publish, at minute n, pinned version n of a table."""
    rows: list[Row] = [Head(branch=branch, order=first + count - 1, commit=f"{branch}{first + count - 1}", **head)]  # type: ignore[arg-type]
    fork = "" if branch == "main" else f"{branch}-f"
    for order in range(first, first + count):
        rows.append(Commit(branch=branch, order=order, id=f"{branch}{order}", created_at=f"2026-01-01T00:{order:02}"))
        rows.append(Pin(branch=branch, order=order, table="t", version=order, fork=fork))
    return rows


def kept(rows: list[Row], *, keep: int = 1, cutoff: str = "9999", held: tuple[str, ...] = ()) -> Retention:
    return retention(ManifestState(1, {row.object_id: row for row in rows}), keep=keep, cutoff=cutoff, held=held)


def versions(found: Retention, count: int, stored: Stored = T) -> list[int]:
    return [version for version in range(1, count + 1) if found.is_kept(stored, version)]


def test_the_last_commits_are_kept() -> None:
    found = kept(history(9), keep=3)
    assert versions(found, 9) == [7, 8, 9]
    assert (found.orders["main"], found.exceptions) == (7, ())


def test_a_commit_that_was_the_head_lately_is_kept() -> None:
    assert versions(kept(history(9), cutoff="2026-01-01T00:06"), 9) == [5, 6, 7, 8, 9], "5 was the head until 6 came"


def test_a_held_commit_is_an_exception() -> None:
    found = kept(history(9), held=("main3",))
    assert versions(found, 9) == [3, 9]
    assert found.exceptions == ("main3",)


def test_the_commit_a_branch_was_made_from_is_kept_for_as_long_as_the_branch() -> None:
    side = Head(branch="side", order=10, commit="main4", parent_branch="main", base_order=4, inherited=9)
    found = kept([*history(9), side])
    assert versions(found, 9) == [4, 9]
    assert found.exceptions == ("main4",)
    closed = Head(branch="side", order=11, commit="main4", parent_branch="main", base_order=4, inherited=9, closed=True)
    assert versions(kept([*history(9), closed]), 9) == [9]


def test_both_sides_of_the_last_merge_are_kept() -> None:
    rows = history(9) + history(4, "side", first=20, parent_branch="main", base_order=9, inherited=9)
    merge = Commit(branch="main", order=5, id="main5", created_at="2026-01-01T00:05", merged_parent="side21")
    found = kept([*(row for row in rows if row.object_id != merge.object_id), merge])
    assert versions(found, 9) == [5, 9]
    assert [v for v in range(20, 24) if found.is_kept(Stored("t", "side-f"), v)] == [21, 23]


def test_rows_that_no_kept_commit_shows_can_go_and_what_counts_stays() -> None:
    rows = [*history(9), Pin(branch="main", order=2, table="u", version=1)]
    found = kept(rows, keep=2)
    gone = {row.object_id for row in rows if isinstance(row, Pin) and not found.is_shown(row)}
    assert gone == {f"pin:main:t:{order:012d}" for order in range(1, 8)}
    assert found.is_kept(Stored("u", ""), 1)


def test_a_floor_never_falls() -> None:
    rows = [*history(9), Floor(table="t", version=8), Kept(orders={"main": 8}, commits=("main3",))]
    found = kept(rows, keep=5, held=("main3", "main4"))
    assert versions(found, 9) == [3, 8, 9], "what was let go does not come back"
    assert (found.floors[T], found.orders["main"], found.exceptions) == (8, 8, ("main3",))


def test_a_table_that_no_branch_shows_is_let_go_whole() -> None:
    rows = history(3)
    rows.append(Pin(branch="gone", order=1, table="x", version=4))
    assert kept(rows).floors[Stored("x", "")] == 5
