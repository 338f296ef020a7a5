"""Attempts, retries, people and faults in any order, on the real parts, beside a small model.

An attempt is a thread that stands before its next call of the lake or the orchestrator. The model knows who wrote what
and who was promised what; it is compared with the branch after every step. Broken parts can be put in, to see that the
machine finds them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import BaseModel
from tests.simulation.scheduler import Turn, Watched, current_turn

from headgate.attempts import AttemptReport, Runtime, lake_opener, run_attempt
from headgate.attempts.names import parse
from headgate.errors import OutcomeUnknown, Transient
from headgate.lake import Changes, LakeCommit
from headgate.lake.interface import MAIN
from headgate.publication import CommitMetadata, Ref, Replace
from headgate.tasks import task, task_of
from headgate.tasks.protocols import PolledAttempt
from headgate.testing.place import Place, Target

MOST_ATTEMPTS = 6
DELICATE = {
    "reading the head": ("lake.head",),
    "publishing": ("lake.merge", "lake.move_head"),
    "completing": ("orchestrator.complete",),
    "cleaning up": ("lake.delete_branch",),
}
"""Before these an attempt has looked at the world and is about to act on what it saw."""
WRITES = st.sampled_from([True, True, True, False])


class Params(BaseModel):
    pass


class Nothing(BaseModel):
    pass


@task(name="in_the_machine", workspace="/")
def body(workspace: Path, params: Params) -> Nothing:
    """Writes a file nobody else writes, or nothing: no conflict of contents may stand in for a fence."""
    turn = current_turn()
    assert isinstance(turn, AttemptTurn)
    if turn.file is not None:
        (workspace / turn.file).write_text(turn.name)
    return Nothing()


TASK = task_of(body)


class AttemptTurn(Turn):
    """An attempt in its thread."""

    def __init__(self, name: str, attempt: PolledAttempt, runtime: Runtime, *, writes: bool) -> None:
        self.attempt = attempt
        self.file = f"{name}.txt" if writes else None
        self.loses: str | None = None
        self.report: AttemptReport | None = None
        self.orchestrator = runtime.orchestrator
        self.fenced_early: Any = None

        def work() -> None:
            self.report = run_attempt(runtime, TASK, attempt)

        super().__init__(name, work)

    @property
    def input_ref(self) -> Ref:
        return Ref(self.attempt.input["workspace"]["ref"])

    @property
    def task_id(self) -> str:
        return self.attempt.id.task_id


class Part(Watched):
    """A real part whose answers can be lost: before the call takes effect, or after."""

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._part, attribute)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            turn = current_turn()
            if not isinstance(turn, AttemptTurn):
                return found(*args, **kwargs)
            turn.give_way(f"{self._name}.{attribute}")
            lost, turn.loses = turn.loses, None
            if lost == "before":
                raise self._fault(attribute)
            answer = found(*args, **kwargs)
            if lost == "after":
                raise self._fault(attribute)
            return answer

        return call

    def _fault(self, attribute: str) -> Exception:
        said = f"the answer to {self._name}.{attribute} was lost"
        return OutcomeUnknown(message=said) if attribute in ("merge", "move_head") else Transient(message=said)


class Attempts(RuleBasedStateMachine):
    """The machine with sound parts."""

    replace_rule: ClassVar[Replace] = Replace.AUTO
    one_writer: ClassVar[bool] = False
    """Whether one workflow has the branch to itself, as `replace="any"` demands."""
    lake_part: ClassVar[type[Part]] = Part
    orchestrator_part: ClassVar[type[Part]] = Part
    real: ClassVar[Place]
    """One lake for all examples; each has a repository of its own. Set by the test."""

    @initialize()
    def begin(self) -> None:
        self.target: Target = self.real.new_target({"begun.txt": "as it began"})
        self.lake = self.lake_part(self.real.lake, "lake")
        self.orchestrator = self.orchestrator_part(self.real.orchestrator, "orchestrator")
        options = replace(self.real.runtime.options, replace=self.replace_rule)
        self.runtime = replace(
            self.real.runtime,
            orchestrator=self.orchestrator,
            stores={"workspace": lake_opener(lambda block: self.lake)},
            options=options,
            wait=lambda seconds: None,
        )
        self.turns: list[AttemptTurn] = []
        self.dead: list[AttemptTurn] = []
        self.workflows: list[str] = []
        # The model: what each commit must hold, whose commits are a person's, what was accepted for good.
        self.files: dict[Ref, set[str]] = {self.target.input_ref: {"begun.txt"}}
        self.persons: dict[Ref, str] = {}
        self.accepted: dict[str, Ref] = {}

    # what can happen
    @precondition(lambda self: len(self.turns) < MOST_ATTEMPTS and not (self.one_writer and self.workflows))
    @rule(writes=WRITES)
    def submit(self, writes: bool) -> None:
        """A workflow starts from the newest commit that somebody stands by."""
        sound = self.sound()
        start = next(commit.ref for commit in self.log() if commit.ref in sound)
        block = replace(self.target, input_ref=start)
        workflow = self.real.submit(TASK, block, Params())
        self.workflows.append(workflow)
        self._polled(workflow, writes=writes)

    @precondition(lambda self: self.workflows and len(self.turns) < MOST_ATTEMPTS)
    @rule(which=st.integers(0, 5), writes=WRITES)
    def retry(self, which: int, writes: bool) -> None:
        """A lease runs out, or a person retries, whether its worker is dead, late or nearly done."""
        workflow = self.workflows[which % len(self.workflows)]
        latest = self.real.orchestrator.tasks(workflow=workflow)[-1]
        if latest.status != "COMPLETED":
            self.real.orchestrator.retry(latest.id, reason="in the machine")
            self._polled(workflow, writes=writes)

    def _polled(self, workflow: str, *, writes: bool) -> None:
        attempt = self.real.poll(TASK, workflow)
        if attempt is not None:
            name = f"attempt-{len(self.turns)}"
            self.turns.append(AttemptTurn(name, attempt, self.runtime, writes=writes))

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 5), steps=st.integers(1, 8))
    def go_on(self, which: int, steps: int) -> None:
        turn = self.pick(which)
        for _ in range(steps):
            if not turn.ended:
                self.step(turn)

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 5), doing=st.sampled_from(sorted(DELICATE)))
    def go_on_until_before(self, which: int, doing: str) -> None:
        """Up to where being late matters."""
        turn = self.pick(which)
        self.step(turn)
        while not turn.ended and turn.at not in DELICATE[doing]:
            self.step(turn)

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 5))
    def finish(self, which: int) -> None:
        self.drain(self.pick(which))

    @precondition(lambda self: self.live() and len(self.dead) < 2)
    @rule(which=st.integers(0, 5))
    def die(self, which: int) -> None:
        """Its worker is never heard of again; until the very end, when it turns out to have been asleep."""
        self.dead.append(self.pick(which))

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 5), when=st.sampled_from(["before", "after"]))
    def lose_the_next_answer(self, which: int, when: str) -> None:
        turn = self.pick(which)
        turn.loses = when
        self.step(turn)

    @precondition(lambda self: self.turns and not self.one_writer and not self.persons)
    @rule()
    def a_person_commits(self) -> None:
        head = self.real.head(self.target)
        name = f"person-{len(self.persons)}.txt"
        ref = self.real.lake.commit(self.target.repository, MAIN, Changes(puts={name: b"by hand"}), message="by hand")
        self.persons[ref] = name
        assert self.real.lake.commit_at(self.target.repository, ref).parents == (head,)

    @rule()
    def collect_garbage(self) -> None:
        """Invariant 7: nothing goes whose attempt may still be accepted."""
        before = self.staged_by_running()
        self.real.collect_garbage(self.target)
        assert self.staged_by_running() == before

    # what must hold
    @invariant()
    def the_branch_is_as_the_model_says(self) -> None:
        """Invariants 1, 2 and 3."""
        history = self.log()
        refs = [commit.ref for commit in history]
        self.remember_accepted()
        sound = self.sound()
        assert sound <= set(refs), "an accepted ref, or a person's commit, is not on the branch"
        for commit in reversed(history[: refs.index(self.target.input_ref)]):
            self.check_commit(commit, sound)

    def check_commit(self, commit: LakeCommit, sound: set[Ref]) -> None:
        assert len(commit.parents) == 1, "a merge commit was published"
        [parent] = commit.parents
        if commit.ref in self.persons:
            added = self.persons[commit.ref]
        else:
            assert parent in sound, "something was published on a parent that was never accepted"
            author = self.author(commit)
            assert parent == author.input_ref, "something was published on a ref that its author has not read"
            assert author.file is not None, "an attempt that changed nothing made a commit"
            added = author.file
        if commit.ref not in self.files:
            found = {item.path for item in self.real.lake.objects(self.target.repository, commit.ref)}
            assert found == self.files[parent] | {added}, "a commit is not its parent and what its author wrote"
            self.files[commit.ref] = found

    def remember_accepted(self) -> None:
        for workflow in self.workflows:
            completed = [t for t in self.real.orchestrator.tasks(workflow=workflow) if t.status == "COMPLETED"]
            assert len(completed) <= 1, "two task ids of one workflow were accepted"
            for accepted in completed:
                assert accepted.output is not None
                ref = Ref(accepted.output["workspace"]["ref"])
                assert self.accepted.setdefault(workflow, ref) == ref, "an accepted ref was changed"
                if ref != accepted.input["workspace"]["ref"]:
                    author = self.author(self.real.lake.commit_at(self.target.repository, ref))
                    assert author.task_id == accepted.id, "an attempt was accepted with another one's publication"
        for turn in self.turns:
            if turn.report is not None and turn.report.ok:
                assert self.accepted[turn.attempt.id.workflow] == turn.report.published, "a success nobody accepted"

    def teardown(self) -> None:
        if not hasattr(self, "turns"):
            return
        try:
            for turn in self.live():
                self.drain(turn)
                self.the_branch_is_as_the_model_says()
            self.the_next_workflow_gets_through()
            self.real.collect_garbage(self.target)
            assert self.real.staging_branches(self.target) == []
        finally:
            for turn in self.turns:
                self.drain(turn)
        self.the_branch_is_as_the_model_says()

    def the_next_workflow_gets_through(self) -> None:
        """Whatever happened, work that starts from the newest sound commit is published on it and accepted."""
        for workflow in self.workflows:
            self.real.orchestrator.cancel(workflow, reason="the end")
        sound = self.sound()
        start = next(commit.ref for commit in self.log() if commit.ref in sound)
        workflow = self.real.submit(TASK, replace(self.target, input_ref=start), Params())
        self.workflows.append(workflow)
        self._polled(workflow, writes=True)
        last = self.turns[-1]
        self.drain(last)
        assert last.report is not None
        assert last.report.ok, last.report.reason
        assert self.real.lake.head(self.target.repository, MAIN).parents == (start,)

    # parts of it
    def live(self) -> list[AttemptTurn]:
        return [turn for turn in self.turns if not turn.ended and turn not in self.dead]

    def pick(self, which: int) -> AttemptTurn:
        live = self.live()
        return live[which % len(live)]

    def step(self, turn: AttemptTurn) -> None:
        turn.step()
        assert turn.error is None, turn.error

    def drain(self, turn: AttemptTurn) -> None:
        while not turn.ended:
            self.step(turn)

    def log(self) -> list[LakeCommit]:
        return list(self.real.lake.log(self.target.repository, self.real.head(self.target)))

    def sound(self) -> set[Ref]:
        """What was accepted, what a person committed, and where it all began."""
        return {*self.accepted.values(), *self.persons, self.target.input_ref}

    def author(self, commit: LakeCommit) -> AttemptTurn:
        metadata = CommitMetadata.from_map(commit.metadata)
        assert metadata is not None, "nobody knows who made a commit"
        [author] = [turn for turn in self.turns if turn.task_id == metadata.task_id]
        return author

    def staged_by_running(self) -> set[str]:
        """The staging branches of attempts whose task is in progress."""
        running = {found.id for found in self.real.orchestrator.tasks(running=True)}
        names = [(branch, parse(branch)) for branch in self.real.staging_branches(self.target)]
        return {branch for branch, name in names if name is not None and name.task_id in running}


def broken(name: str, **parts: Any) -> type[Attempts]:
    """A machine some of whose parts are not sound."""
    return type(name, (Attempts,), parts)
