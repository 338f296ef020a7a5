"""What comes next in a workflow, from its definition and state alone.

Nothing but the attempts of tasks is kept: what a switch chose, how far a loop is and whether a join waits follow from
them, each time anew and each time the same. Hence there is no half-done step to find after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from headgate.errors import OrchestratorStatus
from headgate.orchestrators.engine.expressions import as_text, resolve
from headgate.orchestrators.engine.rules import TaskRule, target_of
from headgate.orchestrators.engine.steps import Fork, Join, Loop, Simple, Step, Switch, WorkflowDefinition, every

SCHEDULED, IN_PROGRESS, CANCELED, TIMED_OUT = "SCHEDULED", "IN_PROGRESS", "CANCELED", "TIMED_OUT"
COMPLETED, FAILED, TERMINAL = OrchestratorStatus.COMPLETED, OrchestratorStatus.FAILED, OrchestratorStatus.TERMINAL
COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
WAITING = "WAITING"
RUNNING_STATES = (SCHEDULED, IN_PROGRESS)


@dataclass(frozen=True, kw_only=True)
class TaskView:
    """One attempt at a task, as the state has it."""

    id: str
    reference: str
    name: str
    status: str
    iteration: int = 0
    retry_count: int = 0
    retry_limit: int = 0
    input: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    out_of_time: bool = False
    """All attempts at it together have used up their time: it is not handed out again."""


@dataclass(frozen=True, kw_only=True)
class WorkflowState:
    """A workflow that runs: its input, and all attempts in the order they were scheduled."""

    workflow: str
    input: Mapping[str, Any]
    tasks: Sequence[TaskView] = ()


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Hand a task out, for the first time or again."""

    reference: str
    name: str
    input: Mapping[str, Any]
    iteration: int = 0
    retry_of: str | None = None
    retry_count: int = 0
    retry_limit: int = 0
    after_seconds: float = 0.0
    target: str | None = None
    """The store and branch it publishes to."""


@dataclass(frozen=True, kw_only=True)
class End:
    """The workflow is over."""

    status: str
    reason: str = ""
    output: Mapping[str, Any] = field(default_factory=dict)


Decision: TypeAlias = Schedule | End


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of a workflow's tree, as far as it has come."""

    depth: int
    reference: str
    kind: str
    name: str
    iteration: int
    status: str
    task: TaskView | None = None


def next_tasks(
    definition: WorkflowDefinition, state: WorkflowState, rules: Mapping[str, TaskRule] | None = None
) -> list[Decision]:
    """What is to be done now: tasks to hand out, or the end of the workflow; nothing while it waits for attempts."""
    walk = _Walk(definition, state, rules or {})
    try:
        done = walk.sequence(definition.steps, iteration=0, depth=0)
    except _Over as over:
        return [replace(over.end, output=walk.output())]
    if walk.decisions or walk.pending:
        return list(walk.decisions)
    if done:
        return [End(status=COMPLETED, output=walk.output())]
    reason = "nothing runs, and nothing is left that could"
    return [End(status=FAILED, reason=reason, output=walk.output())]


def output_so_far(
    definition: WorkflowDefinition, state: WorkflowState, rules: Mapping[str, TaskRule] | None = None
) -> Mapping[str, Any]:
    """The output of a workflow that ends here, for whatever reason."""
    walk = _Walk(definition, state, rules or {})
    with suppress(_Over):
        walk.sequence(definition.steps, iteration=0, depth=0)
    return walk.output()


def outline(
    definition: WorkflowDefinition, state: WorkflowState, rules: Mapping[str, TaskRule] | None = None
) -> list[Entry]:
    """The tree of a workflow as far as it has come, for people."""
    walk = _Walk(definition, state, rules or {})
    with suppress(_Over):
        walk.sequence(definition.steps, iteration=0, depth=0)
    return walk.entries


class _Over(Exception):
    def __init__(self, end: End) -> None:
        self.end = end


