"""Indices: which there are, and that no read depends on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.graph.upkeep.conftest import SCHEMA, songs

import headgate.graph as hg
from headgate.graph.storage.indices import stored_indices

READS = [
    'query q() { match { $s: Song { title: "s7" } } return { $s.year as y } }',
    "query q() { match { $s: Song $s.year >= 1920 and $s.year < 1930 } return { $s.title as t } }",
    'query q() { match { $s: Song $s.mood = "sad" } return { $s.title as t } }',
    'query q() { match { $s: Song $s.words = "word8 common" } return { $s.title as t } }',
    'query q() { match { $s: Song $s.words starts_with "word1" } return { $s.title as t } }',
    "query q() { match { $s: Song $s.words is null } return { $s.title as t } }",
    'query q() { match { $s: Song $a: Artist { name: "ann" } $s by $a } return { $s.title as t } }',
]


def indices(graph: hg.Graph, name: str) -> dict[tuple[str, str], int]:
    """The number of segments of each index."""
    found = stored_indices(graph.base().snapshot(name))
    return {(index.column, index.kind.name): len(index.segments) for index in found}


def answers(graph: hg.Graph) -> list[Any]:
    """What every kind of read says: queries, full text, nearest vectors."""
    out: list[Any] = [sorted(map(str, graph.query(text).to_json_rows())) for text in READS]
    table = graph.snapshot().table("Song")
    out.append(table.to_table(filter="contains(words, 'word3')")["title"].to_pylist())
    near = {"column": "sound", "q": np.array([9.2, 4.4, 1, 0], "f4"), "k": 5}
    out.append(table.to_table(nearest=near, columns=["title"])["title"].to_pylist())
    return out


def found_by_word(graph: hg.Graph, word: str) -> list[str]:
    return sorted(graph.snapshot().table("Song").to_table(full_text_query=word)["title"].to_pylist())


def test_every_declared_kind_is_built_once_and_changes_no_answer(music: hg.Graph) -> None:
    plain = answers(music)
    content = music.head()
    first = music.ensure_indices()
    assert first.changed
    assert music.head().parent == content.id
    assert not music.head().content
    assert indices(music, "Song") == {
        ("id", "ORDERED"): 1, ("title", "ORDERED"): 1, ("title", "WORDS"): 1, ("words", "ORDERED"): 1,
        ("words", "WORDS"): 1, ("year", "ORDERED"): 1, ("mood", "ORDERED"): 1, ("sound", "NEAREST"): 1,
    }  # fmt: skip
    assert set(indices(music, "By")) >= {("src", "ORDERED"), ("dst", "ORDERED"), ("role", "WORDS")}
    assert answers(music) == plain
    assert found_by_word(music, "word8") == ["s8"]
    assert not music.ensure_indices().changed


def test_an_index_is_used(music: hg.Graph) -> None:
    music.ensure_indices()
    table = music.snapshot().table("Song")
    for condition in ("year = 1910", "mood = 'sad'", "words = 'word8 common'"):
        assert "ScalarIndexQuery" in table.scanner(filter=condition).explain_plan(), condition


def test_rows_written_after_an_index_are_found_before_and_after_they_are_folded_in(music: hg.Graph) -> None:
    music.ensure_indices()
    songs(music, 30, 60)
    music.mutate('query q() { delete Song where title = "s3" }')
    before = answers(music)
    assert found_by_word(music, "word44") == ["s44"]
    done = music.optimize()
    assert "main:Song" in done.indexed
    assert all(segments == 1 for segments in indices(music, "Song").values())
    assert answers(music) == before
    assert found_by_word(music, "word44") == ["s44"]
    assert found_by_word(music, "common") == sorted(f"s{n}" for n in range(60) if n % 5 and n != 3)


def test_a_renamed_column_keeps_its_index_and_a_new_one_of_the_old_name_gets_its_own(music: hg.Graph) -> None:
    music.ensure_indices()
    since = 'since: I32? @index @rename_from("year")'
    music.apply_schema(SCHEMA.replace("year: I32? @index", since))
    music.apply_schema(SCHEMA.replace("year: I32? @index", f"{since}  year: I32? @index"))
    assert indices(music, "Song")[("since", "ORDERED")] == 1
    assert indices(music, "Song")[("year", "ORDERED")] == 1
    table = music.snapshot().table("Song")
    assert table.to_table(filter="since = 1910").num_rows == 1
    assert table.to_table(filter="year = 1910").num_rows == 0


def test_tables_without_rows_or_without_vectors_are_left_without_an_index(place: str) -> None:
    with hg.init(place, "node A { v: Vector(2)? @index }") as graph:
        assert not graph.ensure_indices().changed
        graph.mutate("query q() { insert A { } }")
        graph.ensure_indices()
        assert set(indices(graph, "A")) == {("id", "ORDERED")}


@pytest.mark.parametrize("rows", [1, 300])
def test_a_vector_index_over_few_or_more_rows_finds_the_nearest(place: str, rows: int) -> None:
    with hg.init(place, "node A { name: String @key  v: Vector(2)? @index }") as graph:
        graph.load([{"type": "A", "data": {"name": f"a{n}", "v": [float(n), 0.0]}} for n in range(rows)])
        graph.ensure_indices()
        found = graph.snapshot().table("A").to_table(nearest={"column": "v", "q": np.array([0, 0], "f4"), "k": 1})
        assert found["name"].to_pylist() == ["a0"]
