"""The kernel decides as the model does, in every state in which the model decides at all.

A model that is right about another protocol than the one in the code would prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.models.loading import load

from headgate.publication import (
    CommitMetadata,
    Decision,
    Head,
    Move,
    PublishId,
    Ref,
    Replace,
    TaskFate,
    TaskState,
    decide,
    judge_head,
)

pytestmark = pytest.mark.slow

protocol = load("publication_protocol")
ORCHESTRATOR = "the model's"
LIMIT = 60_000


def _ref(commit: int) -> Ref:
    return Ref(f"c{commit}")


def _states(model: Any) -> Iterator[tuple[Any, ...]]:
    """States of the model, breadth first, up to the limit."""
    layer = [model.start()]
    seen = set(layer)
    while layer and len(seen) < LIMIT:
        following = []
        for state in layer:
            yield state
            for _, world in model.successors(state):
                reached = world.freeze()
                if reached not in seen:
                    seen.add(reached)
                    following.append(reached)
        layer = following


def _decision(model: Any, state: tuple[Any, ...], attempt: Any, commit: int) -> Decision:
    """What the kernel says about the head `commit`, told the facts of the model's world."""
    world = protocol.World(model, state)
    author, metadata, fate = model.author(commit), {}, None
    if author is not None:
        task, task_id = world.attempts[author][1], world.attempts[author][2]
        metadata = CommitMetadata(
            publish_id=PublishId(f"p{author}"),
            expected_head=_ref(attempt.inp),
            orchestrator=ORCHESTRATOR,
            workflow=f"w{model.tasks[task][0]}",
            reference_task=f"t{task}",
            task_id=f"{task}.{task_id}",
        ).to_map()
        fate = _fate(world.tasks[task], task_id)
    parent = world.parent[commit]
    head = Head(
        branch="main",
        ref=_ref(commit),
        parents=() if parent == protocol.NONE else (_ref(parent),),
        metadata=metadata,
    )
    replace = Replace.ANY if model.c.any_parent else Replace.AUTO
    judged = judge_head(head, orchestrator=ORCHESTRATOR, fate=fate, replace=replace)
    changed = attempt.kind == protocol.CHANGED
    return decide(head, input_ref=_ref(attempt.inp), abandonment=judged, changed=changed)


def _fate(task: tuple[Any, ...], task_id: int) -> TaskFate:
    status, _, current, accepted, _ = task
    if task_id != current or status == protocol.FAILED:
        return TaskFate(state=TaskState.ENDED)
    if status == protocol.COMPLETED:
        return TaskFate(state=TaskState.COMPLETED, accepted_ref=_ref(accepted))
    return TaskFate(state=TaskState.RUNNING)


def _expected(model: Any, state: tuple[Any, ...], number: int, attempt: Any) -> set[Move]:
    """The moves the model's next step allows: reading tells where the head stands, classifying decides the rest."""
    ((_, world),) = model.act(state, number)
    following = world.attempts[number][0]
    changed = attempt.kind == protocol.CHANGED
    if attempt.pc == "read" and following == "classify":
        return {Move.FENCED, Move.REPLACE if changed else Move.RELOCATE}
    if following == "clean":
        return {Move.FENCED}
    if attempt.pc == "classify":
        return {Move.REPLACE if changed else Move.RELOCATE}
    return {Move.MERGE if changed else Move.COMPLETE}


@pytest.mark.parametrize(
    "name", ["embedded-retries", "embedded-rerun", "embedded-workflows", "embedded-any-parent", "person", "replacers"]
)
def test_invariant_3_the_kernel_makes_the_models_decisions_in_every_state(name: str) -> None:
    model = protocol.Model(protocol.BY_NAME[name])
    met: set[Move] = set()
    for state in _states(model):
        for number, frozen in enumerate(state[4]):
            attempt = protocol.Attempt(frozen)
            if attempt.pc in ("read", "classify"):
                commit = state[0] if attempt.pc == "read" else attempt.h
                move = _decision(model, state, attempt, commit).move
                assert move in _expected(model, state, number, attempt), (attempt.freeze(), state)
                met.add(move)
    assert met == set(Move)
