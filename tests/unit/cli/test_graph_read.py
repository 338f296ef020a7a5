"""`headgate graph`: checking files, running queries and SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import graph as graphs

Run = Callable[..., Any]
SCHEMA = """\
node Person { name: String @key  age: I32?  photo: Blob?  seen: DateTime? }
edge Knows: Person -> Person { since: Date? }
"""
FRIENDS = """\
query friends($of: String) {
  match { $p: Person { name: $of } $p knows $f as $e }
  return { $f.name as name, $e.since as since }
}
"""


@pytest.fixture
def store(project: Path) -> Path:
    (project / "people.pg").write_text(SCHEMA)
    (project / "friends.gq").write_text(FRIENDS)
    with graphs.init(project / "people", SCHEMA) as graph:
        graph.mutate(
            """query fill() {
              insert Person { name: "ann", age: 31, photo: "aGk=", seen: "2026-01-01T00:00:00+01:00" }
              insert Person { name: "bob" }
              insert Knows { from: "ann", to: "bob", since: "2020-02-29" }
            }"""
        )
    return project / "people"


@pytest.mark.usefixtures("store")
def test_schema_check_tells_what_is_there_or_every_problem(project: Path, headgate: Run) -> None:
    assert headgate("graph", "schema", "check", "people.pg").out == (
        "people.pg is right: nodes 1, edges 1, interfaces 0\n"
    )
    (project / "bad.pg").write_text("node A { x: Strin }\nedge E: A -> B\n")
    bad = headgate("graph", "schema", "check", "bad.pg")
    assert bad.code == 4
    assert "bad.pg:1:13: there is no type Strin; did you mean String?" in bad.err
    assert "bad.pg:2:14: no node type is named B; known: A" in bad.err
    assert "^^^^^" in bad.err
    missing = headgate("graph", "schema", "check", "nowhere.pg")
    assert (missing.code, "there is no file nowhere.pg" in missing.err) == (4, True)
    (project / "binary.pg").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in headgate("graph", "schema", "check", "binary.pg").err


def test_the_schema_a_graph_shows_is_the_one_it_was_made_with(project: Path, store: Path, headgate: Run) -> None:
    (project / "shown.pg").write_text(headgate("graph", "schema", "show", str(store)).out)
    assert headgate("graph", "schema", "check", "shown.pg").code == 0


def test_query_check_holds_queries_against_a_schema_file_or_a_graph(project: Path, store: Path, headgate: Run) -> None:
    assert "well-formed" in headgate("graph", "query", "check", "friends.gq").out
    right = "friends.gq is right: friends\n"
    assert headgate("graph", "query", "check", "friends.gq", "--schema", "people.pg").out == right
    assert headgate("graph", "query", "check", "friends.gq", "--store", str(store)).out == right
    (project / "bad.gq").write_text(FRIENDS.replace("knows", "nose").replace("$f.name", "$f.nme"))
    assert headgate("graph", "query", "check", "bad.gq").code == 0
    bad = headgate("graph", "query", "check", "bad.gq", "--schema", "people.pg")
    assert bad.code == 4
    assert "there is no edge nose" in bad.err
    assert headgate("graph", "query", "check", "bad.gq", "--schema", "a", "--store", "b").code == 4


def test_query_prints_a_table_json_or_the_plan(store: Path, headgate: Run) -> None:
    table = headgate("graph", "query", str(store), "friends.gq", "--param", "of=ann")
    assert table.out.split() == ["name", "since", "─" * len(table.out.splitlines()[1]), "bob", "2020-02-29"]
    assert table.err.startswith("1 row at ")
    shown = json.loads(headgate("graph", "query", str(store), "friends.gq", "--params", '{"of": "ann"}', "--json").out)
    assert shown["rows"] == [{"name": "bob", "since": "2020-02-29"}]
    plan = headgate("graph", "query", str(store), "friends.gq", "-p", "of=ann", "--explain").out
    assert plan.startswith("start    $p:")


def test_sql_prints_rows_as_json_that_can_be_given_back(store: Path, headgate: Run) -> None:
    shown = headgate("graph", "sql", str(store), "select * from Person where name = $n", "-p", "n=ann", "--json")
    assert json.loads(shown.out)["rows"] == [
        {"id": "ann", "name": "ann", "age": 31, "photo": "aGk=", "seen": "2025-12-31T23:00:00Z"}
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["query", "STORE", "friends.gq"], "$of: this parameter, a String, has no value"),
        (["query", "STORE", "friends.gq", "-p", "of=3"], "of must be String, and is 3"),
        (["query", "STORE", "friends.gq", "-p", "of"], "--param of has no value"),
        (["query", "STORE", "friends.gq", "--params", "{"], "--params is not JSON"),
        (["query", "STORE", "friends.gq", "--params", "[]"], "--params is no JSON object"),
        (["query", "STORE"], "a query is a FILE or a --text"),
        (["query", "STORE", "friends.gq", "--name", "freinds"], "did you mean friends?"),
        (["query", "STORE", "-e", "query q() { match { $p: Prson } return { $p } }"], "there is no node type Prson"),
        (["query", "STORE", "-e", "query q() { delete Person where true }"], "run it as a mutation"),
        (["query", "nowhere", "friends.gq"], "there is no graph at"),
        (["sql", "STORE", "drop table Person"], "SQL reads a graph"),
    ],
)
def test_wrong_input_ends_with_exit_code_4_and_says_what_to_do(
    store: Path, headgate: Run, words: list[str], told: str
) -> None:
    shown = headgate("graph", *(str(store) if word == "STORE" else word for word in words))
    assert shown.code == 4
    assert told in shown.err
