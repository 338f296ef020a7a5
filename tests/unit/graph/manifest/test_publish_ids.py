"""Publish ids are known for a time: then they are forgotten, and leave the manifest and the history."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headgate.graph as hg
from headgate.graph.manifest import upkeep
from headgate.graph.manifest.rows import PublishRow

WEEK = timedelta(days=7)


@dataclass
class Hands:
    """A clock that is moved by hand."""

    at: datetime = field(default_factory=lambda: datetime(2030, 1, 1, tzinfo=UTC))

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def graph(tmp_path: Path, clock: Hands) -> hg.Graph:
    hg.init(tmp_path / "graph", "node Note { text: String }", clock=clock).close()
    return hg.open(tmp_path / "graph", publish_ids_kept=WEEK, clock=clock)


def add(graph: hg.Graph, publish_id: str) -> bool:
    return graph.mutate('query n() { insert Note { text: "t" } }', publish_id=publish_id).changed


def test_an_id_is_known_for_its_time(graph: hg.Graph, clock: Hands) -> None:
    assert add(graph, "once")
    clock.at += WEEK
    assert not add(graph, "once")
    clock.at += timedelta(seconds=1)
    assert add(graph, "once")
    assert not add(graph, "once")
    assert graph.base().rows["Note"] == 2


def test_forgotten_ids_leave_the_manifest_and_the_history(
    graph: hg.Graph, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "MOVED_AT_ONCE", 4)
    monkeypatch.setattr(upkeep, "COMMITS_KEPT", 1)
    monkeypatch.setattr("headgate.graph.manifest.history._FAN", 2)
    for number in range(30):
        assert add(graph, f"old {number}")
    manifest = graph.store.manifest
    assert manifest.history.rows("kind = 'publish'")
    clock.at += WEEK * 2
    for number in range(30):
        assert add(graph, f"new {number}")
    live = [row for row in manifest.state().rows.values() if isinstance(row, PublishRow)]
    known = [*live, *(row for row in manifest.history.rows("kind = 'publish'") if isinstance(row, PublishRow))]
    assert {row.publish_id for row in known if row.publish_id.startswith("new")} == {f"new {n}" for n in range(30)}
    assert len([row for row in known if row.publish_id.startswith("old")]) < 30
    assert len(list(graph.log())) == 61
