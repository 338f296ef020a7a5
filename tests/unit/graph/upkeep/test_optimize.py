"""Optimize: the same content in fewer fragments, beside writers, readers and task attempts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.unit.graph.upkeep.conftest import content, songs

import headgate.graph as hg
from headgate import failpoints
from headgate.failpoints import Failpoint
from headgate.graph.recovery.writers import Writer
from headgate.graph.storage import compact
from headgate.graph.write.prepared import WriteRequest
from headgate.graph.write.task import judged_head, publish_changes
from headgate.graph.write.transaction import Transaction


def fragments(graph: hg.Graph, name: str = "Song") -> int:
    return len(graph.base().dataset(name).get_fragments())


def test_many_small_writes_become_one_fragment_with_the_same_content(music: hg.Graph) -> None:
    for number in range(40, 46):
        songs(music, number, number + 1)
    music.mutate('query q() { delete Song where title = "s2" }')
    held = music.snapshot()
    before, read = content(music), held.sql("select count(*) as n from Song").to_json_rows()
    assert fragments(music) > 3
    done = music.optimize()
    assert "main:Song" in done.compacted
    assert done.busy == []
    assert fragments(music) == 1
    assert music.base().dataset("Song").get_fragments()[0].num_deletions == 0
    assert content(music) == before
    assert held.sql("select count(*) as n from Song").to_json_rows() == read
    head = music.head()
    assert (head.writer, head.content) == ("optimize", False)
    again = music.optimize()
    assert (again.compacted, again.indexed) == ([], [])
    assert music.head().id == head.id


def test_a_large_fragment_is_left_alone_and_a_thinned_one_is_not(music: hg.Graph, monkeypatch: Any) -> None:
    monkeypatch.setattr(compact, "SMALL_ROWS", 20)
    songs(music, 40, 41)
    songs(music, 41, 42)
    assert fragments(music) == 3
    music.optimize()
    assert fragments(music) == 2, "the two small ones"
    music.mutate("query q() { delete Song where year < 1910 }")
    music.optimize()
    assert [fragment.num_deletions for fragment in music.base().dataset("Song").get_fragments()] == [0]


def test_the_manifest_is_compact_afterwards(music: hg.Graph) -> None:
    for number in range(60):
        music.mutate("query q($n: String) { insert Artist { name: $n } }", {"n": f"a{number}"})
    music.optimize()
    assert music.store.manifest.fragments == 1
    assert len(list(music.log())) > 60


@pytest.mark.usefixtures("disarmed")
def test_a_write_in_between_is_kept(music: hg.Graph) -> None:
    songs(music, 40, 41)
    other, done = hg.open(music.uri), []

    def write(point: Failpoint) -> None:
        if point is Failpoint.GRAPH_STAGED and not done:
            done.append(point)
            thread = threading.Thread(target=songs, args=(other, 50, 51))
            thread.start()
            thread.join()

    failpoints.arm(write)
    music.optimize()
    failpoints.arm(None)
    assert {row["title"] for row in content(music)["Song"]} == {f"s{n}" for n in [*range(41), 50]}


def test_an_attempt_that_began_before_publishes_after(music: hg.Graph) -> None:
    """Commits that change no content are transparent to the fence."""
    songs(music, 40, 41)
    start = music.head().id
    request = WriteRequest(writer=Writer.TASK, actor="task:t", publish_id="p")
    attempt = Transaction(music.store, music.base(commit=start), request)
    attempt.merge("Song", [{"title": "s1", "year": 2000}])
    music.ensure_indices()
    assert music.optimize().compacted
    done = publish_changes(music.store, request, attempt.prepare_on, judged_head(music.store, "main", start, ["Song"]))
    attempt.rollback()
    assert done.changed
    assert next(row for row in content(music)["Song"] if row["id"] == "s1")["year"] == 2000


def test_a_branch_looks_after_what_it_has_written_itself(music: hg.Graph) -> None:
    songs(music, 40, 41)
    music.create_branch("side")
    songs(music, 60, 61, branch="side")
    before, main = content(music, branch="side"), music.head().id
    done = music.optimize(branch="side")
    assert done.compacted == ["side:Song"]
    assert content(music, branch="side") == before
    assert music.head().id == main
    assert music.optimize().compacted == ["main:Song"]
