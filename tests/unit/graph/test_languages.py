"""Both languages: what is printed reads back the same, wrong text gets a place, no text brings the parsers down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.graph.strategies import QUERIES, schemas

from headgate.errors import InvalidInput
from headgate.graph.language.diagnostics import LocatedProblem
from headgate.graph.query import syntax as q
from headgate.graph.query.parse import parse_queries
from headgate.graph.query.prepare import check_queries
from headgate.graph.query.text import queries_text
from headgate.graph.schema.model import Schema
from headgate.graph.schema.parse import parse_schema
from headgate.graph.schema.text import schema_text

SCHEMA = """\
// people and the songs they like
interface Named { name: String @key @description("what it is called") }
node Person implements Named { age: I32? @range(0..150) born: Date? @range("1900-01-01"..) tags: [String] }
node Song { title: String year: I32 mood: enum(calm, "very loud")? @index face: Vector(4)? @key(title, year) }
edge Knows: Person -> Person @card(0..5) { since: Date  @unique(src, dst) }
edge Likes: Person -> Song /* unlimited */
"""
QUERY = """\
query friends($name: String, $old: I32?) {
  match {
    $p: Person { name: $name }
    $p knows{1,3} $f
    $p likes $s as $l
    not { $f likes $s }
    optional { $f knows $g }
    $f.age > $old or not ($f.name in ["a", "b"] and $g.age is null)
  }
  return distinct { $f.name as who, count(distinct $s) as songs, $f }
  order { songs desc, who }
  limit 10
}
query change($n: String) {
  insert Person { name: $n, tags: [] }
  update Person set { age: 3 } where name = $n and age is not null
  delete Knows where from = $n or to = $n
}
"""


@settings(max_examples=40, deadline=None)
@given(schemas())
def test_a_printed_schema_reads_back_the_same(schema: Schema) -> None:
    assert parse_schema(schema_text(schema)) == schema


@settings(max_examples=40, deadline=None)
@given(QUERIES)
def test_printed_queries_read_back_the_same(queries: tuple[q.Query, ...]) -> None:
    assert parse_queries(queries_text(queries)) == queries


def test_the_languages_as_people_write_them_read_back_the_same() -> None:
    schema = parse_schema(SCHEMA)
    assert parse_schema(schema_text(schema)) == schema
    assert schema.nodes[0].key == ("name",)
    assert [item.name for item in schema.nodes[0].properties] == ["name", "age", "born", "tags"]
    queries = parse_queries(QUERY)
    assert parse_queries(queries_text(queries)) == queries


def problems_of_schema(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        parse_schema(text, name="a.pg")
    assert all(isinstance(problem, LocatedProblem) for problem in caught.value.problems)
    return [str(problem).split("\n")[0] for problem in caught.value.problems]


def test_a_problem_shows_its_line_with_a_caret() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_schema("node A {\n  name: Strin\n}", name="a.pg")
    assert (
        str(caught.value)
        == """\
a.pg has a problem
  a.pg:2:9: there is no type Strin; did you mean String?
    2 |   name: Strin
      |         ^^^^^\
