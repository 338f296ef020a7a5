"""What a published commit says about its attempt: round trips, and what a reader makes of other hands' metadata."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.publication import CommitMetadata, PublishId, Ref, Strength

names = st.text(min_size=1, max_size=12)
metadata = st.builds(
    CommitMetadata,
    publish_id=names.map(PublishId),
    expected_head=names.map(Ref),
    orchestrator=names,
    workflow=names,
    reference_task=names,
    task_id=names,
    iteration=st.integers(min_value=0),
    retry_count=st.integers(min_value=0),
    strength=st.sampled_from(Strength),
    inputs=st.dictionaries(names, names, max_size=3),
    task_name=st.text(max_size=8),
    code_module=st.text(max_size=8),
    code_commit=st.text(max_size=8),
    code_dirty=st.none() | st.booleans(),
)
EXAMPLE = CommitMetadata(
    publish_id=PublishId("p1"),
    expected_head=Ref("A"),
    orchestrator="engine-1",
    workflow="w1",
    reference_task="clean",
    task_id="t1",
    strength=Strength.HARD,
    inputs={"songs": "A", "music": "B"},
    code_dirty=True,
)
REQUIRED = ["publish_id", "expected_head", "orchestrator", "workflow", "reference_task", "task_id"]


@given(metadata)
def test_metadata_survives_a_stores_flat_text_map(made: CommitMetadata) -> None:
    kept = made.to_map()
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in kept.items())
    assert CommitMetadata.from_map(kept) == made


@given(metadata, st.dictionaries(names.map(lambda name: f"x-{name}") | names.map(lambda n: f"headgate.new_{n}"), names))
def test_keys_of_other_hands_and_of_later_versions_are_skipped(made: CommitMetadata, more: dict[str, str]) -> None:
    assert CommitMetadata.from_map(made.to_map() | more) == made


@given(st.dictionaries(st.sampled_from([f"headgate.{f.name}" for f in dataclasses.fields(CommitMetadata)]), st.text()))
def test_from_map_is_total_and_what_it_accepts_it_writes_back(found: dict[str, str]) -> None:
    made = CommitMetadata.from_map(found)
    if made is not None:
        assert CommitMetadata.from_map(made.to_map()) == made


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_metadata_without_a_required_value_is_nobodys(name: str, damage: str) -> None:
    kept = EXAMPLE.to_map()
    del kept[f"headgate.{name}"]
    if damage == "empty":
        kept[f"headgate.{name}"] = ""
    assert CommitMetadata.from_map(kept) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iteration", "many"),
        ("iteration", ""),
        ("retry_count", "1.5"),
        ("strength", "iron"),
        ("inputs", "{"),
        ("inputs", "[]"),
        ("inputs", '"songs"'),
        ("inputs", '{"songs": null}'),
        ("inputs", "[" * 100_000),
    ],
)
def test_metadata_with_a_damaged_value_is_nobodys(name: str, value: str) -> None:
    assert CommitMetadata.from_map(EXAMPLE.to_map() | {f"headgate.{name}": value}) is None


def test_a_missing_strength_is_never_taken_for_hard() -> None:
    kept = EXAMPLE.to_map()
    del kept["headgate.strength"]
    found = CommitMetadata.from_map(kept)
    assert found is not None
    assert found.strength is Strength.SOFT


@pytest.mark.parametrize(("value", "told"), [("true", True), ("false", False), ("True", None), ("", None)])
def test_only_a_plain_word_says_whether_the_code_was_dirty(value: str, told: bool | None) -> None:
    found = CommitMetadata.from_map(EXAMPLE.to_map() | {"headgate.code_dirty": value})
    assert found is not None
    assert found.code_dirty is told


@given(metadata, st.sampled_from(Strength))
def test_with_strength_changes_the_strength_and_nothing_else(made: CommitMetadata, strength: Strength) -> None:
    changed = made.with_strength(strength)
    assert changed.strength is strength
    assert changed.with_strength(made.strength) == made


def test_the_keys_on_disk_are_the_ones_earlier_versions_wrote() -> None:
    """A renamed key would make every commit of a neighbouring version a stranger's."""
    assert EXAMPLE.to_map() == {
        "headgate.publish_id": "p1",
        "headgate.expected_head": "A",
        "headgate.orchestrator": "engine-1",
        "headgate.workflow": "w1",
        "headgate.reference_task": "clean",
        "headgate.task_id": "t1",
        "headgate.iteration": "0",
        "headgate.retry_count": "0",
        "headgate.strength": "hard",
        "headgate.inputs": '{"music":"B","songs":"A"}',
        "headgate.code_dirty": "true",
    }
