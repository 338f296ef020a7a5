"""Repair: what lies above the pins is explained and brought back, and never while a write is unfinished."""

from __future__ import annotations

import pytest
from tests.unit.graph.upkeep.conftest import content, songs

import headgate.graph as hg
from headgate.errors import RecoveryRequired
from headgate.graph.manifest.rows import HeadMark
from headgate.graph.recovery.sidecar import Sidecar


def drift(graph: hg.Graph, name: str = "Artist") -> None:
    """A version that no writer has published."""
    at = graph.base().snapshot(name)
    graph.store.tables.commit(at, graph.store.tables.stage(at, remove=[0]))


def test_a_graph_without_residue_has_not_drifted(music: hg.Graph) -> None:
    assert music.drift() == []
    assert music.repair() == []


def test_residue_is_explained_and_brought_back(music: hg.Graph) -> None:
    before, head = content(music), music.head().id
    drift(music)
    (found,) = music.drift()
    assert (found.branch, found.type, found.newest - found.pin, found.rows, found.newest_rows) == (
        "main", "Artist", 1, 2, 1
    )  # fmt: skip
    assert "never published" in found.reason
    assert content(music) == before
    assert music.repair() == [found]
    assert music.drift() == []
    assert content(hg.open(music.uri)) == before
    assert (music.head().parent, music.head().content, music.head().writer) == (head, False, "repair")
    songs(music, 60, 61)
    assert music.verify().whole


def test_nothing_is_touched_while_a_sidecar_is_pending(music: hg.Graph) -> None:
    drift(music)
    head = music.store.manifest.state().head("main")
    pending = Sidecar(
        operation="01J00000000000000000000000",
        branch="main",
        base=HeadMark(head.commit, head.order),
        writer="mutate",
    )
    music.store.sidecars.create(pending)
    newest = music.drift()[0].newest
    with pytest.raises(RecoveryRequired, match="a write is unfinished"):
        music.repair()
    assert music.drift()[0].newest == newest
    assert music.head().id == head.commit
    music.store.sidecars.delete(pending)
    music.repair()
    assert music.drift() == []
