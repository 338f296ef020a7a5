"""Lost answers: every history a target can show after a publish nobody heard back from."""

from __future__ import annotations

from itertools import product

import pytest

from headgate.publication import (
    CommitMetadata,
    Head,
    NotPublished,
    Outcome,
    Published,
    PublishId,
    ReadBack,
    Ref,
    Strength,
    Unknown,
    read_back_commit,
    read_back_head,
)

A, H, X = Ref("A"), Ref("H"), Ref("X")
OURS = PublishId("p1")


def _metadata(publish_id: str) -> dict[str, str]:
    return CommitMetadata(
        publish_id=PublishId(publish_id),
        expected_head=A,
        orchestrator="engine-1",
        workflow="w1",
        reference_task="clean",
        task_id="t1",
    ).to_map()


COMMITS: dict[str, dict[str, str]] = {
    "ours": _metadata(OURS),
    "another attempt's": _metadata("p2"),
    "a person's": {},
    "ours, damaged": _metadata(OURS) | {"headgate.inputs": '{"songs":'},
    "ours, cut short": {"headgate.publish_id": OURS},
}
# Every history of up to three commits above the input ref, newest first, with the input ref below them or not.
HISTORIES = [above for length in range(4) for above in product(COMMITS, repeat=length)]


def _read(above: tuple[str, ...], *, revoked: bool, reaches_input: bool) -> Outcome:
    commits = [Head(branch="main", ref=Ref(f"c{n}"), metadata=COMMITS[kind]) for n, kind in enumerate(above)]
    if reaches_input:
        commits.append(Head(branch="main", ref=A, metadata=_metadata("p0")))
        commits.append(Head(branch="main", ref=Ref("older"), metadata=_metadata(OURS)))
    return read_back_commit(ReadBack(publish_id=OURS, revoked=revoked), first_parents=commits, input_ref=A)


@pytest.mark.parametrize("revoked", [True, False])
@pytest.mark.parametrize("reaches_input", [True, False])
def test_invariant_4_our_commit_on_the_branch_is_published_whether_or_not_it_was_revoked(
    revoked: bool, reaches_input: bool
) -> None:
    for above in HISTORIES:
        ours = [n for n, kind in enumerate(above) if kind.startswith("ours")]
        if ours:
            found = _read(above, revoked=revoked, reaches_input=reaches_input)
            assert found == Published(ref=Ref(f"c{ours[0]}")), above


@pytest.mark.parametrize("revoked", [True, False])
@pytest.mark.parametrize("reaches_input", [True, False])
def test_invariant_4_absence_is_an_answer_only_after_a_revoke_and_a_walk_down_to_the_input_ref(
    revoked: bool, reaches_input: bool
) -> None:
    for above in HISTORIES:
        if not any(kind.startswith("ours") for kind in above):
            found = _read(above, revoked=revoked, reaches_input=reaches_input)
            wanted = NotPublished if revoked and reaches_input else Unknown
            assert isinstance(found, wanted), above


def test_a_commit_of_ours_below_the_input_ref_is_not_this_publish() -> None:
    assert isinstance(_read((), revoked=True, reaches_input=True), NotPublished)


def test_the_walk_stops_at_the_input_ref() -> None:
    """Work grows with what changed: a long history below the input ref is never read."""

    def endless():  # type: ignore[no-untyped-def]
        yield Head(branch="main", ref=A)
        raise AssertionError("read on below the input ref")

    found = read_back_commit(ReadBack(publish_id=OURS, revoked=True), first_parents=endless(), input_ref=A)
    assert isinstance(found, NotPublished)


@pytest.mark.parametrize(
    ("head", "revoked", "outcome"),
    [
        (A, True, Published),
        (A, False, Published),
        (H, True, NotPublished),
        (H, False, Unknown),
        (X, True, Unknown),
        (X, False, Unknown),
    ],
)
def test_invariant_4_a_move_without_a_commit_is_read_back_by_the_head_alone(
    head: Ref, revoked: bool, outcome: type[Outcome]
) -> None:
    """With somebody else's commit on top it cannot be told whether ours came before: never a success, never a no."""
    asked = ReadBack(publish_id=OURS, revoked=revoked)
    found = read_back_head(asked, head=Head(branch="main", ref=head), wanted=A, expected_head=H)
    assert isinstance(found, outcome)


@pytest.mark.parametrize("strength", Strength)
def test_a_publish_that_is_found_keeps_the_strength_it_was_made_with(strength: Strength) -> None:
    asked = ReadBack(publish_id=OURS, revoked=True, strength=strength)
    ours = Head(branch="main", ref=Ref("c0"), metadata=COMMITS["ours"])
    by_commit = read_back_commit(asked, first_parents=[ours], input_ref=A)
    by_head = read_back_head(asked, head=Head(branch="main", ref=A), wanted=A, expected_head=H)
    assert by_commit == Published(ref=Ref("c0"), strength=strength)
    assert by_head == Published(ref=A, strength=strength)


def test_what_cannot_be_known_names_the_publish_id() -> None:
    found = _read(("a person's",), revoked=False, reaches_input=True)
    assert isinstance(found, Unknown)
    assert found.publish_id == OURS
