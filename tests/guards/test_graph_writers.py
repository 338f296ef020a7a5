"""Every write to a graph goes through `write`, which leaves a sidecar: there is no other way to a table or a head."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path

import headgate
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.testing.graph_jobs import JOBS

SOURCE = Path(headgate.__file__).parent
GRAPH = sorted((SOURCE / "graph").rglob("*.py"))
EFFECTS = {
    ("tables", "commit"): {"graph/write/land.py"},
    ("tables", "fork"): {"graph/write/land.py", "graph/recovery/roll.py"},
    ("tables", "restore"): {"graph/recovery/roll.py"},
    ("sidecars", "create"): {"graph/write/commit.py"},
}
"""What changes a table or takes a branch's lock, and the modules that may ask for it."""
PUBLISHES = {"graph/write/commit.py", "graph/recovery/roll.py"}
MANIFEST = "headgate.graph.manifest"


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def effects(text: str) -> Iterator[tuple[str, str]]:
    """Calls of a method of a store's part: `store.tables.commit`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            yield node.value.attr, node.attr


def imports_publish(text: str) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module in (MANIFEST, f"{MANIFEST}.publisher")
        and any(alias.name == "publish" for alias in node.names)
        for node in ast.walk(ast.parse(text))
    )


def test_tables_are_changed_under_a_sidecar_only() -> None:
    """Invariant 6: every effect before a publish is covered by a sidecar."""
    for path in GRAPH:
        for effect in effects(path.read_text()):
            assert name_of(path) in EFFECTS.get(effect, {name_of(path)}), f"{name_of(path)} calls {'.'.join(effect)}"


def test_the_walk_sees_an_effect() -> None:
    assert list(effects("store.tables.commit(at, staged)")) == [("tables", "commit")]
    assert imports_publish("from headgate.graph.manifest.publisher import TableAt, publish")


def test_only_the_phases_and_recovery_publish() -> None:
    found = {name_of(path) for path in GRAPH if imports_publish(path.read_text())}
    assert found - {"graph/manifest/__init__.py"} == PUBLISHES


def test_a_write_says_which_kind_it_is() -> None:
    (kind,) = (field for field in fields(WriteRequest) if field.name == "writer")
    assert kind.default is MISSING
    assert kind.type == "Writer"


def test_every_kind_of_writer_is_killed_by_the_crash_harness() -> None:
    assert {job.writer for job in JOBS.values()} == set(Writer)


def test_every_kind_of_writer_is_written_by_somebody() -> None:
    used = {
        node.attr
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Writer"
    }
    assert used >= set(Writer.__members__)
