"""Staging branch names: reversible, bounded, in characters every lake takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.attempts.names import MAX_LENGTH, PREFIX, StagingName, orchestrator_prefix, parse
from headgate.errors import InvalidInput
from headgate.tasks.protocols import AttemptId, PolledAttempt

BRANCH = re.compile(r"[0-9A-Za-z_][-0-9A-Za-z_]*")
FIELD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=2)
COUNT = st.integers(0, 10**6)


def polled(**changes: object) -> PolledAttempt:
    facts: dict[str, object] = {"workflow": "w-1", "task_id": "t_2", "reference_task": "tidy", **changes}
    return PolledAttempt(
        id=AttemptId(
            orchestrator="local:1",
            workflow=str(facts["workflow"]),
            task_id=str(facts["task_id"]),
            retry_count=1,
            poll_count=1,
            worker_id="w",
        ),
        task_name="tidy",
        reference_task=str(facts["reference_task"]),
        input={},
        seq=4,
        iteration=2,
    )


@given(FIELD, FIELD, FIELD, COUNT, COUNT, FIELD, COUNT, FIELD)
def test_every_name_can_be_read_back(
    orchestrator: str, workflow: str, task: str, iteration: int, seq: int, task_id: str, retry: int, execution: str
) -> None:
    name = StagingName(
        orchestrator=orchestrator,
        workflow=workflow,
        reference_task=task,
        iteration=iteration,
        seq=seq,
        task_id=task_id,
        retry_count=retry,
        execution=execution,
    )
    branch = str(name)
    assert BRANCH.fullmatch(branch)
    assert len(branch) <= MAX_LENGTH
    assert parse(branch) == name
    assert branch.startswith(name.task_prefix)
    assert branch.startswith(orchestrator_prefix(orchestrator))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_a_reference_task_of_any_length_gets_a_name(reference_task: str) -> None:
    name = StagingName.of(polled(reference_task=reference_task), "01EXECUTION")
    assert len(str(name)) <= MAX_LENGTH
    assert parse(str(name)) == name
    other = StagingName.of(polled(reference_task=reference_task + "x"), "01EXECUTION")
    assert other.task_prefix != name.task_prefix


@given(st.text("ab-_ü", min_size=1, max_size=5), st.text("ab-_ü", min_size=1, max_size=5))
def test_one_workflow_s_names_never_match_another_s(one: str, other: str) -> None:
    left, right = (StagingName.of(polled(workflow=workflow), "x") for workflow in (one, other))
    assert (str(left).startswith(right.task_prefix)) == (one == other)


@pytest.mark.parametrize(
    "branch",
    [
        "main",
        PREFIX,
        PREFIX + "a-b-c",
        PREFIX + "o-w-t-x-0-id-0-e",
        PREFIX + "o-w-t-0-0-id-0-e-more",
        PREFIX + "o-w-t-0-00-id-0-e",
        PREFIX + "o-w-_xff-0-0-id-0-e",
        PREFIX + "o-w-_q-0-0-id-0-e",
        PREFIX + "o-w-_x61-0-0-id-0-e",
        PREFIX + "o-w--0-0-id-0-e",
    ],
)
def test_a_branch_that_is_none_of_ours_is_left_alone(branch: str) -> None:
    assert parse(branch) is None


def test_an_id_too_long_for_a_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="staging branch"):
        str(StagingName.of(polled(task_id="t" * 100), "x"))
