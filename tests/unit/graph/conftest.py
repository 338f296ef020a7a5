"""Graphs to write to: the same tests can run on a folder and on an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate.graph as hg
from headgate import failpoints

SCHEMA = """
node Person { name: String @key
  age: I32? @range(age, 0..150)
  email: String? @unique }
node Note { text: String }
node Place { country: String
  city: String
  @key(country, city) }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note @card(0..2) { }
edge Lives: Person -> Place { }
"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "graph")


@pytest.fixture
def graph(place: str) -> Iterator[hg.Graph]:
    with hg.init(place, SCHEMA) as opened:
        yield opened


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm(None)


def names(graph: hg.Graph, type_name: str = "Person", column: str = "name") -> list[str]:
    return sorted(graph.base().dataset(type_name).to_table()[column].to_pylist())
