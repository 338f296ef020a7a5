"""Verify: a graph that was only ever written by us is whole, and each kind of damage is named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.unit.graph.upkeep.conftest import SCHEMA, songs

import headgate.graph as hg
from headgate.graph.manifest.rows import Commit, Head, Pin, Row
from headgate.graph.upkeep.verify import Verified


def told(graph: hg.Graph) -> list[tuple[str, str]]:
    return [(damage.what, f"{damage.where}: {damage.message}") for damage in hg.open(graph.uri, "ro").verify().damage]


def forge(graph: hg.Graph, *rows: Row) -> None:
    """Write rows into the manifest that no writer of ours would."""
    manifest = graph.store.manifest
    manifest.merge(manifest.state(), rows)


def everything(graph: hg.Graph) -> Verified:
    """A graph with a bit of all: branches, schema changes, indices, upkeep."""
    graph.ensure_indices()
    graph.create_branch("side")
    songs(graph, 50, 53, branch="side")
    graph.apply_schema(SCHEMA.replace("node Artist {", "node Artist { born: I32 @default(1950)"))
    graph.mutate('query q() { delete Song where title = "s4" insert Artist { name: "cy", born: 1960 } }')
    songs(graph, 40, 45)
    graph.optimize()
    graph.cleanup(keep=2, older_than=timedelta(0), grace=timedelta(0))
    songs(graph, 45, 46)
    return hg.open(graph.uri, "ro").verify()


def test_a_graph_with_a_bit_of_everything_is_whole(music: hg.Graph) -> None:
    found = everything(music)
    assert [str(damage) for damage in found.damage] == []
    assert (found.branches, found.whole) == (2, True)
    assert found.rows > 90
    assert found.versions > 5


def test_a_version_that_was_removed_is_named(music: hg.Graph) -> None:
    row, pin = music.base().tables["Song"]
    songs(music, 41, 43)
    music.store.tables.drop_versions(row.path, "", [pin.version])
    assert told(music) == [("pin", f"Song ({row.path}): version {pin.version}, which branch main showed, is not there")]


def test_a_lost_file_is_named(music: hg.Graph) -> None:
    path = Path(music.uri, music.base().tables["Artist"][0].path, "data")
    shutil.rmtree(path)
    assert [what for what, _ in told(music)] == ["file"]


def test_a_pin_with_a_wrong_count_is_named(music: hg.Graph) -> None:
    pin = music.base().tables["Song"][1]
    forge(music, replace(pin, rows=7))
    assert told(music) == [("count", "main:Song: the table has 40 rows, and its pin says 7")]


def test_a_commit_that_is_not_there_is_named(music: hg.Graph) -> None:
    head = music.head()
    forge(music, replace(head, parent="nowhere"), music.store.manifest.state().head("main"))
    (damage,) = told(music)
    assert damage == ("lineage", f"main: commit nowhere, which {head.id} was made on, is not there")
    assert isinstance(head, Commit)
    assert isinstance(music.store.manifest.state().head("main"), Head)


def test_rows_that_break_the_schema_are_named(music: hg.Graph) -> None:
    """Rows that were committed to a table behind our back, and pinned."""
    store = music.store
    base = music.base()
    rows = base.dataset("By").to_table().slice(0, 1)
    rows = rows.set_column(1, rows.schema.field("src"), [["nobody"]])
    at = base.snapshot("By")
    version = store.tables.commit(at, store.tables.stage(at, add=rows))
    song = base.snapshot("Song")
    twice = base.dataset("Song").to_table(filter="title = 's1'")
    twice = twice.set_column(twice.schema.get_field_index("mood"), twice.schema.field("mood"), [["angry"]])
    landed = store.tables.commit(song, store.tables.stage(song, add=twice))
    forge(
        music,
        replace(base.tables["By"][1], version=version, rows=10),
        replace(base.tables["Song"][1], version=landed, rows=41),
        store.manifest.state().head("main"),
    )
    found = told(music)
    assert any("src names Song nobody, which does not exist" in message for _, message in found)
    assert any("s1: mood is 'angry'" in message for _, message in found)
    assert any("the id s1 is there more than once" in message for _, message in found)
    assert {what for what, _ in found} == {"constraint"}


def test_columns_that_are_not_the_schema_s_are_named(music: hg.Graph) -> None:
    tables = music.base().tables
    artist, song = tables["Artist"], tables["Song"]
    forge(music, replace(artist[0], path=song[0].path), music.store.manifest.state().head("main"))
    found = told(music)
    assert ("columns", "main:Artist: the column name is not there") in found
    assert isinstance(artist[1], Pin)
