"""Queries held against a schema: every mistake is told with its place, and all of them at once."""

from __future__ import annotations

import pytest

from headgate.errors import InvalidInput, NotFound
from headgate.graph.query.mutation import BoundInsert
from headgate.graph.query.prepare import check_queries, prepare_mutation, prepare_read
from headgate.graph.query.read import CheckedRead
from headgate.graph.schema.parse import parse_schema

SCHEMA = parse_schema("""
interface Named { name: String @key }
node Person implements Named { age: I32? @range(0..150)  tags: [String]?  face: Vector(2)?  mood: enum(up, down)? }
node Place { x: I32  y: I32  @key(x, y) }
node Note { text: String  stars: I32 @default(3) }
edge Knows: Person -> Person { since: Date? }
edge At: Person -> Place { @key(src) }
""")


def problems(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        check_queries(text, SCHEMA, name="a.gq")
    return str(caught.value)


def read(body: str, returned: str = "$p", params: str = "") -> str:
    return f"query q({params}) {{ match {{ {body} }} return {{ {returned} }} }}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (read("$p: Persn"), "there is no node type Persn; did you mean Person?"),
        (read("$p: Knows"), "Knows is an edge type; write $a knows $b as $p"),
        (read("$p: Named"), "Named is an interface; name one of Person"),
        (read("$p: Person $p: Place"), "$p is a Person, and here a Place"),
        (read("$p: Person $p noes $f"), "there is no edge noes; did you mean knows?"),
        (read("$p: Place $p knows $f"), "$p is a Place, and here a Person"),
        (read("$p: Person { nme: 3 }"), "Person has no property nme; did you mean name?"),
        (read("$p: Person { name: 3 }"), "the literal must be String, and is 3"),
        (read("$p: Person $p.age = \"x\""), "the literal must be I64, and is 'x'"),
        (read('$p: Person $p.mood = "upp"'), "did you mean up?"),
        (read('$p: Person $p.mood < "up"'), "has no order for <"),
        (read("$p: Person $p.tags = $p.tags"), "a [String] cannot be compared with ="),
        (read("$p: Person $p.face = $p.face"), "a Vector(2) cannot be compared with ="),
        (read("$p: Person $p.age = $p.name"), "a I32 is never compared with a String"),
        (read("$p: Person $p.age = null"), "nothing equals null; write is null"),
        (read("$p: Person $p.age in 3"), "in needs a list on its right"),
        (read("$p: Person $p.age in [1, null]"), "null"),
        (read("$p: Person 1 = 2"), "this compares two literals"),
        (read("$p: Person age = 2"), "age belongs to nothing here; write $a.age for a variable $a"),
        (read("$p: Person $q.age = 2"), "there is no $q; known: $p"),
        (read("$p: Person $p.age contains 2"), "contains is for texts, and this is I32"),
        (read("$p: Person $p = 2"), "a node is only equal to a node"),
        (read("$p: Person $p at $h $p = $h"), "a Person is never a Place"),
        (read("$p: Person $p knows $f $p < $f"), "nodes have no order for <"),
        (read("$p knows{0,2} $f"), "is no number of hops"),
        (read("$p knows{3,2} $f"), "is no number of hops"),
        (read("$p knows{2,} $f"), "hops without end start at 1"),
        (read("$p knows{1,99} $f"), "at most 64 hops are walked"),
        (read("$p at{1,2} $h"), "at leads from Person to Place, so it has one hop"),
        (read("$p knows{1,2} $f as $e"), "a path of several hops has no one edge"),
        (read("$p knows $f as $e $f knows $p as $e"), "$e is taken"),
        (read("$x: Person", "$x", "$x: I32"), "$x is a parameter; give the variable another name"),
        (read("$p: Person $x.age = 1", "$p", "$x: I32"), "$x is a parameter and has no properties"),
        (read("$p: Person $p.age = $x"), "there is no $x"),
        (read("", "$p"), "match { } matches nothing"),
        (read("$p: Person not { }"), "not { } says nothing"),
        (read("$p: Person", ""), "return { } returns nothing"),
        (read("$p: Person", "$q"), "the match binds no $q; known: $p"),
        (read("$p: Person", "$p.age, $p.age"), "two columns are named p.age"),
        (read("$p: Person", "total($p.age)"), "there is no aggregate total"),
        (read("$p: Person", "sum($p.name)"), "sum takes numbers, and this is String"),
        (read("$p: Person", "max($p.tags)"), "a [String] has no order for max"),
        (read("$p: Person", "max(*)"), "only count takes *"),
        (read("$p: Person", "min($p)"), "min takes a property"),
        (read("$p: Person", "max(min($p.age))"), "an aggregate of an aggregate"),
        (read("$p: Person not { $p knows $f }", "$f"), "the match binds no $f"),
        (read("$p: Person optional { $p knows $f } optional { $p at $f }"), "bound by another optional block"),
        ("query q() { match { $p: Person } return { $p } order { name } }", "the result has no column name"),
        ("query q() { match { $p: Person } return { $p } order { p } }", "p has no order"),
        ("query q() { match { $p: Person } return { count(*) } order { $p.age } }", "is not returned"),
        ("query q() { match { $p: Person } return { $p } order { $p.tags } }", "a [String] has no order"),
        ("query q($n: String) { match { $p: Person } return { $p } limit $n }", "limit takes a whole number"),
    ],
)  # fmt: skip
def test_a_wrong_read_is_told_with_a_fix(text: str, told: str) -> None:
    shown = problems(text)
    assert told in shown
    assert "a.gq:1:" in shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("insert Persn { }", "there is no type Persn; did you mean Person?"),
        ("insert Person { }", "a Person needs name"),
        ('insert Person { name: "a", name: "b" }', "name is given twice"),
        ('insert Person { name: "a", age: 200 }', "age is 200, outside 0..150"),
        ('insert Person { name: "a", age: $p }', "age is I32, and $p is String; declare it I32"),
        ('insert Person { name: "a", age: $q }', "there is no parameter $q; known: $p"),
        ('insert Person { id: "a", name: "a" }', "id is made from the key"),
        ('insert Person { name: "a", face: [1.0] }', "face has 1 elements, and Vector(2) has 2"),
        ('insert Knows { from: "a" }', "a Knows needs to"),
        ('insert Knows { from: 3, to: "b" }', "the key of Person must be String, and is 3"),
        ('insert At { from: "a", to: [1] }', "the key of Place has 2 values, and 1 are given"),
        ('update Person set { name: "b" } where name = "a"', "the key of a Person never changes"),
        ('update Knows set { to: "b" } where from = "a"', "dst of a Knows never changes"),
        ('update Person set { } where name = "a"', "this update sets nothing"),
        ('delete Person where nme = "a"', "Person has no property nme; did you mean name?"),
        ('delete Person where $p.name = "a"', "a mutation has no match variables"),
    ],
)
def test_a_wrong_mutation_is_told_with_a_fix(text: str, told: str) -> None:
    assert told in problems(f"query q($p: String) {{ {text} }}")


