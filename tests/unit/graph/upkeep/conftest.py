"""A graph with every kind of index, written bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headgate.graph as hg

SCHEMA = """
node Song { title: String @key  words: String? @index  year: I32? @index  mood: enum(glad, sad)? @index
  sound: Vector(4)? @index }
node Artist { name: String @key }
edge By: Song -> Artist { role: String? @index }
"""


def song(number: int) -> dict[str, Any]:
    return {
        "title": f"s{number}",
        "words": f"word{number} common" if number % 5 else None,
        "year": 1900 + number % 50,
        "mood": "glad" if number % 3 else "sad",
        "sound": [float(number), number * 0.5, 1.0, 0.0] if number % 7 else None,
    }


def songs(graph: hg.Graph, first: int, last: int, **kwargs: Any) -> None:
    graph.load([{"type": "Song", "data": song(number)} for number in range(first, last)], mode="merge", **kwargs)


@pytest.fixture
def music(place: str) -> Iterator[hg.Graph]:
    with hg.init(place, SCHEMA) as graph:
        graph.load([{"type": "Artist", "data": {"name": name}} for name in ("ann", "bob")])
        songs(graph, 0, 40)
        graph.load([{"edge": "By", "from": f"s{n}", "to": "ann", "data": {"role": f"sings part{n}"}} for n in range(9)])
        yield graph


def content(graph: hg.Graph, **at: Any) -> dict[str, list[dict[str, Any]]]:
    """Every row of every type, in one order."""
    base = graph.base(**at)
    return {
        name: sorted(base.dataset(name).to_table().to_pylist(), key=lambda row: str(row["id"])) for name in base.tables
    }
