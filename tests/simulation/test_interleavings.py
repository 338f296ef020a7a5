"""Attempts that race on the embedded parts, in every order that hundreds of seeds make.

The properties are those of the model, checked after every single step, on the real lifecycle, lake and orchestrator:
retries overtake attempts that are still at work, workers die anywhere, a person commits in between. A failure names
its seed; `HEADGATE_SIMULATION_SEED=N` runs that one alone, and `HEADGATE_SIMULATIONS=N` runs more of them.
"""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.scheduler import Turn, Watched
from tests.unit.attempts.kit import Kit, Params, Result, declared

from headgate.attempts.lake_store import lake_opener
from headgate.attempts.lifecycle import run_attempt
from headgate.publication import Ref
from headgate.tasks.protocols import PolledAttempt

pytestmark = pytest.mark.slow

BATCHES = 10
MOST_ATTEMPTS = 6
# Calls before which an attempt has looked at the world and is about to act on what it saw.
DELICATE = {"lake.merge", "lake.move_head", "lake.head", "orchestrator.current", "orchestrator.complete"}

_body = threading.local()


def perhaps(workspace: Path, params: Params) -> Result:
    """Writes a file nobody else writes, or nothing: so no conflict of contents stands in for a fence."""
    if _body.chance.random() < 0.7:
        (workspace / f"{_body.chance.random()}.txt").write_text(params.text)
    return Result(files=0)


PERHAPS = declared(perhaps)


class SoftLake(Watched):
    """A lake that expects whatever head it finds: the client's look at the head is all that is left of the fence."""

    def merge(self, repository: str, source: str, into: str, *, expected_head: Ref, **more: Any) -> Ref:
        del expected_head
        found = self.__getattr__("head")(repository, into).ref
        merged: Ref = self.__getattr__("merge")(repository, source, into, expected_head=found, **more)
        return merged


@dataclass
class World:
    """One branch, some workflows on it, and what has been promised to whom."""

    kit: Kit
    chance: random.Random
    lake: Watched
    watched: Kit = field(init=False)
    turns: list[Turn] = field(default_factory=list)
    known: set[Turn] = field(default_factory=set)
    workflow_of: dict[Turn, str] = field(default_factory=dict)
    person: set[Ref] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watched = self.kit.with_parts(
            orchestrator=Watched(self.kit.orchestrator, "orchestrator"),
            stores={"workspace": lake_opener(lambda block: self.lake)},
        )

    # what can happen next
    def submit(self) -> None:
        """A workflow starts from the newest commit that somebody stands by."""
        sound = self.sound()
        start = next(
            commit.ref for commit in self.kit.lake.log(self.kit.repository, self.kit.head()) if commit.ref in sound
        )
        self._begin(self.kit.submit(PERHAPS, start, text=f"attempt {len(self.turns)}"))

    def something_happens(self, turn: Turn) -> None:
        """While this attempt is late: its task is retried, a person commits, another workflow starts; or nothing."""
        dice = self.chance.random()
        if len(self.turns) >= MOST_ATTEMPTS or dice > 0.8:
            return
        if dice < 0.6:
            self.retry(self.workflow_of[turn])
        elif dice < 0.65:
            self.person_commits()
        else:
            self.submit()

    def retry(self, workflow: str) -> None:
        """The lease of a task runs out, or a person retries it, while its worker may still be at work."""
        latest = self.kit.orchestrator.tasks(workflow=workflow)[-1]
        if latest.status == "COMPLETED":
            return
        self.kit.orchestrator.retry(latest.id, reason="in the simulation")
        if (attempt := self.kit.orchestrator.poll(PERHAPS.name, workflow=workflow)) is not None:
            self._begin(attempt)

    def _begin(self, attempt: PolledAttempt) -> None:
        name = f"attempt {len(self.turns)}"
        seed = self.chance.random()

        def work() -> None:
            _body.chance = random.Random(seed)
            run_attempt(self.watched.runtime, PERHAPS, attempt)

        turn = Turn(name, work)
        self.turns.append(turn)
        self.workflow_of[turn] = attempt.id.workflow
        self.steps.append(f"{name} of workflow {attempt.id.workflow} begins")

    def person_commits(self) -> None:
        ref = self.kit.somebody_commits(f"commit {len(self.person)}")
        self.person.add(ref)
        self.steps.append(f"a person commits {ref}")

    def advance(self, turn: Turn) -> None:
        self.steps.append(f"{turn.name}: {turn.at}")
        turn.step()
        assert turn.error is None, turn.error

    # what must hold
    def sound(self) -> set[Ref]:
        """What was accepted, what a person committed, and where it all began."""
        tasks = [task for task in self.kit.orchestrator.tasks() if task.status == "COMPLETED"]
        accepted = {Ref(task.output["workspace"]["ref"]) for task in tasks if task.output}
        return accepted | self.person | {self.kit.input_ref}

    def check(self) -> None:
        history = list(self.kit.lake.log(self.kit.repository, self.kit.head()))
        refs = [commit.ref for commit in history]
        sound = self.sound()
        assert sound <= set(refs), "an accepted ref, or a person's commit, is not on the branch"
        for commit in history[: refs.index(self.kit.input_ref)]:
            assert len(commit.parents) == 1, "a merge commit was published"
            if commit.ref not in self.person:
                assert commit.parents[0] in sound, "a commit was published on a parent that was never accepted"


def _play(folder: Path, seed: int, lake: type[Watched] = Watched) -> World:
    """One run: the turn in front goes on until chance puts it last, most likely where being late matters most.

    What is put last is often retried, as an orchestrator does with what it has not heard of for long.
    """
    chance = random.Random(seed)
    folder.mkdir()
    kit = Kit.make(folder)
    world = World(kit, chance, lake(kit.lake, "lake"))
    try:
        world.submit()
        waiting = list(world.turns)
        world.known.update(waiting)
        while waiting:
            turn = waiting[0]
            if chance.random() < (0.3 if turn.at in DELICATE else 0.04):
                waiting.append(waiting.pop(0))
                world.something_happens(turn)
            elif chance.random() < 0.01:
                waiting.pop(0)  # its worker is dead: it is never heard of again
                world.steps.append(f"{turn.name} dies at {turn.at}")
                world.something_happens(turn)
            else:
                world.advance(turn)
            world.check()
            fresh = [turn for turn in world.turns if turn not in world.known]
            world.known.update(fresh)
            waiting = [turn for turn in fresh + waiting if not turn.ended]
        return world
    finally:
        for turn in world.turns:
            while not turn.ended:
                turn.step()
        kit.close()


def _seeds(batch: int) -> list[int]:
    if one := os.environ.get("HEADGATE_SIMULATION_SEED"):
        return [int(one)] if batch == 0 else []
    each = int(os.environ.get("HEADGATE_SIMULATIONS", "100")) // BATCHES
    return [batch * 100_000 + number for number in range(each)]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_invariants_1_2_and_3_hold_after_every_step_of_attempts_that_race(batch: int, tmp_path: Path) -> None:
    for seed in _seeds(batch):
        try:
            _play(tmp_path / str(seed), seed)
        except AssertionError as problem:
            raise AssertionError(f"HEADGATE_SIMULATION_SEED={seed}: {problem}") from problem


def test_the_simulation_finds_a_lake_whose_fence_is_soft(tmp_path: Path) -> None:
    found = []
    for seed in range(200):
        try:
            _play(tmp_path / str(seed), seed, lake=SoftLake)
        except AssertionError as problem:
            found.append(str(problem))
            break
    assert found
