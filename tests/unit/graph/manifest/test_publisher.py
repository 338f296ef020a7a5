"""The publisher: what it checks, what it answers when answers are lost, and what it leaves in the history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headgate.graph as hg
from headgate.clock import SYSTEM_CLOCK
from headgate.errors import (
    Conflict,
    Contention,
    ExpectedHeadMismatch,
    ExpectedVersionMismatch,
    OutcomeUnknown,
    Unsupported,
)
from headgate.graph.manifest import upkeep
from headgate.graph.manifest.publisher import RETRIES, Publication, Published, TableAt, publish
from headgate.graph.manifest.rows import COLUMNS, KINDS, Commit, Format, Head, Pin, Row, decode, encode
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import Manifest, MergeContended, MergeUnknown
from headgate.graph.manifest.travel import ancestors, commit_at, state_at
from headgate.graph.storage import Location
from headgate.graph.write.create import create_graph
from headgate.ids import ULIDS


@pytest.fixture
def location(tmp_path: Path) -> Location:
    found = Location.parse(tmp_path / "graph")
    create_graph(
        found, "node A { v: I64 @key }\nnode B { v: I64 @key }", actor="", message="", clock=SYSTEM_CLOCK, ids=ULIDS
    )
    return found


@pytest.fixture
def manifest(location: Location) -> Manifest:
    return Manifest.open(location)


def table_of(state: ManifestState, name: str) -> str:
    return next(pin for pin in state.pins("main") if state.table(pin).name == name)


def publication(manifest: Manifest, name: str = "A", **more: object) -> Publication:
    state = manifest.state()
    table = table_of(state, name)
    at = state.pins("main")[table]
    made = Publication(
        branch="main",
        commit=ULIDS.new(),
        base=state.head("main").mark,
        writer="test",
        expected={table: TableAt(at.version, at.fork)},
        pins={table: TableAt(at.version + 1, at.fork, 1)},
    )
    return replace(made, **more)  # type: ignore[arg-type]


def test_one_publish_is_one_version_with_its_lineage(manifest: Manifest) -> None:
    """Invariant 5: pins, commit and head are in the same version."""
    before = manifest.state()
    done = publish(manifest, publication(manifest))
    assert done.state.version == before.version + 1
    assert done.commit.parent == before.head("main").commit
    assert done.state.head("main").commit == done.commit.id
    assert done.state.head("main").order == before.head("main").order + 1


def test_a_moved_table_is_a_conflict_with_both_versions(manifest: Manifest, location: Location) -> None:
    first = publication(manifest)
    stale = replace(first, commit=ULIDS.new())
    publish(Manifest.open(location), first)
    with pytest.raises(ExpectedVersionMismatch) as lost:
        publish(manifest, stale)
    assert (lost.value.table, lost.value.expected, lost.value.actual) == ("A", 1, 2)


def test_a_moved_head_matters_only_to_a_conditional_write(manifest: Manifest, location: Location) -> None:
    free = publication(manifest, "B")
    bound = publication(manifest, "B", if_head=True)
    publish(Manifest.open(location), publication(manifest, "A"))
    with pytest.raises(ExpectedHeadMismatch):
        publish(manifest, bound)
    done = publish(manifest, free)
    assert next(ancestors(manifest, done.state, done.commit.id)).id == free.commit
    assert done.commit.parent != free.base.commit


def test_a_publish_that_landed_already_is_found_and_not_repeated(manifest: Manifest, location: Location) -> None:
    made = publication(manifest)
    first = publish(Manifest.open(location), made)
    again = publish(manifest, made)
    assert again.commit == first.commit
    assert len(manifest.state().commits("main")) == 2


class Faulty:
    """The real merge with an answer lost: the rows are written, or not, and nobody hears of it."""

    def __init__(self, manifest: Manifest, monkeypatch: pytest.MonkeyPatch, *, landed: list[bool]) -> None:
        self.tries = 0
        real: Callable[[ManifestState, list[Row]], ManifestState] = manifest.merge

        def merge(state: ManifestState, rows: list[Row]) -> ManifestState:
            self.tries += 1
            if self.tries > len(landed):
                return real(state, rows)
            if landed[self.tries - 1]:
                real(state, rows)
            raise MergeUnknown("the connection was reset")

        monkeypatch.setattr(manifest, "merge", merge)


@pytest.mark.parametrize("landed", [[True], [False], [False, True], [False] * RETRIES])
def test_a_lost_answer_is_read_back(manifest: Manifest, monkeypatch: pytest.MonkeyPatch, landed: list[bool]) -> None:
    """Invariant 4: the commit is there once, whether or not the lost try landed."""
    Faulty(manifest, monkeypatch, landed=landed)
    done = publish(manifest, publication(manifest))
    assert done.state.head("main").commit == done.commit.id
    assert len(done.state.commits("main")) == 2


def test_what_cannot_be_told_is_unknown_with_the_commit(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = Faulty(manifest, monkeypatch, landed=[False] * 20)
    made = publication(manifest)
    with pytest.raises(OutcomeUnknown) as unknown:
        publish(manifest, made)
    assert unknown.value.publish_id == made.commit
    assert faulty.tries == RETRIES + 1


def test_contention_is_bounded_and_transient(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(state: ManifestState, rows: list[Row]) -> ManifestState:
        raise MergeContended("others")

    monkeypatch.setattr(manifest, "merge", busy)
    with pytest.raises(Contention) as lost:
        publish(manifest, publication(manifest))
    assert lost.value.tries == RETRIES + 1


def test_a_merge_on_a_stale_state_is_refused(manifest: Manifest, location: Location) -> None:
    other = Manifest.open(location)
    stale = other.state()
    publish(manifest, publication(manifest))
    head = stale.head("main")
    with pytest.raises(MergeContended):
        other.merge(stale, [replace(head, order=head.order + 1, commit="mine")])
    assert other.state().head("main").commit != "mine"


def test_two_branches_publish_at_once(manifest: Manifest, location: Location) -> None:
    state = manifest.state()
    head = state.head("main")
    side = Head(branch="side", order=head.order, commit=head.commit, parent_branch="main", base_order=head.order)
    state = manifest.merge(state, [replace(side, inherited=head.order), replace(head)])
    publish(manifest, publication(manifest))
    other = Manifest.open(location)
    theirs = other.state()
    publish(manifest, publication(manifest))
    landed = other.merge(theirs, [replace(theirs.head("side"), order=9, commit="side9")])
    assert landed.head("side").commit == "side9"
    assert landed.head("main").order == head.order + 2


def test_a_branch_shows_what_it_inherits_and_hides_what_came_after(manifest: Manifest) -> None:
    publish(manifest, publication(manifest))
    state = manifest.state()
    head = state.head("main")
    side = Head(
        branch="side",
        order=head.order,
        commit=head.commit,
        parent_branch="main",
        base_order=head.order,
        inherited=head.order,
    )
    manifest.merge(state, [side, head])
    publish(manifest, publication(manifest))
    state = manifest.state()
    table = table_of(state, "A")
    assert (state.pins("side")[table].version, state.pins("main")[table].version) == (2, 3)
    with pytest.raises(ExpectedVersionMismatch):
        publish(manifest, publication(manifest, branch="side"))
    mine = publication(manifest, branch="side", expected={}, pins={table: TableAt(7)})
    done = publish(manifest, mine)
    assert done.state.pins("side")[table].version == 7
    assert done.commit.parent == head.commit


def test_a_closed_branch_takes_no_publish(manifest: Manifest) -> None:
    made = publication(manifest)
    state = manifest.state()
    manifest.merge(state, [replace(state.head("main"), closed=True)])
    with pytest.raises(Conflict, match="has been deleted"):
        publish(manifest, made)


def test_a_newer_format_is_refused_by_the_publish_itself(manifest: Manifest, location: Location) -> None:
    """An old writer that is open while a newer version migrates loses its next publish."""
    made = publication(manifest)
    newer = Manifest.open(location)
    state = newer.state()
    newer.merge(state, [Format(stamp=99), state.head("main")])
    with pytest.raises(Unsupported, match="format 99"):
        publish(manifest, made)


@pytest.mark.parametrize("mode", ["rw", "ro"])
@pytest.mark.parametrize("stamp", [0, 99])
def test_a_format_that_is_not_known_is_refused_at_open(
    manifest: Manifest, location: Location, mode: Any, stamp: int
) -> None:
    manifest.merge(manifest.state(), [Format(stamp=stamp)])
    with pytest.raises(Unsupported, match=f"format {stamp}"):
        hg.open(location.uri, mode)


def test_rows_survive_being_stored_and_unknown_ones_are_skipped() -> None:
    rows = [
        Commit(branch="b", order=3, id="c", parent="p", metadata={"k": "v"}, tables=("t",), content=False),
        Pin(branch="b", order=3, table="t", version=4, fork="f", rows=5),
    ]
    table = encode(rows)
    assert decode(table) == rows
    kinds = ["later" for _ in rows]
    strange = table.set_column(1, COLUMNS.field("kind"), [kinds])
    assert decode(strange) == []
    assert "later" not in KINDS


def grow(manifest: Manifest, count: int) -> list[Published]:
    done = []
    for number in range(count):
        made = publish(manifest, publication(manifest, "AB"[number % 2], publish_id=f"p{number}"))
        upkeep.keep_compact(manifest, made.state)
        done.append(made)
    return done


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep that has something to do every few publishes."""
    for name, value in {"FRAGMENTS": 3, "MOVED_AT_ONCE": 6, "COMMITS_KEPT": 4, "VERSIONS_KEPT": 12}.items():
        monkeypatch.setattr(upkeep, name, value)


