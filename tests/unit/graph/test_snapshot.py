"""A snapshot: SQL with filters and columns handed on to Lance, plans in words, tables; all at one commit."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.unit.graph.tables import PlainTables, write_tables

from headgate import graph as graphs
from headgate.errors import InvalidInput, NotFound, Unsupported
from headgate.graph.query.prepare import prepare_read
from headgate.graph.read.explain import explain
from headgate.graph.read.snapshot import Snapshot
from headgate.graph.read.sql import TypeView
from headgate.graph.schema.parse import parse_schema

SCHEMA = parse_schema("""
node Person { name: String @key  age: I32? @index  visits: U32?  seen: DateTime?  photo: Blob? }
edge Knows: Person -> Person { since: Date? }
""")
ROWS: dict[str, list[dict[str, Any]]] = {
    "Person": [
        {"id": "ann", "name": "ann", "age": 31, "visits": 7, "seen": datetime(2026, 1, 1, tzinfo=UTC), "photo": b"a"},
        {"id": "bob", "name": "bob", "age": 25, "visits": 4_000_000_000},
        {"id": "o'hara", "name": "o'hara"},
    ],
    "Knows": [{"id": "1", "src": "ann", "dst": "bob"}, {"id": "2", "src": "bob", "dst": "o'hara"}],
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> PlainTables:
    return write_tables(tmp_path_factory.mktemp("graph"), SCHEMA, ROWS, indexed=True)


@pytest.fixture
def snapshot(tables: PlainTables) -> Snapshot:
    return Snapshot(tables)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select name from Person where age > 26", ["ann"]),
        ("select name from person where name = $who", ["o'hara"]),
        ("select name from Person where visits > 7", ["bob"]),
        ("select name from Person where visits in (7, 8) or age = 25", ["ann", "bob"]),
        ("select name from Person where seen >= timestamptz '2025-01-01 00:00:00+00'", ["ann"]),
        ("select name from Person where photo = 'a'::blob", ["ann"]),
        ("select name from Person where age is null", ["o'hara"]),
        ("select name from Person where age is distinct from 25 and name like 'a%'", ["ann"]),
        ("select f.name from Person p join Knows on p.id = src join Person f on f.id = dst", ["bob", "o'hara"]),
    ],
)
def test_sql_sees_each_type_as_a_view(snapshot: Snapshot, text: str, names: list[str]) -> None:
    found = snapshot.sql(text, {"who": "o'hara"} if "$who" in text else None)
    assert sorted(row["name"] for row in found) == names


def test_sql_hands_columns_and_filters_on_to_lance(tables: PlainTables, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    real = lance.LanceDataset.scanner

    def scanner(self: lance.LanceDataset, **options: Any) -> Any:
        asked.append(options)
        return real(self, **options)

    monkeypatch.setattr(lance.LanceDataset, "scanner", scanner)
    Snapshot(tables).sql("select age from Person where name = 'ann' and age > 3")
    assert asked[0]["columns"] == ["age"]
    assert "name" in str(asked[0]["filter"])
    assert "ann" in str(asked[0]["filter"])


def test_a_filter_lance_cannot_take_is_applied_with_no_more_columns_than_it_names(tables: PlainTables) -> None:
    import pyarrow.compute as pc

    view = TypeView(tables, SCHEMA.nodes[0])
    condition = pc.field("visits") == 7
    assert view._read_for(["name"], condition) == ["name", "visits"]


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("selec 1", InvalidInput, "syntax error"),
        ("select * from Prson", InvalidInput, "did you mean Person?"),
        ("select nme from Person", InvalidInput, "nme"),
        ("select 1; select 2", InvalidInput, "2 statements"),
        ("", InvalidInput, "0 statements"),
        ("insert into Person values (1)", Unsupported, "SQL reads a graph"),
        ("create table t as select 1", Unsupported, "SQL reads a graph"),
        ("copy (select 1) to 'x.csv'", Unsupported, "SQL reads a graph"),
        ("select * from '/etc/passwd.csv'", InvalidInput, "disabled by configuration"),
        ("select * from read_csv('/etc/passwd')", InvalidInput, "disabled by configuration"),
        ("select $who", InvalidInput, "who"),
    ],
)
def test_sql_that_cannot_be_run_says_why(snapshot: Snapshot, text: str, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match="(?s).*") as caught:
        snapshot.sql(text)
    assert told in str(caught.value)


def test_a_table_is_the_lance_dataset_of_the_commit(snapshot: Snapshot) -> None:
    assert snapshot.table("Person").count_rows() == 3
    with pytest.raises(NotFound, match="did you mean Person"):
        snapshot.table("Persn")


def test_a_plan_says_where_it_starts_and_how_it_walks(tables: PlainTables) -> None:
    text = """query q($who: String) {
      match {
        $p: Person { name: $who }
        $p knows{1,2} $f
        $f.age > 3
        not { $f knows $p }
        optional { $f knows $g as $e }
        $g is null
      }
      return { $f.name, count(*) as n } order { n desc } limit 3
    }"""
    assert explain(tables, prepare_read(text, SCHEMA), {"who": "o'hara"}) == [
        "start    $p: index lookup on id of Person where `id` = 'o''hara'",
        "walk     $p knows $f 1 to 2 hops: index lookup on Knows.src from up to 2 rows, "
        "join over cached src, dst from more",
        "filter   `age` > 3 on $f",
        "optional",
        "  walk     $f knows $g: index lookup on Knows.src from up to 2 rows, join over cached src, dst from more",
        "filter   `id` IS NULL on $g",
        "not",
        "  walk     $f knows $p (both bound): index lookup on Knows.src from up to 2 rows, "
        "join over cached src, dst from more",
        "fetch    $f: name",
        "group    n by f.name",
        "order    n desc",
        "limit    3",
    ]


def test_invariant_1_a_snapshot_does_not_see_what_is_written_after_it(tmp_path: Path) -> None:
    with graphs.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        graph.mutate('query a() { insert Person { name: "ann" } }')
        before = graph.snapshot()
        graph.mutate('query b() { insert Person { name: "bob" } delete Person where name = "ann" }')
        names = "query names() { match { $p: Person } return { $p.name as name } }"
        assert [row["name"] for row in before.query(names)] == ["ann"]
        assert [row["name"] for row in before.sql("select name from Person")] == ["ann"]
        assert [row["name"] for row in graph.query(names)] == ["bob"]
        assert [row["name"] for row in graph.query(names, commit=before.commit)] == ["ann"]
