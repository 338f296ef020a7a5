"""Queries against what they mean: random graphs and queries, each way of walking, with and without indices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.graph.naive import Naive, whole_rows
from tests.unit.graph.tables import PlainTables, Rows, write_tables

from headgate.errors import InvalidInput
from headgate.graph.query.prepare import prepare_read
from headgate.graph.query.read import CheckedRead, Ordering
from headgate.graph.read.cache import ColumnCache
from headgate.graph.read.execute import execute, profile
from headgate.graph.read.tables import Costs, Tables, Way
from headgate.graph.schema.parse import parse_schema

SCHEMA = parse_schema("""
node Person { name: String @key  age: I32? @index  height: F32?  city: enum(rome, oslo)?  tags: [String]?  big: U64? }
node Song { artist: String  title: String  year: I32?  @key(artist, title) }
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Song { stars: I32? }
""")


def person(name: str, age: int | None = None, city: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "age": age, "city": city, **more}


ROWS: Rows = whole_rows(
    {
        "Person": [
            person("ann", 31, "rome", tags=["x", "y"], big=2**63 + 1),
            person("bob", 25, None, tags=[], height=1.5),
            person("cid", None, "oslo", height=0.1),
            person("dan", 60, "rome", tags=["x"]),
        ],
        "Song": [
            {"id": '["abba","sos"]', "artist": "abba", "title": "sos", "year": 1975},
            {"id": '["it\'s","a \\"b\\""]', "artist": "it's", "title": 'a "b"', "year": None},
        ],
        "Knows": [
            {"id": str(at), "src": src, "dst": dst}
            for at, (src, dst) in enumerate(["ab", "ab", "bc", "ca", "cd", "dd"])
            for src, dst in [({"a": "ann", "b": "bob", "c": "cid", "d": "dan"}[c] for c in (src, dst))]
        ],
        "Likes": [
            {"id": "1", "src": "ann", "dst": '["abba","sos"]', "stars": 5},
            {"id": "2", "src": "bob", "dst": '["it\'s","a \\"b\\""]', "stars": 2},
            {"id": "3", "src": "bob", "dst": '["abba","sos"]', "stars": None},
        ],
    },
    list(SCHEMA.tables()),
)


def read_of(body: str, params: str = "") -> CheckedRead:
    return prepare_read(f"query q({params}) {{ {body} }}", SCHEMA)


def shape(rows: list[dict[str, Any]]) -> list[str]:
    """Rows without their order; a collected list without its own."""
    return sorted(repr({name: _plain(value) for name, value in row.items()}) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return round(value, 5) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> PlainTables:
    return write_tables(tmp_path_factory.mktemp("graph"), SCHEMA, ROWS, indexed=True)


READS = [
    'match { $p: Person { name: "ann" } } return { $p.age, $p }',
    'match { $p: Person { name: "ann", age: 32 } } return { $p }',
    'match { $p: Person { name: "ann" } $p.name = "bob" } return { $p }',
    'match { $p: Person $p.id in ["ann", "bob", "zoe"] } return { $p.name }',
    'match { $s: Song { artist: "it\'s", title: "a \\"b\\"" } } return { $s }',
    "match { $p: Person $p.age = 31.0 or $p.age > 59.5 } return { $p.name }",
    "match { $p: Person $p.age = 31.5 or $p.age < 99999999999 } return { $p.name }",
    "match { $p: Person $p.big > 9223372036854775808 } return { $p.name }",
    "match { $p: Person $p.big != -1 } return { $p.name }",
    'match { $p: Person $p.tags contains "x" } return { $p.name }',
    'match { $p: Person not $p.tags contains "x" } return { $p.name }',
    'match { $p: Person $p.name contains "n" and not $p.name starts_with "a" } return { $p.name }',
    'match { $p: Person $p.city not in ["rome"] } return { $p.name }',
    'match { $p: Person not ($p.city = "rome" and $p.age > 40) } return { $p.name }',
    "match { $p: Person $p.city is null or $p.age is null } return { $p.name }",
    "match { $p: Person $p knows $f } return { $p.name, $f.name }",
    "match { $p knows $f as $e } return { $p.name, $f.name, $e.id }",
    'match { $p: Person { name: "ann" } $p knows $f as $e } return { $f.name, $e }',
    "match { $p likes $s as $l { stars: 5 } } return { $p.name, $s.title, $l.stars }",
    'match { $p: Person $f: Person { name: "dan" } $p knows $f } return { $p.name }',
    "match { $p knows{1,2} $f $p.age > 30 } return { $p.name, $f.name }",
    "match { $p knows{2} $f } return { $p.name, $f.name }",
    "match { $p knows{2,3} $f } return { $p.name, $f.name }",
    "match { $p knows{1,} $f } return { $p.name, count($f) as n }",
    "match { $p knows{1,3} $p } return { $p.name }",
    "match { $p: Person not { $p likes $_ } } return { $p.name }",
    'match { $p: Person not { $p knows $f $f.city = "rome" not { $f likes $_ } } } return { $p.name }',
    "match { $p: Person optional { $p likes $s } } return { $p.name, $s.title, $s }",
    "match { $p: Person optional { $p likes $s as $l $l.stars > 3 } $s is null } return { $p.name, $l.stars }",
    "match { $p: Person optional { $p likes $s optional { $q likes $s $q != $p } } } return { $p.id, $s.id, $q.id }",
    "match { $p knows $p } return { $p.name }",
    "match { $p knows $f $f knows $g $g knows $p } return { $p.name, $f.name, $g.name }",
    "match { $p knows $f $p likes $s $f likes $s } return { $p.name, $f.name, $s.title }",
    "match { $p knows $f $p.age > $f.age } return { $p.name, $f.name }",
    "match { $p: Person $q: Person $p != $q $p.age < $q.age } return { $p.name, $q.name }",
    "match { $p: Person optional { $p likes $s } } return { $p.city, count(distinct $s) as n, sum($p.age), "
    "avg($p.age), collect($p.name), min($p.name), max($p.age) }",
    "match { $p: Person } return { count(*), count($p.age) as ages }",
    'match { $p: Person { name: "zoe" } } return { count(*), sum($p.age), collect($p.name) }',
    "match { $p: Person } return distinct { $p.city }",
    "match { $p: Person $q: Person } return distinct { $p }",
    "match { $p: Person } return { $p, count(*) as n }",
]


@pytest.mark.parametrize("way", [None, Way.INDEX, Way.JOIN])
@pytest.mark.parametrize("body", READS)
def test_a_query_means_what_trying_every_assignment_finds(graph: PlainTables, body: str, way: Way | None) -> None:
    read = read_of(body)
    tables = Tables(graph, cache=ColumnCache(), way=way)
    assert shape(execute(graph, read, tables=tables).to_dicts()) == shape(Naive(ROWS, {}).run(read))


def run(
    graph: PlainTables, body: str, params: str = "", given: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    return execute(graph, read_of(body, params), given).to_dicts()


def test_order_puts_nulls_last_both_ways_and_limit_cuts_after_it(graph: PlainTables) -> None:
    ages = "match { $p: Person } return { $p.age } order { $p.age %s }"
    assert [row["p.age"] for row in run(graph, ages % "")] == [25, 31, 60, None]
    assert [row["p.age"] for row in run(graph, ages % "desc")] == [60, 31, 25, None]
    hidden = "match { $p: Person } return { $p.name } order { $p.age desc, $p.name } limit $n"
    assert run(graph, hidden, "$n: U32", {"n": 2}) == [{"p.name": "dan"}, {"p.name": "ann"}]
    assert run(graph, "match { $p: Person } return { $p } limit 0") == []


def test_parameters_are_typed_json(graph: PlainTables) -> None:
    body = "match { $p: Person $p.name in $names or $p.age < $age } return { $p.name } order { $p.name }"
    params = "$names: [String], $age: I32?"
    assert [row["p.name"] for row in run(graph, body, params, {"names": ["dan"], "age": 26})] == ["bob", "dan"]
    assert [row["p.name"] for row in run(graph, body, params, {"names": []})] == []
    with pytest.raises(InvalidInput) as caught:
        run(graph, body, params, {"names": "dan", "age": 1.5, "nmes": 1})
    assert [problem.where for problem in caught.value.problems] == ["$names", "$age", "$nmes"]


def test_quotes_backslashes_and_wildcards_in_values_are_only_text(graph: PlainTables) -> None:
    body = "match { $s: Song $s.artist = $a or $s.title contains $a } return { $s.artist }"
    assert run(graph, body, "$a: String", {"a": "it's"}) == [{"s.artist": "it's"}]
    for hostile in ["' or '1'='1", "%", "_", "\\", "`", '"; drop', "x' --"]:
        assert run(graph, body, "$a: String", {"a": hostile}) == []


def test_a_lookup_by_key_and_a_hop_from_one_row_touch_an_index_only(graph: PlainTables) -> None:
    tables = Tables(graph, cache=ColumnCache(), costs=Costs(cold_rows_per_key=1))
    read = read_of('match { $p: Person { name: "ann" } $p knows $f } return { $f.name }')
    events = profile(graph, read, tables=tables).events
    assert [(event.table, event.what) for event in events] == [
        ("Person", "scan where `id` = 'ann'"),
        ("Knows", "index lookup on src"),
        ("Person", "index lookup on id"),
    ]


def test_a_wide_frontier_reads_the_edges_once_and_never_again(graph: PlainTables) -> None:
    cache = ColumnCache()
    read = read_of("match { $p: Person $p.age > 0 $p knows $f $f knows $g } return { count(*) }")
    first = profile(graph, read, tables=Tables(graph, cache=cache, way=Way.JOIN)).events
    again = profile(graph, read, tables=Tables(graph, cache=cache, way=Way.JOIN)).events
    assert [event.what for event in first if event.table == "Knows"].count("scan") == 1
    assert [event.what for event in again if event.table == "Knows"].count("scan") == 0


def test_results_come_as_arrow_pandas_polars_dicts_and_html(graph: PlainTables) -> None:
    result = execute(graph, read_of("match { $s: Song } return { $s.title, $s.year } order { $s.title }"))
    assert result.to_arrow().column_names == ["s.title", "s.year"]
    assert list(result.to_pandas()["s.title"]) == ['a "b"', "sos"]
    assert result.to_polars().shape == (2, 2)
    assert list(result) == result.to_dicts()
    assert len(result) == 2
    assert "a &quot;b&quot;" in result._repr_html_()
    assert "2 rows" in repr(result)


NAMES = ["ann", "bob", "cid", "dan"]
SONGS = [('["abba","sos"]', "abba", "sos"), ('["b","c"]', "b", "c")]
PEOPLE = st.lists(
    st.builds(
        person,
        st.sampled_from(NAMES),
        st.none() | st.integers(0, 3),
        st.sampled_from([None, "rome", "oslo"]),
        tags=st.none() | st.lists(st.sampled_from("xy"), max_size=2),
        height=st.sampled_from([None, 0.5, 1.5]),
        big=st.sampled_from([None, 0, 2**64 - 1]),
    ),
    max_size=4,
    unique_by=lambda row: row["id"],
)


@st.composite
def graphs(draw: st.DrawFn) -> Rows:
    people = draw(PEOPLE)
    songs = [
        {"id": key, "artist": artist, "title": title, "year": draw(st.sampled_from([None, 1, 2]))}
        for key, artist, title in SONGS
    ]
    ids = [row["id"] for row in people]
    knows: list[dict[str, Any]] = []
    likes: list[dict[str, Any]] = []
    if ids:
        for at, (src, dst) in enumerate(draw(st.lists(st.tuples(*[st.sampled_from(ids)] * 2), max_size=7))):
            knows.append({"id": f"k{at}", "src": src, "dst": dst})
        pairs = st.tuples(st.sampled_from(ids), st.sampled_from([key for key, *_ in SONGS]))
        for at, (src, dst) in enumerate(draw(st.lists(pairs, max_size=4))):
            likes.append({"id": f"l{at}", "src": src, "dst": dst, "stars": draw(st.sampled_from([None, 1, 5]))})
    return whole_rows({"Person": people, "Song": songs, "Knows": knows, "Likes": likes}, list(SCHEMA.tables()))


PERSON_TESTS = st.sampled_from(
    [
        "$%s.age > 1", "$%s.age = 2", "$%s.age is null", 'not $%s.city = "rome"', '$%s.name in ["ann", "dan"]',
        '$%s.name = "ann"', '$%s.tags contains "x"', "$%s.height >= 1", "$%s.big > 5", '$%s.name contains "n"',
        '($%s.age < 2 or $%s.city = "oslo")', 'not ($%s.age = 1 and $%s.name starts_with "b")', "$%s.age in [0, 3]",
        "$%s.age < $low", "$%s.name != $who", '$%s.city not in ["oslo"]', "not $%s.age is null",
    ]
)  # fmt: skip
PAIR_TESTS = ["$%s.age < $%s.age", "$%s != $%s", "$%s.city = $%s.city", "($%s.age > $%s.age or $a.age is null)"]
HOPS = st.sampled_from(["", "", "", "{1,2}", "{2}", "{1,}", "{2,3}"])


@st.composite
def clauses(draw: st.DrawFn, known: list[str], depth: int, fresh: list[str]) -> list[str]:
    """Clauses over people; new variables are taken from `fresh`."""
    made: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["step", "step", "like", "test", "pair", "block", "node"]))
        if kind == "node" and fresh and (depth == 0 or not known):
            name = fresh.pop()
            made.append(
                f"${name}: Person" + draw(st.sampled_from(["", ' { name: "bob" }', " { age: 2 }", " { name: $who }"]))
            )
            known.append(name)
        elif kind == "step" and known:
            one = draw(st.sampled_from(known))
            other = draw(st.sampled_from([*known, *fresh[-1:], "_"]))
            if other in fresh:
                fresh.remove(other)
                known.append(other)
            ends = draw(st.permutations([one, other]))
            made.append(f"${ends[0]} knows{draw(HOPS)} ${ends[1]}")
        elif kind == "like" and known:
            made.append(f"${draw(st.sampled_from(known))} likes $_")
        elif kind == "test" and known:
            name = draw(st.sampled_from(known))
            made.append(draw(PERSON_TESTS).replace("%s", name))
        elif kind == "pair" and known:
            pair = draw(st.sampled_from(PAIR_TESTS)).replace("$a.", f"${known[0]}.")
            made.append(pair % (draw(st.sampled_from(known)), draw(st.sampled_from(known))))
        elif kind == "block" and known and depth < 2:
            word = draw(st.sampled_from(["not", "optional"]))
            inner = draw(clauses(list(known), depth + 1, fresh[-2:]))
            fresh[:] = [name for name in fresh if not any(f"${name}" in text for text in inner)]
            made.append(f"{word} {{ {' '.join(inner)} }}" if inner else "")
    return [text for text in made if text]


@st.composite
def reads(draw: st.DrawFn) -> str:
    fresh = ["d", "c", "b"]
    known = ["a"]
    body = [draw(st.sampled_from(["$a: Person", "$a: Person { name: $who }", "$a knows $_", "$a likes $_"]))]
    body += draw(clauses(known, 0, fresh))
    columns = [
        f"${draw(st.sampled_from(known))}.{draw(st.sampled_from(['name', 'age', 'height', 'tags']))} as c0",
        "$a.id as c1",
    ]
    returned = draw(
        st.sampled_from(
            [
                ", ".join([*columns, "$a as whole"]),
                "$a.city as c, count(*) as n, count(distinct $a) as d, sum($a.age) as s, max($a.name) as m",
                "count(*) as n, avg($a.age) as v, collect($a.name) as l",
                "$a.name as c, $a as whole, min($a.big) as b",
            ]
        )
    )
    return f"match {{ {' '.join(body)} }} return {draw(st.sampled_from(['', 'distinct ']))}{{ {returned} }}".replace(
        "return distinct { " + ", ".join(columns), "return { " + ", ".join(columns)
    )


PARAMS = st.fixed_dictionaries({"who": st.sampled_from([*NAMES, "zoe"]), "low": st.none() | st.integers(-1, 3)})


Asked = list[tuple[str, dict[str, Any]]]
QUESTIONS = st.lists(st.tuples(reads(), PARAMS), min_size=1, max_size=6)
RANDOM = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


@settings(RANDOM, max_examples=12)
@given(graphs(), QUESTIONS, st.booleans())
def test_random_queries_on_random_graphs_mean_what_they_say(rows: Rows, queries: Asked, indexed: bool) -> None:
    compare_with_meaning(rows, queries, indexed=indexed)


@pytest.mark.slow
@settings(RANDOM, max_examples=300)
@given(graphs(), QUESTIONS, st.booleans())
def test_many_random_queries_on_random_graphs_mean_what_they_say(rows: Rows, queries: Asked, indexed: bool) -> None:
    compare_with_meaning(rows, queries, indexed=indexed)


def compare_with_meaning(rows: Rows, queries: Asked, *, indexed: bool) -> None:
    checked = [(text, read_of(text, "$who: String, $low: I32?"), given) for text, given in queries]
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        graph = write_tables(Path(folder), SCHEMA, rows, indexed=indexed)
        kept, none = ColumnCache(hashed_from=0), ColumnCache(max_bytes=0)
        for text, read, given_values in checked:
            expected = shape(Naive(rows, {"who": None, "low": None, **given_values}).run(read))
            for way, cache in ((None, ColumnCache()), (Way.INDEX, ColumnCache()), (Way.JOIN, kept), (Way.JOIN, none)):
                tables = Tables(graph, cache=cache, way=way)
                assert shape(execute(graph, read, given_values, tables=tables).to_dicts()) == expected, (way, text)
            check_order(graph, read, given_values, rows)


def check_order(graph: PlainTables, read: CheckedRead, values: dict[str, Any], rows: Rows) -> None:
    """The first two rows by one column are those with its two greatest values, whatever else they hold."""
    if read.is_aggregate or read.distinct:
        return
    first = replace(read, order=(Ordering(output="c1", descending=True),), limit=2)
    found = [row["c1"] for row in execute(graph, first, values).to_dicts()]
    every = Naive(rows, {"who": None, "low": None, **values}).run(read)
    assert found == sorted((row["c1"] for row in every), reverse=True)[:2]


def test_no_shape_hides_a_difference() -> None:
    assert shape([{"a": 1}]) != shape([{"a": 2}])
    assert shape([{"a": 1}]) != shape([{"a": 1}, {"a": 1}])
    assert math.isclose(_plain(0.1 + 0.2), 0.3)


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("match { $p: Person } return { count(*) as n }", ["count"]),
        ("match { $p: Person $p.age > 30 } return { count($p) as n }", ["count where `age` > 30"]),
        ("match { $p: Person $p.age > 30 } return { count($p.age) as n }", ["scan where `age` > 30"]),
    ],
)
def test_a_count_of_rows_reads_none(graph: PlainTables, body: str, reads: list[str]) -> None:
    read = read_of(body)
    done = profile(graph, read)
    assert [event.what for event in done.events] == reads
    assert done.result.to_dicts() == Naive(ROWS, {}).run(read)


def test_a_limit_alone_reads_no_more_rows_than_it_returns(graph: PlainTables) -> None:
    done = profile(graph, read_of("match { $p: Person $p.age > 0 } return { $p } limit 2"))
    assert [event.rows for event in done.events] == [2]
    assert len(done.result) == 2


def test_an_order_with_a_limit_fetches_the_kept_rows_only(graph: PlainTables) -> None:
    read = read_of("match { $p: Person $p knows $f } return { $f, $p.name } order { $p.age desc, $f.name } limit 1")
    done = profile(graph, read)
    assert done.result.to_dicts()[0]["p.name"] == "dan"
    assert done.result.to_dicts()[0]["f"]["age"] == 60
    assert done.events[-1].keys == 1