"""
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nod A {}", "a.pg:1:1: unexpected 'nod'; did you mean node?"),
        ("node A { x I32 }", "a.pg:1:12: unexpected 'I32'; expected :"),
        ("node A {", "a.pg:1:8: the text ends too early; expected a name, an annotation such as @key, }"),
        ('node A { x: String @check("a }', 'a.pg:1:27: this text is not closed; end it with " on the same line'),
        ("/* a", "a.pg:1:1: this comment is not closed; end it with */"),
        ("node A { id: I32 }", "a.pg:1:10: id is a column every table has; rename it"),
        ("node A { x: I32 X: I32 }", "a.pg:1:17: X is declared twice (case does not tell names apart); rename one"),
        ("node A {} node a {}", "a.pg:1:16: a and A differ only by case; the other is on line 1; rename one"),
        ("node A { x: [[I32]] }", "a.pg:1:15: a list of lists has no column type"),
        ("node A { x: Vector(0) }", "a.pg:1:13: Vector takes its size, 1 to 65536; such as Vector(384)"),
        ("node A { x: enum() }", "a.pg:1:13: an enum has at least one member; such as enum(red, green)"),
        ("node A { x: enum(a, a) }", "a.pg:1:21: 'a' is in the enum twice; remove one"),
        ("node A { x: F64 @key }", "a.pg:1:17: @key cannot hold x, a F64; only values with exact equality"),
        ("node A { x: I32? @key }", "a.pg:1:18: x is in the key and may be null; remove its ?"),
        ("node A { x: I32 @key y: I32 @key }", "a.pg:1:6: A has 2 keys; write one @key(a, b)"),
        ("node A { x: I32 @unique(y) }", "a.pg:1:25: there is no property y; known: x"),
        ("node A { x: I32 @range(5..1) }", "a.pg:1:24: the range is empty; the lower end comes first"),
        ("node A { x: String @range(0..1) }", "a.pg:1:20: x is String, which has no range; use a number or a date"),
        ('node A { x: Date @range("2026-02-30"..) }', "no such date"),
        ('node A { x: String @check("(") }', "a.pg:1:27: this is no regular expression: missing )"),
        ("node A { x: I32 @unqiue }", "a.pg:1:17: there is no annotation @unqiue; did you mean unique?"),
        ('node A { x: I32 @default("a") }', "a.pg:1:10: the default does not fit: x must be I32, and is 'a'"),
        ("node A implements B {}", "a.pg:1:19: no interface is named B"),
        ("edge E: A -> B", "a.pg:1:9: no node type is named A"),
        ("node A {} edge E: A -> A @card(2)", "a.pg:1:26: @card takes one range; such as @card(0..1) or @card(1..)"),
        ("node A {} edge E: A -> A @card(3..1)", "a.pg:1:26: no node can have 3..1 edges"),
        ("node A {} edge In: A -> A", "a.pg:1:16: In is a word of the query language; rename the edge"),
        ("interface I {} node A {} edge E: A -> I", "a.pg:1:39: I is an interface; an edge joins node types"),
        ('node A @description("\\ud800") {}', "a.pg:1:21: this text holds half of a surrogate pair"),
    ],
)  # fmt: skip
def test_a_wrong_schema_is_told_with_its_place_and_a_fix(text: str, told: str) -> None:
    assert any(told in problem for problem in problems_of_schema(text))


def test_all_problems_of_a_schema_are_told_at_once() -> None:
    assert len(problems_of_schema("node A { id: I32 x: Foo y: I32 @index(z) } edge E: A -> Q")) == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("query a() { match { $a: P } retrun { $a } }", "1:29: unexpected 'retrun'; did you mean return?"),
        ("query a( { }", "1:10: unexpected '{'; expected ), a variable such as $a"),
        ("query a() { delete X }", "1:22: unexpected '}'; expected where"),
        ("query a() { match { $a.x = 1e999 } return { $a } }", "1:28: no 64-bit number is this large"),
        ("query a() { delete A where true } query a() { delete A where true }", "1:41: there are two queries named a"),
        ("query a($x: Strin) { delete A where true }", "1:13: there is no type Strin; did you mean String?"),
        ("query a() { match { " + "(" * 80, "nested more than 32 deep"),
        ("query a() { delete A where " + "not " * 80, "nested more than 32 deep"),
    ],
)
def test_a_wrong_query_text_is_told_with_its_place_and_a_fix(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_queries(text, name="a.gq")
    assert told in str(caught.value)


WORDS = st.sampled_from(
    [
        *SCHEMA.split(),
        *QUERY.split(),
        *["{", "}", "(", ")", "[", "]", '"', "\\", "$", "@", "..", "/*", "*/", "//", "\n"],
        *["not", "1e999", "9" * 60, "-", "é", "\x00", "\u2028", "\ud800", "{1,3}", "\\ud800"],
    ]
)
NOISE = st.one_of(
    st.text(max_size=40), st.lists(WORDS, max_size=30).map(" ".join), st.lists(WORDS, max_size=12).map("".join)
)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """A good text with pieces cut, doubled or replaced by others."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + draw(st.one_of(st.just(""), WORDS, NOISE, st.just(text[start:end] * 2))) + text[end:]
    return text


