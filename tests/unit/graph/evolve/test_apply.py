"""Schema changes on a graph with rows: what becomes of them, of history, and of writers at work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import headgate.graph as hg
from headgate import failpoints
from headgate.errors import Conflict, ExpectedVersionMismatch, InvalidInput
from headgate.failpoints import Failpoint

SCHEMA = """
node Person { name: String @key  age: I32?  mood: enum(glad, sad)?  email: String? }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
"""
FILL = """query fill() {
  insert Person { name: "ann", age: 31, mood: "glad", email: "a@x" }
  insert Person { name: "bob", age: 200, email: "a@x" }
  insert Person { name: "cid" }
  insert Knows { from: "ann", to: "bob", since: "2020-02-29" }
}"""


@pytest.fixture
def graph(place: str) -> hg.Graph:
    made = hg.init(place, SCHEMA)
    made.mutate(FILL)
    return made


def rows(graph: hg.Graph, type_name: str, **at: Any) -> list[dict[str, Any]]:
    return sorted(graph.base(**at).dataset(type_name).to_table().to_pylist(), key=lambda row: str(row["id"]))


def changed(*pairs: tuple[str, str]) -> str:
    text = SCHEMA
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_nullable_property_is_null_in_stored_rows_and_taken_by_later_ones(graph: hg.Graph) -> None:
    graph.apply_schema(changed(("age: I32?", "age: I32?  city: String?")))
    assert [row["city"] for row in rows(graph, "Person")] == [None, None, None]
    graph.mutate(
        """query q() {
          insert Person { name: "dee", city: "rome" }
          update Person set { city: "oslo" } where name = "ann"
        }"""
    )
    assert [(row["name"], row["city"], row["age"]) for row in rows(graph, "Person")] == [
        ("ann", "oslo", 31),
        ("bob", None, 200),
        ("cid", None, None),
        ("dee", "rome", None),
    ]


def test_a_required_property_is_filled_with_its_default(graph: hg.Graph) -> None:
    graph.apply_schema(
        changed(
            ("text: String", "text: String  stars: I32 @default(3)"),
            ("since: Date?", "since: Date?  weight: F64 @default(0.5)  tags: [String]?"),
        )
    )
    assert rows(graph, "Knows")[0]["weight"] == 0.5
    graph.mutate(
        'query q() { insert Note { text: "x" } insert Knows { from: "bob", to: "ann", weight: 2.0, tags: ["t"] } }'
    )
    assert rows(graph, "Note")[0]["stars"] == 3
    assert sorted(row["weight"] for row in rows(graph, "Knows")) == [0.5, 2.0]


def test_renames_keep_data_and_earlier_commits_show_their_own_names(graph: hg.Graph) -> None:
    before = graph.head().id
    text = changed(("age: I32?", 'years: I32? @rename_from("age")')).replace("Person", "Human")
    done = graph.apply_schema(text.replace("node Human {", 'node Human @rename_from("Person") {'))
    assert [step.kind.value for step in done.steps] == ["rename_type", "rename_property"]
    assert [(row["name"], row["years"]) for row in rows(graph, "Human")] == [("ann", 31), ("bob", 200), ("cid", None)]
    assert [row["age"] for row in rows(graph, "Person", commit=before)] == [31, 200, None]
    found = graph.query('query q() { match { $p: Human { name: "ann" } $p knows $f } return { $f.years as n } }')
    assert found.to_json_rows() == [{"n": 200}]
    past = graph.query("query q() { match { $p: Person } return { $p.age as n } order { $p.name } }", commit=before)
    assert [row["n"] for row in past.to_json_rows()] == [31, 200, None]
    assert graph.sql("select name, years from Human order by name").to_json_rows()[0] == {"name": "ann", "years": 31}


def test_one_change_after_another_leaves_every_column_its_own_data(graph: hg.Graph) -> None:
    """What is dropped stays in the files: it must never be read under the name of something else."""
    columns = {"name": "String @key", "email": "String?"}
    expected = {row["name"]: {name: row[name] for name in columns} for row in rows(graph, "Person")}
    for number in range(4):
        former = f"n{number - 1}"
        columns[f"n{number}"] = f"I32 @default({number})" + (f' @rename_from("{former}")' if former in columns else "")
        if former in columns:
            columns.pop(former)
        columns[f"extra{number}"] = f'String @default("e{number}")'
        columns.pop(f"extra{number - 2}", None)
        declared = "  ".join(f"{name}: {kind}" for name, kind in columns.items())
        graph.apply_schema(f"node Person {{ {declared} }}")
        graph.mutate(f'query q() {{ insert Person {{ name: "new{number}" }} }}')
        expected[f"new{number}"] = {"name": f"new{number}", "email": None}
        found = {row["name"]: row for row in rows(graph, "Person")}
        assert {name: {k: row[k] for k in ("name", "email")} for name, row in found.items()} == expected
        assert {row[f"extra{number}"] for row in found.values()} == {f"e{number}"}
        assert found["ann"][f"n{number}"] == 0
        assert found[f"new{number}"][f"n{number}"] == number


def test_an_overwrite_after_a_drop_holds_the_new_rows(graph: hg.Graph) -> None:
    """Lance's own overwrite numbers columns anew, which would read one column's bytes as another's."""
    graph.apply_schema(changed(("age: I32?", ""), ("edge Knows: Person -> Person { since: Date? }", "")))
    graph.load([{"type": "Person", "data": {"name": "zoe", "mood": "sad", "email": "z@x"}}], mode="overwrite")
    assert rows(graph, "Person") == [{"id": "zoe", "name": "zoe", "mood": "sad", "email": "z@x"}]
    graph.mutate('query q() { insert Person { name: "yan" } }')
    assert [row["name"] for row in rows(graph, "Person")] == ["yan", "zoe"]
    assert graph.verify().damage == []
    with graph.transaction() as change:
        change.overwrite("Person", [])
    assert rows(graph, "Person") == []
    graph.mutate('query q() { insert Person { name: "xi", email: "x@x" } }')
    assert rows(graph, "Person")[0]["email"] == "x@x"


