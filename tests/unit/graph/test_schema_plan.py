"""The way from one schema to another: which steps, which refusals, which ids."""

from __future__ import annotations

import pytest

from headgate.graph.schema.change import RefusalCode, SchemaPlan, StepKind
from headgate.graph.schema.model import Range, Schema, Unique, with_ids
from headgate.graph.schema.parse import parse_schema
from headgate.graph.schema.plan import plan_change

OLD = """
interface Named { name: String }
node Person implements Named { name: String @key  age: I32? @range(0..150)  mood: enum(glad, sad)?
  email: String? @unique }
node Note { text: String }
edge Knows: Person -> Person @card(0..5) { since: Date? }
edge Wrote: Person -> Note
"""


def stored() -> Schema:
    return with_ids(parse_schema(OLD))


def plan(text: str, *, allow_data_loss: bool = False, next_id: int = 0) -> SchemaPlan:
    return plan_change(stored(), parse_schema(text), allow_data_loss=allow_data_loss, next_id=next_id)


def steps(found: SchemaPlan) -> list[tuple[str, str]]:
    assert found.refusals == ()
    return [(step.kind.value, step.where) for step in found.steps]


def codes(found: SchemaPlan) -> list[tuple[str, str]]:
    return [(refusal.code.value, refusal.where) for refusal in found.refusals]


def test_the_same_schema_is_no_change() -> None:
    assert plan(OLD).changes_nothing
    assert plan(OLD).new == stored()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("node Note {", "node Tag { word: String @key }\nnode Note {"), [("add_type", "Tag")]),
        (("text: String", "text: String  stars: I32?"), [("add_property", "Note.stars")]),
        (("text: String", "text: String  stars: I32 @default(3)"), [("add_property", "Note.stars")]),
        (("text: String", 'body: String @rename_from("text")'), [("rename_property", "Note.body")]),
        (("text: String", "text: String @index"), [("add_index", "Note.text")]),
        (("text: String", "text: String @unique"), [("add_constraint", "Note")]),
        (("since: Date?", 'since: Date? @range("2000-01-01"..)'), [("add_constraint", "Knows")]),
        (("text: String", 'text: String @check("[a-z]+")'), [("add_constraint", "Note")]),
        (("enum(glad, sad)", "enum(glad, calm, sad)"), [("widen_enum", "Person.mood")]),
        (("edge Wrote: Person -> Note", ""), [("drop_type", "Wrote")]),
        (("{ since: Date? }", "{ }"), [("drop_property", "Knows.since")]),
        ((" @unique", ""), [("drop_constraint", "Person")]),
        (("0..150", "0..200"), [("add_constraint", "Person"), ("drop_constraint", "Person")]),
        (("text: String", 'text: String @description("words")'), [("describe", "Note.text")]),
        (("node Note {", 'node Note @instruction("quote it") {'), [("describe", "Note")]),
        (("text: String", 'text: String @default("none")'), [("describe", "Note.text")]),
        (("interface Named {", 'interface Named @description("x") {'), [("describe", "schema")]),
    ],
)  # fmt: skip
def test_each_change_that_is_made(change: tuple[str, str], expected: list[tuple[str, str]]) -> None:
    assert change[0] in OLD
    assert sorted(steps(plan(OLD.replace(*change)))) == sorted(expected)


