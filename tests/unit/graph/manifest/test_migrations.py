"""Formats: read as they are, migrated by the first writer, refused where they are not known.

The step from format 1 to 2 exists only here: in format 2 each commit says in its metadata who made it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import headgate.graph as hg
from headgate.errors import Unsupported
from headgate.graph.branches import create_branch
from headgate.graph.manifest import format as formats
from headgate.graph.manifest.format import Formats, Step
from headgate.graph.manifest.migrate import migrate
from headgate.graph.manifest.rows import Commit, Format, Row
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import Manifest, MergeUnknown
from headgate.graph.manifest.upkeep import keep_compact
from headgate.graph.storage import Location

OLD = formats.FORMATS
SCHEMA = "node Person { name: String @key }"


def signed(row: Row) -> Row:
    if isinstance(row, Commit) and "by" not in row.metadata:
        return replace(row, metadata={**row.metadata, "by": row.actor or "nobody"})
    return row


def sign_all(state: ManifestState, branch: str) -> Iterator[Row]:
    for row in state.rows.values():
        if row.branch == branch and signed(row) is not row:
            yield signed(row)


def stay(state: ManifestState, branch: str) -> Iterator[Row]:
    return iter(())


TWO = Formats(current=2, oldest=1, steps={1: Step(sign_all, signed)})
THREE = Formats(current=3, oldest=1, steps={1: Step(sign_all, signed), 2: Step(stay)})


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(known: Formats) -> None:
        monkeypatch.setattr(formats, "FORMATS", known)

    return install


@pytest.fixture
def old(place: str) -> hg.Graph:
    """A graph of format 1, with a branch and some history."""
    graph = hg.init(place, SCHEMA, actor="ann")
    add(graph, "a")
    create_branch(graph.store, "side")
    add(graph, "b", branch="side")
    return graph


def add(graph: hg.Graph, name: str, **kwargs: Any) -> None:
    graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": name}, actor="bob", **kwargs)


def stored(place: str) -> ManifestState:
    return Manifest.open(Location.parse(place), OLD).stored()


def signers(graph: hg.Graph, branch: str = "main") -> list[str]:
    return [commit.metadata.get("by", "") for commit in graph.log(branch)]


def people(graph: hg.Graph, branch: str = "main") -> list[str]:
    return sorted(graph.base(branch=branch).dataset("Person").to_table()["name"].to_pylist())


def test_a_read_only_open_reads_an_older_format_right_and_writes_nothing(old: hg.Graph, use: Any) -> None:
    before = stored(old.uri)
    use(TWO)
    graph = hg.open(old.uri, "ro")
    assert signers(graph) == ["bob", "ann"]
    assert signers(graph, "side") == ["bob", "bob", "ann"]
    assert people(graph, "side") == ["a", "b"]
    assert stored(old.uri) == before


def test_the_first_writer_migrates_main_and_each_branch_at_its_first_write(old: hg.Graph, use: Any) -> None:
    use(TWO)
    graph = hg.open(old.uri)
    now = stored(old.uri)
    assert (now.format_stamp, now.head("main").format, now.head("side").format) == (2, 2, 1)
    assert [commit.metadata.get("by") for commit in now.commits("side")] == [None]
    assert signers(graph, "side") == ["bob", "bob", "ann"]
    assert hg.open(old.uri).head().id == graph.head().id
    assert stored(old.uri).version == now.version, "a second open has nothing to do"
    add(graph, "c", branch="side")
    now = stored(old.uri)
    assert now.head("side").format == 2
    assert [commit.metadata.get("by") for commit in now.commits("side")] == [None, "bob"]
    assert people(graph, "side") == ["a", "b", "c"]


def test_cleanup_leaves_the_format_of_a_branch_as_it_is(old: hg.Graph, use: Any) -> None:
    use(TWO)
    graph = hg.open(old.uri)
    graph.cleanup(keep=1, older_than=timedelta(0), grace=timedelta(0))
    now = stored(old.uri)
    assert (now.head("main").format, now.head("side").format) == (2, 1)
    assert [commit.metadata.get("by") for commit in now.commits("side")] == [None]
    assert signers(hg.open(old.uri), "side") == ["bob", "bob", "ann"]


def test_several_steps_are_taken_one_by_one(old: hg.Graph, use: Any) -> None:
    before = stored(old.uri).version
    use(THREE)
    hg.open(old.uri)
    assert (stored(old.uri).format_stamp, stored(old.uri).version) == (3, before + 2)


def test_a_branch_made_after_the_migration_is_born_in_the_new_format(old: hg.Graph, use: Any) -> None:
    use(TWO)
    graph = hg.open(old.uri)
    create_branch(graph.store, "late")
    assert stored(old.uri).head("late").format == 2
    create_branch(graph.store, "from-side", "side")
    assert (stored(old.uri).head("side").format, stored(old.uri).head("from-side").format) == (2, 2)


def test_history_stays_stored_and_is_read_in_the_new_shape(old: hg.Graph, use: Any, monkeypatch: Any) -> None:
    for number in range(60):
        add(old, f"n{number:02}")
    use(TWO)
    graph = hg.open(old.uri)
    assert set(signers(graph)) == {"bob", "ann"}
    assert len(signers(graph)) == 62
    keep_compact(graph.store.manifest, graph.store.manifest.state())
    assert set(signers(hg.open(old.uri))) == {"bob", "ann"}


def test_a_runner_that_is_stopped_has_stored_a_whole_step_or_nothing(old: hg.Graph, use: Any) -> None:
    use(TWO)
    before = stored(old.uri)
    manifest = Manifest.open(Location.parse(old.uri))
    merge = manifest.merge

    def stopped_before(state: ManifestState, rows: Any) -> ManifestState:
        raise KeyboardInterrupt

    def stopped_after(state: ManifestState, rows: Any) -> ManifestState:
        merge(state, rows)
        raise KeyboardInterrupt

    manifest.merge = stopped_before  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        migrate(manifest, "main")
    assert stored(old.uri) == before
    manifest.merge = stopped_after  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        migrate(manifest, "main")
    assert stored(old.uri).format_stamp == 2
    assert [commit.metadata.get("by") for commit in stored(old.uri).commits("main")] == ["bob", "ann"]
    assert migrate(Manifest.open(Location.parse(old.uri)), "main") == 0


def test_a_lost_answer_is_read_back(old: hg.Graph, use: Any) -> None:
    use(TWO)
    manifest = Manifest.open(Location.parse(old.uri))
    merge = manifest.merge

    def lost(state: ManifestState, rows: Any) -> ManifestState:
        merge(state, rows)
        raise MergeUnknown("lost")

    manifest.merge = lost  # type: ignore[method-assign]
    assert migrate(manifest, "main") == 0
    assert stored(old.uri).format_stamp == 2


def test_concurrent_runners_converge(old: hg.Graph, use: Any) -> None:
    use(THREE)
    runners = [Manifest.open(Location.parse(old.uri)) for _ in range(4)]
    for runner in runners:
        runner.stored()
    taken: list[int] = []
    start = threading.Barrier(len(runners))

    def run(manifest: Manifest, branch: str) -> None:
        start.wait()
        taken.append(migrate(manifest, branch))

    threads = [
        threading.Thread(target=run, args=(runner, branch))
        for runner, branch in zip(runners, ["main", "main", "side", "side"], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = stored(old.uri)
    assert sum(taken) == 4, "two steps of two branches, each stored once"
    assert (now.format_stamp, now.head("main").format, now.head("side").format) == (3, 3, 3)


def test_the_publish_of_an_old_writer_is_refused_after_the_stamp(old: hg.Graph, use: Any) -> None:
    """Also of one that read the manifest before: it loses the head row, and its next try reads the stamp."""
    merge = old.store.manifest.merge

    def migrated_meanwhile(state: ManifestState, rows: Any) -> ManifestState:
        use(TWO)
        hg.open(old.uri)
        use(OLD)
        return merge(state, rows)

    head = old.head().id
    old.store.manifest.merge = migrated_meanwhile  # type: ignore[method-assign]
    with pytest.raises(Exception, match="format 2"):
        add(old, "late")
    assert stored(old.uri).head("main").commit == head
    use(TWO)
    graph = hg.open(old.uri)
    add(graph, "c")
    assert {"a", "c"} <= set(people(graph))


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_newer_format_is_refused_in_both_modes(old: hg.Graph, use: Any, mode: Any) -> None:
    use(TWO)
    hg.open(old.uri)
    use(OLD)
    with pytest.raises(Unsupported, match="install a newer version"):
        hg.open(old.uri, mode)


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_format_below_the_floor_is_refused_in_both_modes(old: hg.Graph, use: Any, mode: Any) -> None:
    use(Formats(current=3, oldest=2, steps={2: Step(stay)}))
    with pytest.raises(Unsupported, match="older version that can migrate it"):
        hg.open(old.uri, mode)


def test_formats_without_a_step_between_two_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="need a step"):
        Formats(current=3, oldest=1, steps={1: Step(stay)})
    assert Format(stamp=1).object_id == "format"