def test_problems_of_all_queries_come_together() -> None:
    text = "query a() { match { $p: Persn } return { $q } }\nquery b() { insert Person { agee: 1 } }"
    shown = problems(text)
    for place in ("a.gq:1:25", "a.gq:1:42", "a.gq:2:20", "a.gq:2:29"):
        assert place in shown


def test_what_is_not_given_gets_its_default_and_a_key_its_id() -> None:
    text = """query q($x: I32) {
      insert Note { text: "hi" }
      insert Place { x: $x, y: 2 }
      insert At { from: "ann", to: [1, 2] }
    }"""
    rows = [item.row for item in prepare_mutation(text, SCHEMA).bind({"x": 1}) if isinstance(item, BoundInsert)]
    assert rows == [
        {"text": "hi", "stars": 3},
        {"id": "[1,2]", "x": 1, "y": 2},
        {"id": "ann", "src": "ann", "dst": "[1,2]"},
    ]


def test_one_of_several_queries_is_chosen_by_name() -> None:
    text = "query a() { match { $p: Person } return { $p } } query b() { delete Person where true }"
    assert isinstance(prepare_read(text, SCHEMA, query="a"), CheckedRead)
    assert prepare_mutation(text, SCHEMA, query="b").name == "b"
    with pytest.raises(InvalidInput, match="holds 2 queries"):
        prepare_read(text, SCHEMA)
    with pytest.raises(NotFound, match="did you mean a"):
        prepare_read(text, SCHEMA, query="A1")
    with pytest.raises(InvalidInput, match="run it as a mutation"):
        prepare_read(text, SCHEMA, query="b")
    with pytest.raises(InvalidInput, match="run it as a query"):
        prepare_mutation(text, SCHEMA, query="a")
