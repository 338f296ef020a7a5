"""The publish table, over every state there is."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.publication import Abandonment, Decision, Head, HeadStatus, Move, Ref, decide

A, H, OTHER = Ref("A"), Ref("H"), Ref("X")

# Where the head stands to the input ref: its ref and its parents.
POSITIONS: dict[str, tuple[Ref, tuple[Ref, ...]]] = {
    "the input ref": (A, (OTHER,)),
    "the input ref, the first commit": (A, ()),
    "the input ref, a merge": (A, (OTHER, H)),
    "its child": (H, (A,)),
    "a merge with the input ref as first parent": (H, (A, OTHER)),
    "a merge with the input ref as second parent": (H, (OTHER, A)),
    "a child of something else": (H, (OTHER,)),
    "a first commit": (H, ()),
}
STATES = list(product(POSITIONS, HeadStatus, (True, False)))


def _decide(position: str, status: HeadStatus, changed: bool) -> Decision:
    ref, parents = POSITIONS[position]
    head = Head(branch="main", ref=ref, parents=parents)
    return decide(head, input_ref=A, abandonment=Abandonment(status=status, reason=f"it is {status}"), changed=changed)


def _expected(position: str, status: HeadStatus, changed: bool) -> Move:
    """The table as the protocol page has it, written a second time and in another shape."""
    if position.startswith("the input ref"):
        return {True: Move.MERGE, False: Move.COMPLETE}[changed]
    if position == "its child" and status is HeadStatus.ABANDONED:
        return {True: Move.REPLACE, False: Move.RELOCATE}[changed]
    return Move.FENCED


@pytest.mark.parametrize(("position", "status", "changed"), STATES)
def test_invariant_2_every_state_gets_the_move_of_the_publish_table(
    position: str, status: HeadStatus, changed: bool
) -> None:
    assert _decide(position, status, changed).move is _expected(position, status, changed)


@pytest.mark.parametrize(("position", "status", "changed"), STATES)
def test_invariant_3_no_move_ever_builds_on_an_abandoned_head(position: str, status: HeadStatus, changed: bool) -> None:
    """A merge adds a commit on top of the head, so it is chosen for the input ref alone: never A -> H -> C."""
    decision = _decide(position, status, changed)
    if decision.move is Move.MERGE:
        assert decision.expected_head == A


@pytest.mark.parametrize(("position", "status", "changed"), STATES)
def test_an_unchanged_workspace_never_gets_a_commit(position: str, status: HeadStatus, changed: bool) -> None:
    makes_commit = _decide(position, status, changed).move in (Move.MERGE, Move.REPLACE)
    assert not makes_commit or changed


@pytest.mark.parametrize(("position", "status", "changed"), STATES)
def test_invariant_2_every_update_is_conditional_on_exactly_the_head_that_was_judged(
    position: str, status: HeadStatus, changed: bool
) -> None:
    decision = _decide(position, status, changed)
    assert decision.expected_head == POSITIONS[position][0]
    assert decision.updates_head is (decision.move not in (Move.COMPLETE, Move.FENCED))


@pytest.mark.parametrize("status", [s for s in HeadStatus if s is not HeadStatus.ABANDONED])
@pytest.mark.parametrize("changed", [True, False])
def test_a_fenced_child_of_the_input_ref_is_told_whose_it_is(status: HeadStatus, changed: bool) -> None:
    assert _decide("its child", status, changed).reason == f"it is {status}"


def test_a_merge_commit_is_fenced_by_that_reason() -> None:
    assert "merge commit" in _decide("a merge with the input ref as first parent", HeadStatus.ABANDONED, True).reason


refs = st.text(min_size=1, max_size=4).map(Ref)
heads = st.builds(Head, branch=st.text(), ref=refs, parents=st.lists(refs, max_size=4).map(tuple))
abandonments = st.builds(Abandonment, status=st.sampled_from(HeadStatus), reason=st.text())


@given(head=heads, input_ref=refs, abandonment=abandonments, changed=st.booleans())
def test_decide_is_total_and_answers_equal_questions_equally(
    head: Head, input_ref: Ref, abandonment: Abandonment, changed: bool
) -> None:
    decision = decide(head, input_ref=input_ref, abandonment=abandonment, changed=changed)
    assert decision == decide(head, input_ref=input_ref, abandonment=abandonment, changed=changed)
    assert decision.expected_head == head.ref


@given(head=heads, input_ref=refs, abandonment=abandonments, changed=st.booleans())
def test_invariant_3_after_any_move_the_input_ref_is_the_head_or_its_parent(
    head: Head, input_ref: Ref, abandonment: Abandonment, changed: bool
) -> None:
    """The history a person sees is `input ref -> published`, whatever the branch looked like before."""
    move = decide(head, input_ref=input_ref, abandonment=abandonment, changed=changed).move
    if move is Move.MERGE:
        assert head.ref == input_ref  # the merge commit's parent
    elif move is Move.COMPLETE:
        assert head.ref == input_ref
    elif move in (Move.REPLACE, Move.RELOCATE):
        assert head.parents == (input_ref,)  # what is taken off the branch is exactly one commit


@given(head=heads, input_ref=refs, abandonment=abandonments)
def test_what_fences_a_changed_workspace_fences_an_unchanged_one_too(
    head: Head, input_ref: Ref, abandonment: Abandonment
) -> None:
    moves = [
        decide(head, input_ref=input_ref, abandonment=abandonment, changed=changed).move for changed in (True, False)
    ]
    assert (moves[0] is Move.FENCED) == (moves[1] is Move.FENCED)