def test_a_new_type_and_edges_to_it_are_there_at_once(graph: hg.Graph) -> None:
    graph.apply_schema(SCHEMA + "node Tag { word: String @key }\nedge Tagged: Person -> Tag\n")
    graph.mutate('query q() { insert Tag { word: "x" } insert Tagged { from: "ann", to: "x" } }')
    assert len(rows(graph, "Tagged")) == 1


def test_a_dropped_type_and_property_are_gone_and_earlier_commits_show_them(graph: hg.Graph) -> None:
    before = graph.head().id
    graph.apply_schema(changed(("edge Knows: Person -> Person { since: Date? }", ""), ("age: I32?", "")))
    assert set(graph.base().tables) == {"Person", "Note", "Wrote"}
    assert "age" not in rows(graph, "Person")[0]
    assert rows(graph, "Knows", commit=before)[0]["src"] == "ann"
    assert rows(graph, "Person", commit=before)[0]["age"] == 31
    graph.apply_schema(SCHEMA)
    assert rows(graph, "Knows") == []
    assert [row["age"] for row in rows(graph, "Person")] == [None, None, None]


def test_a_widened_enum_takes_its_new_value(graph: hg.Graph) -> None:
    graph.apply_schema(changed(("enum(glad, sad)", "enum(glad, sad, calm)")))
    graph.mutate('query q() { insert Person { name: "eve", mood: "calm" } }')


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("age: I32?", "age: I32? @range(0..150)"), ["Person bob: age is 200"]),
        (("email: String?", "email: String? @unique"), ["Person ann: another row has email a@x too", "Person bob:"]),
        (("email: String?", 'email: String? @check("[b-z]@x")'), ["Person ann: email is 'a@x'"]),
        (("age: I32?", 'age: I32?  city: String @default("rome") @unique'), ["Person cid: another row has city rome"]),
    ],
)
def test_a_change_that_stored_rows_do_not_satisfy_lists_them(
    graph: hg.Graph, change: tuple[str, str], told: list[str]
) -> None:
    head = graph.head().id
    with pytest.raises(InvalidInput) as raised:
        graph.apply_schema(changed(change))
    assert all(any(part in line for line in raised.value.lines()) for part in told), raised.value.lines()
    assert graph.head().id == head
    assert graph.plan_schema(changed(change)).rejected


def test_a_constraint_that_rows_satisfy_holds_for_later_ones(graph: hg.Graph) -> None:
    graph.apply_schema(
        changed(
            ("age: I32?", "age: I32? @range(0..250)"), ("name: String @key", "name: String @key  nick: String? @unique")
        )
    )
    with pytest.raises(InvalidInput, match="outside"):
        graph.mutate('query q() { insert Person { name: "x", age: 251 } }')
    graph.mutate('query q() { insert Person { name: "x", nick: "n" } }')
    with pytest.raises(InvalidInput, match="another row has nick"):
        graph.mutate('query q() { insert Person { name: "y", nick: "n" } }')


def test_a_refused_change_tells_all_reasons_and_changes_nothing(graph: hg.Graph) -> None:
    head = graph.head().id
    with pytest.raises(InvalidInput) as raised:
        graph.apply_schema(changed(("age: I32?", "age: I64?"), ("text: String", "text: String  x: I32")))
    assert [problem.where for problem in raised.value.problems] == ["Person.age", "Note.x"]
    assert "(type_changed)" in str(raised.value)
    with pytest.raises(InvalidInput, match="no node type is named Note"):
        graph.apply_schema(changed(("node Note { text: String }", "")))
    assert graph.head().id == head