class _Walk:
    """Goes through the steps as far as the state allows."""

    def __init__(self, definition: WorkflowDefinition, state: WorkflowState, rules: Mapping[str, TaskRule]) -> None:
        self.definition, self.state, self.rules = definition, state, rules
        self.latest = {(task.reference, task.iteration): task for task in state.tasks}
        self.places = {task.id: place for place, task in enumerate(state.tasks)}
        self.first_places: dict[tuple[str, int], int] = {}
        for place, task in enumerate(state.tasks):
            self.first_places.setdefault((task.reference, task.iteration), place)
        running = [task for task in state.tasks if task.status in RUNNING_STATES]
        self.targets = {target_of(self._rule(task.name), task.input): task.reference for task in running}
        self.known: dict[str, Any] = {
            "workflow": {
                "input": state.input,
                "workflowId": state.workflow,
                "workflowType": definition.name,
                "version": definition.version,
            }
        }
        self.done: set[tuple[str, int]] = set()
        self.pending = 0
        self.decisions: list[Schedule] = []
        self.entries: list[Entry] = []
        self.last: tuple[float, Mapping[str, Any]] = (-1, {})

    def output(self) -> Mapping[str, Any]:
        """As the definition says; else the output of what was scheduled last."""
        if not self.definition.output:
            return self.last[1]
        # What a failure kept the walk from reaching has an output all the same.
        known = {task.reference: self.facts(task, task.status) for task in self.state.tasks} | self.known
        resolved = resolve(dict(self.definition.output), known)
        assert isinstance(resolved, dict)
        return resolved

    def scheduled(self, place: float, output: Mapping[str, Any]) -> None:
        """Note what was scheduled at a place in the order: the last of all is the output if the workflow names none."""
        if place >= self.last[0]:
            self.last = place, output

    def sequence(self, steps: Sequence[Step], *, iteration: int, depth: int) -> bool:
        """Whether all of them are done; what can be handed out now has become a decision."""
        return all(self.step(step, iteration, depth) for step in steps)

    def step(self, step: Step, iteration: int, depth: int) -> bool:
        match step:
            case Simple():
                done = self.simple(step, iteration, depth)
            case Switch():
                done = self.switch(step, iteration, depth)
            case Fork():
                self.enter(step, "FORK_JOIN", iteration, depth, COMPLETED)
                self.learn(step, {})
                for branch in step.branches:
                    self.sequence(branch, iteration=iteration, depth=depth + 1)
                done = True  # the JOIN after it says what is waited for
            case Join():
                done = all((reference, iteration) in self.done for reference in step.join_on)
                self.enter(step, "JOIN", iteration, depth, COMPLETED if done else WAITING)
                self.join(step, iteration, done=done)
            case Loop():
                done = self.loop(step, depth)
        if done:
            self.done.add((step.reference, iteration))
        return done

    def simple(self, step: Simple, iteration: int, depth: int) -> bool:
        task = self.latest.get((step.reference, iteration))
        if task is None:
            given = resolve(dict(step.input), self.known)
            limit = self._rule(step.name).count if step.retries is None else step.retries
            self.schedule(
                Schedule(
                    reference=step.reference,
                    name=step.name,
                    input=given,
                    iteration=iteration,
                    retry_limit=limit,
                    after_seconds=step.start_delay,
                )
            )
            self.enter(step, "SIMPLE", iteration, depth, SCHEDULED)
            return False
        self.scheduled(self.places[task.id], task.output)
        gave_up = task.status == TERMINAL or task.retry_count >= task.retry_limit or task.out_of_time
        failed = task.status in (FAILED, TERMINAL, TIMED_OUT)
        status = COMPLETED_WITH_ERRORS if failed and gave_up and step.optional else task.status
        self.entries.append(
            Entry(
                depth=depth,
                reference=step.reference,
                kind="SIMPLE",
                name=step.name,
                iteration=iteration,
                status=status,
                task=task,
            )
        )
        if task.status in RUNNING_STATES:
            self.pending += 1
            return False
        if failed and not gave_up:
            self.retry(task)
            return False
        if status not in (COMPLETED, COMPLETED_WITH_ERRORS):
            how = TIMED_OUT if task.status == TIMED_OUT else FAILED
            raise _Over(End(status=how, reason=f"{step.reference}: {task.reason or task.status}"))
        self.known[step.reference] = self.facts(task, status)
        return True

    @staticmethod
    def facts(task: TaskView, status: str) -> dict[str, Any]:
        return {"input": task.input, "output": task.output, "status": status, "taskId": task.id}

    def join(self, step: Join, iteration: int, *, done: bool) -> None:
        """A join is scheduled with its fork, right after what the branches begin with; it leaves empty outputs out."""
        suffix = f"__{iteration}" if iteration else ""
        outputs = {one: self.known[one]["output"] for one in step.join_on if (one, iteration) in self.done}
        joined = {f"{one}{suffix}": output for one, output in outputs.items() if output}
        begun = [self.first_places.get((reference, iteration), -1) for reference in step.begun_with]
        self.scheduled(max(begun, default=-1) + 0.5, joined if done else {})
        if done:
            self.learn(step, joined)

    def retry(self, task: TaskView) -> None:
        self.schedule(
            Schedule(
                reference=task.reference,
                name=task.name,
                input=task.input,
                iteration=task.iteration,
                retry_of=task.id,
                retry_count=task.retry_count + 1,
                retry_limit=task.retry_limit,
                after_seconds=self._rule(task.name).wait_before_retry(task.retry_count),
            )
        )

    def schedule(self, decision: Schedule) -> None:
        target = target_of(self._rule(decision.name), decision.input)
        other = self.targets.get(target) if target is not None else None
        if other is not None:
            reason = f"{decision.reference} would write {target} while {other} does: writes to one branch are serial"
            raise _Over(End(status=FAILED, reason=reason))
        if target is not None:
            self.targets[target] = decision.reference
        self.decisions.append(replace(decision, target=target))

    def switch(self, step: Switch, iteration: int, depth: int) -> bool:
        chosen = as_text(resolve(step.selector, self.known))
        self.enter(step, "SWITCH", iteration, depth, f"-> {chosen if step.cases.get(chosen) else 'default'}")
        self.learn(step, {"evaluationResult": [chosen], "selectedCase": chosen})
        self.scheduled(int(self.last[0]) + 0.5, self.known[step.reference]["output"])
        return self.sequence(step.cases.get(chosen) or step.default, iteration=iteration, depth=depth + 1)

    def loop(self, step: Loop, depth: int) -> bool:
        rounds: dict[str, Any] = {}
        iteration = 0
        while True:
            iteration += 1
            seen = len(self.entries)
            self.enter(step, "DO_WHILE", iteration, depth, f"round {iteration}")
            self.learn(step, {**rounds, "iteration": iteration}, status=IN_PROGRESS)
            pending, decided = self.pending, len(self.decisions)
            done = self.sequence(step.body, iteration=iteration, depth=depth + 1)
            if not done or self.pending > pending or len(self.decisions) > decided:
                return False
            inner = self.entries[seen + 1 :]
            rounds[str(iteration)] = {entry.reference: self.known[entry.reference]["output"] for entry in inner}
            self.learn(step, {**rounds, "iteration": iteration})
            variables = resolve(dict(step.input), self.known)
            own = (inner.reference for inner in every((step,)) if inner.reference in self.known)
            variables |= {reference: self.known[reference]["output"] for reference in own}
            if not step.condition.holds(variables):
                return True
            if not any(entry.task is not None for entry in inner):
                reason = f"the loop {step.reference} ran no task in round {iteration}, and would go on for ever"
                raise _Over(End(status=FAILED, reason=reason))

    def enter(self, step: Step, kind: str, iteration: int, depth: int, status: str) -> None:
        self.entries.append(
            Entry(depth=depth, reference=step.reference, kind=kind, name=kind, iteration=iteration, status=status)
        )

    def learn(self, step: Step, output: Mapping[str, Any], status: str = COMPLETED) -> None:
        self.known[step.reference] = {"input": {}, "output": output, "status": status, "taskId": None}

    def _rule(self, name: str) -> TaskRule:
        return self.rules.get(name) or _NO_RULE


_NO_RULE = TaskRule(count=0)