@pytest.mark.usefixtures("eager")
def test_history_keeps_what_leaves_the_manifest(manifest: Manifest, location: Location) -> None:
    published = grow(manifest, 40)
    state = manifest.state()
    assert len(state.commits("main")) < 12
    assert manifest.fragments <= 4
    reopened = Manifest.open(location)
    state = reopened.state()
    log = list(ancestors(reopened, state, state.head("main").commit))
    assert [commit.id for commit in log[:-1]] == [made.commit.id for made in reversed(published)]
    for made in published[::7]:
        past = state_at(reopened, state, commit_at(reopened, state, made.commit.id))
        order = made.commit.order
        assert past.pins("main", order) == made.state.pins("main")
        again = publish(reopened, publication(reopened, publish_id=made.commit.publish_id))
        assert again.repeated
        assert again.commit.id == made.commit.id


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("branched", [False, True])
def test_a_publish_finds_itself_in_the_history(manifest: Manifest, location: Location, branched: bool) -> None:
    """Invariant 4: also where a branch keeps an older commit among the live rows, which says nothing of this one."""
    if branched:
        state = manifest.state()
        head = state.head("main")
        kept = Head(branch="side", order=2, commit=head.commit, parent_branch="main", base_order=1, inherited=1)
        manifest.merge(state, [kept, head])
    made = publication(manifest)
    first = publish(Manifest.open(location), made)
    grow(manifest, 30)
    assert manifest.state().find_commit(made.commit) is None
    assert publish(manifest, made).commit == first.commit