def test_the_same_schema_again_is_no_commit(graph: hg.Graph) -> None:
    head = graph.head().id
    assert not graph.apply_schema(SCHEMA).changed
    assert graph.head().id == head


def test_a_publish_id_makes_a_repeated_change_one(graph: hg.Graph) -> None:
    text = changed(("age: I32?", "age: I32?  city: String?"))
    first = graph.apply_schema(text, publish_id="p1")
    second = graph.apply_schema(text, publish_id="p1")
    assert (second.commit, second.repeated) == (first.commit, True)


class Between:
    """Runs something else once when a writer reaches a point."""

    def __init__(self, point: Failpoint, action: Callable[[], object]) -> None:
        self._point, self._action, self._done = point, action, False

    def __call__(self, point: Failpoint) -> None:
        if point is self._point and not self._done:
            self._done = True
            thread = threading.Thread(target=self._action)
            thread.start()
            thread.join()


@pytest.mark.usefixtures("disarmed")
def test_a_change_is_prepared_again_on_what_others_wrote_meanwhile(graph: hg.Graph) -> None:
    other = hg.open(graph.uri)
    add = 'query q() { insert Person { name: "late", age: 7 } }'
    failpoints.arm(Between(Failpoint.GRAPH_STAGED, lambda: other.mutate(add)))
    graph.apply_schema(changed(("age: I32?", 'years: I32? @rename_from("age")')))
    assert [row["years"] for row in rows(graph, "Person")] == [31, 200, None, 7]


@pytest.mark.usefixtures("disarmed")
def test_of_two_changes_at_once_the_second_is_a_conflict_and_drops_nothing(graph: hg.Graph) -> None:
    other = hg.open(graph.uri)
    theirs = changed(("text: String", "text: String  stars: I32?"))
    failpoints.arm(Between(Failpoint.GRAPH_STAGED, lambda: other.apply_schema(theirs)))
    with pytest.raises(ExpectedVersionMismatch) as raised:
        graph.apply_schema(changed(("age: I32?", "age: I32?  city: String?")))
    assert raised.value.table == "schema"
    assert graph.schema().find("Note").find_property("stars")  # type: ignore[union-attr]
    assert not graph.schema().find("Person").find_property("city")  # type: ignore[union-attr]


@pytest.mark.usefixtures("disarmed")
def test_a_writer_at_work_gets_a_typed_conflict_and_goes_on(graph: hg.Graph) -> None:
    other = hg.open(graph.uri)
    text = changed(("age: I32?", 'years: I32? @rename_from("age")'))
    failpoints.arm(Between(Failpoint.GRAPH_STAGED, lambda: other.apply_schema(text)))
    with pytest.raises(Conflict):
        graph.mutate('query q() { update Person set { mood: "sad" } where name = "cid" }')
    graph.mutate('query q() { update Person set { mood: "sad", years: 9 } where name = "cid" }')
    assert rows(graph, "Person")[2]["years"] == 9
    # An insert that rests on nothing it read is prepared again, on the new schema.
    failpoints.arm(
        Between(
            Failpoint.GRAPH_STAGED,
            lambda: other.apply_schema(text.replace("text: String", "text: String  stars: I32 @default(1)")),
        )
    )
    graph.mutate('query q() { insert Note { text: "x" } }')
    assert rows(graph, "Note")[0]["stars"] == 1


@pytest.mark.usefixtures("disarmed")
@pytest.mark.parametrize(
    "point", [Failpoint.GRAPH_SIDECAR_CREATED, Failpoint.GRAPH_BETWEEN_TABLES, Failpoint.GRAPH_TABLES_COMMITTED]
)
def test_a_change_that_fails_after_its_sidecar_leaves_the_old_schema_and_all_rows(
    graph: hg.Graph, point: Failpoint
) -> None:
    def fail(at: Failpoint) -> None:
        if at is point:
            raise RuntimeError("stop")

    failpoints.arm(fail)
    with pytest.raises(RuntimeError):
        graph.apply_schema(
            changed(
                ("age: I32?", 'years: I32? @rename_from("age")'), ("since: Date?", "since: Date?  w: F64 @default(1.0)")
            )
        )
    failpoints.arm(None)
    assert [row["age"] for row in rows(graph, "Person")] == [31, 200, None]
    assert "w" not in rows(graph, "Knows")[0]
    graph.mutate('query q() { insert Person { name: "zoe", age: 1 } }')
    assert [row["age"] for row in rows(graph, "Person")] == [31, 200, None, 1]


def test_ids_are_given_out_once_over_all_changes(graph: hg.Graph) -> None:
    graph.apply_schema(changed(("age: I32?", "")))
    graph.apply_schema(SCHEMA)
    state = graph.store.manifest.state()
    assert state.next_id == graph.schema().next_id
    person = graph.schema().find("Person")
    assert person is not None
    assert person.property("age").id == state.next_id - 1
