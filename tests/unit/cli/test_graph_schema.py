"""`headgate graph schema plan` and `apply`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import graph as graphs

Run = Callable[..., Any]
SCHEMA = "node Person { name: String @key  age: I32? }\n"


@pytest.fixture
def store(project: Path) -> Path:
    (project / "people.pg").write_text(SCHEMA)
    with graphs.init(project / "people", SCHEMA) as graph:
        graph.mutate('query fill() { insert Person { name: "ann", age: 31 } insert Person { name: "bob", age: 31 } }')
    return project / "people"


def test_plan_shows_the_steps_and_changes_nothing(project: Path, store: Path, headgate: Run) -> None:
    assert headgate("graph", "schema", "plan", str(store), "people.pg").out == "nothing to change\n"
    (project / "new.pg").write_text('node Human @rename_from("Person") { name: String @key  city: String? }\n')
    shown = headgate("graph", "schema", "plan", str(store), "new.pg")
    assert shown.out.splitlines() == [
        "rename type Person to Human",
        "drop property Person.age; earlier commits still show it",
        "add property Human.city: String?, null in stored rows",
    ]
    told = json.loads(headgate("graph", "schema", "plan", str(store), "new.pg", "--allow-data-loss", "--json").out)
    assert [(step["kind"], step["hard"]) for step in told["steps"]] == [
        ("rename_type", False), ("drop_property", True), ("add_property", False)
    ]  # fmt: skip
    assert headgate("graph", "schema", "apply", str(store), "new.pg", "--dry-run").out == shown.out
    assert "Person" in headgate("graph", "schema", "show", str(store)).out


def test_apply_makes_a_commit_once(project: Path, store: Path, headgate: Run) -> None:
    (project / "new.pg").write_text('node Person { name: String @key  age: I32?  city: String @default("rome") }\n')
    done = headgate("graph", "schema", "apply", str(store), "new.pg", "-m", "cities")
    assert done.code == 0
    assert done.out.splitlines()[0] == "add property Person.city: String, 'rome' in stored rows"
    assert done.out.splitlines()[1].startswith("changed at ")
    assert "unchanged at" in headgate("graph", "schema", "apply", str(store), "new.pg").out
    rows = json.loads(headgate("graph", "sql", str(store), "select city from Person", "--json").out)["rows"]
    assert rows == [{"city": "rome"}, {"city": "rome"}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node Person { name: String @key  age: I64? }", "Person.age: it is I32 and would become I64 (type_changed)"),
        ("node Person { name: String @key  age: I32? @unique }", "Person ann: another row has age 31 too"),
        ("node Person { name: String @key  age: I32? ", "has a problem"),
    ],
)
def test_what_cannot_be_changed_ends_with_exit_code_4(
    project: Path, store: Path, headgate: Run, text: str, told: str
) -> None:
    (project / "new.pg").write_text(text)
    for command in ("plan", "apply"):
        shown = headgate("graph", "schema", command, str(store), "new.pg")
        assert (shown.code, told in shown.err) == (4, True), shown.err
    assert headgate("graph", "schema", "apply", str(store), "people.pg").out.startswith("nothing to change")


def test_a_hard_drop_asks_first(project: Path, store: Path, headgate: Run) -> None:
    (project / "new.pg").write_text("node Person { name: String @key }\n")
    asked = headgate("graph", "schema", "apply", str(store), "new.pg", "--allow-data-loss")
    assert asked.code != 0
    assert "age" in headgate("graph", "schema", "show", str(store)).out
    assert headgate("graph", "schema", "apply", str(store), "new.pg", "--allow-data-loss", "--yes").code == 0
    assert "age" not in headgate("graph", "schema", "show", str(store)).out
