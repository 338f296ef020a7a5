"""Random interleavings that hypothesis makes and shrinks; and that it finds what each rule of the protocol is for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.simulation.machine import Attempts, AttemptTurn, Part, broken
from tests.simulation.scheduler import current_turn

from headgate.publication import Ref, Replace, TaskFate, TaskState
from headgate.tasks.protocols import AttemptId, AttemptSnapshot
from headgate.testing.place import Place

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("HEADGATE_MACHINE_EXAMPLES", "60"))
BOUNDED = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
HUNTING = settings(BOUNDED, max_examples=500, phases=[Phase.generate])
"""No shrinking: it only has to be found."""
HUNTS = 8
"""One hunt finds most faults; which ones it misses is chance, and eight in a row is none."""


@pytest.fixture(scope="module", autouse=True)
def _one_place_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with Place(tmp_path_factory.mktemp("machine")) as Attempts.real:
        yield


def test_invariants_1_2_3_and_7_hold_in_any_order_of_events() -> None:
    run_state_machine_as_test(Attempts, settings=BOUNDED)


def test_replacing_any_child_is_safe_where_one_workflow_has_the_branch() -> None:
    machine = broken("Any", replace_rule=Replace.ANY, one_writer=True)
    run_state_machine_as_test(machine, settings=BOUNDED)


class SoftLake(Part):
    """Expects whatever head it finds: the client's look at the head is all that is left of the fence."""

    def merge(self, repository: str, source: str, into: str, *, expected_head: Ref, **more: Any) -> Ref:
        self._give_way("merge")
        found = self._part.head(repository, into).ref
        ref: Ref = self._part.merge(repository, source, into, expected_head=found, **more)
        return ref

    def move_head(self, repository: str, branch: str, *, expected_head: Ref, **more: Any) -> Ref:
        self._give_way("move_head")
        found = self._part.head(repository, branch).ref
        ref: Ref = self._part.move_head(repository, branch, expected_head=found, **more)
        return ref

    def _give_way(self, call: str) -> None:
        turn = current_turn()
        assert turn is not None
        turn.give_way(f"lake.{call}")


class FencedEarly(Part):
    """The orchestrator is asked before the head is read, and not after."""

    def head(self, repository: str, branch: str) -> Any:
        turn = current_turn()
        assert isinstance(turn, AttemptTurn)
        turn.fenced_early = turn.orchestrator.current(turn.attempt.id)
        return self.__getattr__("head")(repository, branch)


class AnswersEarly(Part):
    def current(self, attempt: AttemptId) -> AttemptSnapshot:
        turn = current_turn()
        if isinstance(turn, AttemptTurn) and turn.fenced_early is not None:
            early, turn.fenced_early = turn.fenced_early, None
            assert isinstance(early, AttemptSnapshot)
            return early
        found: AttemptSnapshot = self.__getattr__("current")(attempt)
        return found


class NeverStale(Part):
    """Every attempt is told that it is current, until something is completed."""

    def current(self, attempt: AttemptId) -> AttemptSnapshot:
        found: AttemptSnapshot = self.__getattr__("current")(attempt)
        return found if found.status == "COMPLETED" else AttemptSnapshot(id=attempt, status="IN_PROGRESS")


class Impatient(Part):
    """Whoever has not been accepted yet never will be."""

    def fate(self, workflow: str, task_id: str, *, store: str) -> TaskFate:
        found: TaskFate = self.__getattr__("fate")(workflow, task_id, store=store)
        return TaskFate(state=TaskState.ENDED) if found.state is TaskState.RUNNING else found


ANY = {"replace_rule": Replace.ANY, "one_writer": True}
BROKEN = {
    "the lake does not look at the expected head": {"lake_part": SoftLake},
    "there is no attempt fence": {**ANY, "orchestrator_part": NeverStale},
    "what runs is taken for abandoned": {"orchestrator_part": Impatient},
}

VIOLATED = "is not on the branch|its author has not read|a parent that was never accepted"


@pytest.mark.parametrize("early", [True, False])
def test_the_head_is_read_before_the_fence_because_a_late_attempt_would_replace_an_accepted_one(early: bool) -> None:
    """Played by hand, since chance takes long to come by it."""
    parts = {"lake_part": FencedEarly, "orchestrator_part": AnswersEarly} if early else {}
    machine = broken("Played", **ANY, **parts)()
    machine.begin()
    machine.submit(writes=True)
    machine.go_on_until_before(0, "reading the head")
    machine.retry(0, writes=True)
    machine.finish(1)
    machine.the_branch_is_as_the_model_says()
    machine.finish(0)
    if early:
        with pytest.raises(AssertionError, match=VIOLATED):
            machine.the_branch_is_as_the_model_says()
    else:
        machine.the_branch_is_as_the_model_says()


@pytest.mark.parametrize("rule", BROKEN)
def test_the_machine_finds_a_runtime_in_which(rule: str) -> None:
    machine = broken("Broken", **BROKEN[rule])
    for _ in range(HUNTS):
        try:
            run_state_machine_as_test(machine, settings=HUNTING)
        except AssertionError as found:
            assert re.search(VIOLATED, str(found)), found  # noqa: PT017
            return
    pytest.fail(f"{HUNTS} hunts did not find it")
