"""A small graph for tests of the pipeline, and what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headgate.graph as hg
from headgate.graph.graph import Graph

SCHEMA = """
node Person {
  key: String @key
  name: String?
  age: I32? @range(age, 0..150)
  mail: String? @unique
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
edge Owns: Person -> City { deed: String @key }
"""


def make_graph(folder: Path, schema: str = SCHEMA, name: str = "graph") -> Graph:
    return hg.init(folder / name, schema)


def people(*keys: str, age: int = 30) -> list[dict[str, Any]]:
    return [{"key": key, "name": f"name of {key}", "age": age} for key in keys]


def rows(graph: Graph, type_name: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a type at the head, in order."""
    found = graph.snapshot().table(type_name).to_table(columns=list(columns)).to_pylist()
    return sorted(tuple(row[name] for name in columns) for row in found)


def files(graph: Graph) -> set[str]:
    """Every file of the tables, and what is kept beside them while a write is prepared."""
    root = Path(graph.uri)
    found = (path.relative_to(root).as_posix() for path in root.rglob("*.lance") if path.is_file())
    return {path for path in found if not path.startswith("__manifest")}