@pytest.mark.parametrize(
    ("change", "code", "where"),
    [
        (("age: I32?", "age: I64?"), "type_changed", "Person.age"),
        (("text: String", "text: String?"), "nullability_changed", "Note.text"),
        (("age: I32?", "age: I32"), "nullability_changed", "Person.age"),
        (("text: String", "text: String  stars: I32"), "default_missing", "Note.stars"),
        (("text: String", "text: String @key"), "key_changed", "Note"),
        (("enum(glad, sad)", "enum(glad)"), "enum_narrowed", "Person.mood"),
        (("Wrote: Person -> Note", "Wrote: Note -> Person"), "ends_changed", "Wrote"),
        (("@card(0..5)", "@card(0..6)"), "cardinality_changed", "Knows"),
        (("text: String", 'body: String @rename_from("txt")'), "rename_unknown", "Note.body"),
        (("node Note {", 'node Remark @rename_from("Nte") { }\nnode Note {'), "rename_unknown", "Remark"),
        (("text: String", 'text: String  body: String @rename_from("text")'), "rename_ambiguous", "Note.body"),
        (("text: String", 'a: I32 @rename_from("text") b: I32 @rename_from("text")'), "rename_ambiguous", "Note.b"),
        (("node Note {", 'node Remark @rename_from("Note") { }\nnode Note {'), "rename_ambiguous", "Remark"),
        (("edge Wrote: Person -> Note", "node Wrote { }"), "kind_changed", "Wrote"),
    ],
)  # fmt: skip
def test_everything_else_is_refused_with_a_code_and_a_reason(change: tuple[str, str], code: str, where: str) -> None:
    assert change[0] in OLD
    found = plan(OLD.replace(*change))
    assert codes(found) == [(code, where)]
    assert found.refusals[0].reason
    assert found.refusals[0].fix


def test_names_that_would_be_swapped_are_refused() -> None:
    text = OLD.replace("implements Named {", 'implements Named @rename_from("Note") {')
    text = text.replace("node Note {", 'node Note @rename_from("Person") {')
    assert codes(plan(text))[0] == ("rename_ambiguous", "Person")


def test_a_type_that_edges_use_is_not_dropped() -> None:
    without = parse_schema("node Person { name: String @key }")
    edge = parse_schema(OLD).edges[1]
    broken = Schema(nodes=without.nodes, edges=(edge,))
    found = plan_change(stored(), broken)
    assert codes(found) == [("type_in_use", "Wrote")]
    assert RefusalCode.TYPE_IN_USE.value == "type_in_use"


def test_a_type_keeps_its_id_and_its_constraints_through_a_rename() -> None:
    text = OLD.replace("Person", "Human").replace("implements Named {", 'implements Named @rename_from("Person") {')
    text = text.replace("age: I32?", 'years: I32? @rename_from("age")')
    found = plan(text)
    assert steps(found) == [("rename_type", "Human"), ("rename_property", "Human.years")]
    before, after = stored().find("Person"), found.new.find("Human")
    assert before is not None
    assert after is not None
    assert after.id == before.id
    assert after.property("years").id == before.property("age").id
    edit = next(edit for edit in found.edits if edit.new is after)
    assert (edit.renamed, edit.added, edit.dropped, edit.constraints) == ((("age", "years"),), (), (), ())
    assert edit.old_name("years") == "age"
    again = plan_change(found.new, parse_schema(text))
    assert again.changes_nothing


def test_ids_are_never_used_again() -> None:
    dropped = plan(OLD.replace("since: Date?", "")).new
    back = plan_change(dropped, parse_schema(OLD))
    assert [step.kind for step in back.steps] == [StepKind.ADD_PROPERTY]
    knows, former = back.new.find("Knows"), stored().find("Knows")
    assert knows is not None
    assert former is not None
    assert knows.property("since").id >= stored().next_id > former.property("since").id
    assert plan(OLD.replace("text: String", "text: String  x: I32?"), next_id=900).new.next_id == 901


def test_what_is_asked_of_stored_rows_is_told() -> None:
    found = plan(OLD.replace("text: String", "text: String @unique  stars: I32 @default(3) @range(1..5)"))
    edit = next(edit for edit in found.edits if edit.new.name == "Note")
    assert set(edit.constraints) == {Unique(("text",)), Range("stars", 1, 5)}
    assert edit.old_name("stars") is None


def test_drops_are_soft_unless_data_loss_is_allowed() -> None:
    text = OLD.replace("{ since: Date? }", "{ }").replace("edge Wrote: Person -> Note", "")
    assert [step.hard for step in plan(text).steps] == [False, False]
    assert [step.hard for step in plan(text, allow_data_loss=True).steps] == [True, True]
    assert "earlier commits still show it" in str(plan(text).steps[0])
    assert "can no longer be read" in str(plan(text, allow_data_loss=True).steps[0])