@pytest.mark.usefixtures("eager")
def test_versions_of_the_manifest_do_not_pile_up(manifest: Manifest, location: Location) -> None:
    grow(manifest, 80)
    versions = list((location.path / "__manifest" / "_versions").iterdir())
    assert len(versions) < 60
    assert Manifest.open(location).state().head("main").order == 81


@pytest.mark.usefixtures("eager")
def test_a_writer_older_than_what_was_dropped_still_loses(manifest: Manifest, location: Location) -> None:
    """Versions are dropped below a barrier only: a stale merge is refused although its rivals are gone."""
    other = Manifest.open(location)
    stale = other.state()
    base = other._dataset.checkout_version(stale.version)
    grow(manifest, 80)
    head = stale.head("main")
    late = replace(head, order=head.order + 1, commit="late")
    with pytest.raises(Exception):  # noqa: B017 - a lost file or a conflict, whichever is met first
        other._merge_staged(base, [late])
    names = manifest._dataset.checkout_version(manifest._dataset.latest_version).to_table()["object_id"].to_pylist()
    assert names.count("head:main") == 1
    assert manifest.state().head("main").commit != "late"


@pytest.mark.usefixtures("eager")
def test_upkeep_that_loses_its_race_changes_nothing(manifest: Manifest, location: Location) -> None:
    state = publish(manifest, publication(manifest)).state
    publish(Manifest.open(location), publication(manifest, "B"))
    assert not manifest.replace_all(state, [])
    assert Manifest.open(location).state().head("main").order == 3


def test_a_merge_that_cannot_be_read_back_is_unknown_and_then_found(
    manifest: Manifest, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Lance raises there, the rows have landed: the next try finds the commit and makes no second one."""
    real = Manifest._merge_staged

    class Deaf:
        def __init__(self, dataset: Any) -> None:
            self._dataset = dataset

        def __getattr__(self, name: str) -> Any:
            if name == "latest_version" and not told:
                told.append(name)
                raise OSError("connection reset by peer")
            return getattr(self._dataset, name)

    told: list[str] = []
    monkeypatch.setattr(Manifest, "_merge_staged", lambda self, base, rows: Deaf(real(self, base, rows)))
    made = publication(manifest)
    assert publish(manifest, made).commit.id == made.commit
    assert told
    commits = [row for row in Manifest.open(location).state().rows.values() if isinstance(row, Commit)]
    assert len(commits) == 2


def test_a_commit_that_another_branch_shows_is_not_replaced(manifest: Manifest) -> None:
    """Invariant 3: the branch may have been made after the replacing write looked for one."""
    abandoned = publish(manifest, publication(manifest)).commit
    instead = publication(manifest, if_head=True, replaces=abandoned.id, onto=abandoned.parent)
    state = manifest.state()
    head = state.head("main")
    child = Head(branch="side", order=head.order + 1, commit=head.commit, parent_branch="main", base_order=head.order)
    manifest.merge(state, [child, head])
    with pytest.raises(Conflict, match="branch side was made from"):
        publish(manifest, instead)