def read_or_refused(read: Callable[[str], Any], text: str) -> Any:
    """What the text says, or None where it was refused with a problem that can be shown."""
    try:
        return read(text)
    except InvalidInput as refused:
        if not (refused.problems and str(refused)):
            raise AssertionError("refused without a reason") from refused
        return None


@given(st.one_of(NOISE, mutated(SCHEMA)))
@example("node A { x: I32 @range(" + "9" * 5000 + "..) }")
@settings(max_examples=60, deadline=None)
def test_no_text_brings_the_schema_parser_down(text: str) -> None:
    check_schema_text(text)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(st.one_of(NOISE, mutated(SCHEMA)))
def test_many_texts_do_not_bring_the_schema_parser_down(text: str) -> None:
    check_schema_text(text)


def check_schema_text(text: str) -> None:
    schema = read_or_refused(parse_schema, text)
    if schema is not None:
        assert parse_schema(schema_text(schema)) == schema


@given(st.one_of(NOISE, mutated(QUERY)))
@example("query a() { match { " + "not { " * 28)
@settings(max_examples=60, deadline=None)
def test_no_text_brings_the_query_parser_down(text: str) -> None:
    check_query_text(text)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(st.one_of(NOISE, mutated(QUERY)))
def test_many_texts_do_not_bring_the_query_parser_down(text: str) -> None:
    check_query_text(text)


def check_query_text(text: str) -> None:
    queries = read_or_refused(parse_queries, text)
    if queries is not None:
        assert parse_queries(queries_text(queries)) == queries


def hostile_schemas() -> dict[str, str]:
    types = "".join(f"node T{number} {{ a: X{number} }}\n" for number in range(20_000))
    edges = "".join(f"edge E{number}: A{number} -> B{number}\n" for number in range(15_000))
    return {
        "unknown types": types,
        "unknown ends": edges,
        "properties": f"node A {{ {' '.join(f'p{number}: I32' for number in range(60_000))} }}",
        "constraints": f"node A {{ a: I32 {'@index(b) ' * 60_000} }}",
        "enum": f"node A {{ a: enum({', '.join(f'm{number}' for number in range(60_000))}) }}",
        "comment": "/*" + "*" * 900_000,
        "text": 'node A @description("' + "\\" * 900_000,
        "too long": "/" * 2_000_000,
    }


def hostile_queries() -> dict[str, str]:
    def read(body: str, returned: str = "$a") -> str:
        return f"query q() {{ match {{ {body} }} return {{ {returned} }} }}"

    return {
        "clauses": read(" ".join(f"$v{number}: Person" for number in range(30_000))),
        "unknown": read(" ".join(f"$v{number}.x = 1" for number in range(900))),
        "or": read("$a: Person " + " or ".join(f"$a.age = {number}" for number in range(25_000))),
        "list": read(f"$a: Person $a.age in [{', '.join(map(str, range(80_000)))}]"),
        "columns": read("$a: Person", ", ".join(f"$a.age as c{number}" for number in range(30_000))),
        "queries": "".join(f"query q{number}() {{ delete Prson where true }}\n" for number in range(15_000)),
        "fields": f"query q() {{ insert Person {{ {', '.join(f'x{number}: 1' for number in range(40_000))} }} }}",
    }


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", hostile_queries())
def test_a_hostile_query_is_checked_or_refused_in_time(name: str) -> None:
    schema = parse_schema(SCHEMA)
    read_or_refused(lambda text: check_queries(text, schema), hostile_queries()[name])


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", hostile_schemas())
def test_a_hostile_schema_is_read_or_refused_in_time(name: str) -> None:
    read_or_refused(parse_schema, hostile_schemas()[name])
