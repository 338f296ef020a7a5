"""Whether a head may be replaced: every answer of an orchestrator, for every kind of head."""

from __future__ import annotations

from itertools import product

import pytest

from headgate.publication import (
    CommitMetadata,
    Head,
    HeadStatus,
    PublishId,
    Ref,
    Replace,
    TaskFate,
    TaskState,
    judge_head,
)

H, OTHER, OURS = Ref("H"), Ref("X"), "engine-1"


def _metadata(orchestrator: str) -> dict[str, str]:
    return CommitMetadata(
        publish_id=PublishId("p1"),
        expected_head=Ref("A"),
        orchestrator=orchestrator,
        workflow="w1",
        reference_task="clean",
        task_id="t1",
    ).to_map()


METADATA: dict[str, dict[str, str]] = {
    "ours": _metadata(OURS),
    "another orchestrator's": _metadata("engine-2"),
    "none": {},
    "another system's": {"author": "a person"},
    "ours, damaged": _metadata(OURS) | {"headgate.iteration": "many"},
    "ours, without its task id": {k: v for k, v in _metadata(OURS).items() if k != "headgate.task_id"},
}
FATES: dict[str, TaskFate | None] = {
    "nothing to ask": None,
    **{
        f"{state} with {ref}": TaskFate(state=state, accepted_ref=ref)
        for state in TaskState
        for ref in (None, H, OTHER)
    },
}
STATES = list(product(METADATA, FATES))


def _judge(kind: str, fate: str, replace: Replace = Replace.AUTO) -> HeadStatus:
    head = Head(branch="main", ref=H, parents=(Ref("A"),), metadata=METADATA[kind])
    return judge_head(head, orchestrator=OURS, fate=FATES[fate], replace=replace).status


def _expected(kind: str, fate: str) -> HeadStatus:
    answer = FATES[fate]
    if kind != "ours" or answer is None:
        return HeadStatus.FOREIGN
    return {
        (TaskState.COMPLETED, H): HeadStatus.ACCEPTED,
        (TaskState.COMPLETED, OTHER): HeadStatus.ABANDONED,
        (TaskState.COMPLETED, None): HeadStatus.FOREIGN,
        **{(TaskState.ENDED, ref): HeadStatus.ABANDONED for ref in (None, H, OTHER)},
        **{(TaskState.RUNNING, ref): HeadStatus.UNDECIDED for ref in (None, H, OTHER)},
        **{(TaskState.NOT_FOUND, ref): HeadStatus.FOREIGN for ref in (None, H, OTHER)},
    }[(answer.state, answer.accepted_ref)]


@pytest.mark.parametrize(("kind", "fate"), STATES)
def test_invariant_2_a_head_is_abandoned_only_if_the_orchestrator_says_so(kind: str, fate: str) -> None:
    assert _judge(kind, fate) is _expected(kind, fate)


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("kind", [kind for kind in METADATA if kind != "ours"])
def test_invariant_2_somebody_elses_commit_is_never_abandoned_whatever_the_orchestrator_answers(
    kind: str, fate: str
) -> None:
    assert _judge(kind, fate) is HeadStatus.FOREIGN


@pytest.mark.parametrize(("kind", "fate"), STATES)
def test_replace_any_takes_every_child_of_the_input_ref(kind: str, fate: str) -> None:
    assert _judge(kind, fate, Replace.ANY) is HeadStatus.ABANDONED


@pytest.mark.parametrize(("kind", "fate", "replace"), list(product(METADATA, FATES, Replace)))
def test_every_judgement_says_why(kind: str, fate: str, replace: Replace) -> None:
    head = Head(branch="main", ref=H, metadata=METADATA[kind])
    judged = judge_head(head, orchestrator=OURS, fate=FATES[fate], replace=replace)
    assert judged.reason
    assert judged.abandoned is (judged.status is HeadStatus.ABANDONED)


def test_a_judgement_of_our_own_publication_names_its_task_and_workflow() -> None:
    head = Head(branch="main", ref=H, metadata=METADATA["ours"])
    for state in TaskState:
        reason = judge_head(head, orchestrator=OURS, fate=TaskFate(state=state)).reason
        assert "task t1 of workflow w1" in reason


def test_an_older_poll_of_a_task_id_that_still_runs_is_not_over() -> None:
    assert _judge("ours", "running with X") is HeadStatus.UNDECIDED
