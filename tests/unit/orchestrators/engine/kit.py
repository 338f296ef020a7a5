"""Definitions in few words, and a machine that runs them with answers made up on the spot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headgate.orchestrators.engine.definitions import read_definition
from headgate.orchestrators.engine.rules import TaskRule
from headgate.orchestrators.engine.scheduler import End, Schedule, TaskView, WorkflowState, next_tasks

Raw = dict[str, Any]
Answer = Callable[[TaskView], tuple[str, Mapping[str, Any]]]


def simple(reference: str, *, name: str = "t", given: Mapping[str, Any] | None = None, **fields: Any) -> Raw:
    return {"name": name, "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": given or {}, **fields}


def switch(reference: str, value: Any, cases: Mapping[str, list[Raw]], default: list[Raw] | None = None) -> Raw:
    return {
        "name": reference,
        "taskReferenceName": reference,
        "type": "SWITCH",
        "inputParameters": {"by": value},
        "evaluatorType": "value-param",
        "expression": "by",
        "decisionCases": dict(cases),
        "defaultCase": default or [],
    }


def fork(reference: str, *branches: list[Raw], on: list[str] | None = None) -> list[Raw]:
    joined = on if on is not None else [branch[-1]["taskReferenceName"] for branch in branches if branch]
    return [
        {"name": reference, "taskReferenceName": reference, "type": "FORK_JOIN", "forkTasks": list(branches)},
        {"name": "join", "taskReferenceName": f"{reference}_join", "type": "JOIN", "joinOn": joined},
    ]


def loop(reference: str, body: list[Raw], condition: str, given: Mapping[str, Any] | None = None) -> Raw:
    return {
        "name": reference,
        "taskReferenceName": reference,
        "type": "DO_WHILE",
        "loopCondition": condition,
        "loopOver": body,
        "inputParameters": given or {},
    }


def workflow(*tasks: Raw, **fields: Any) -> Raw:
    return {"name": "w", "version": 1, "tasks": list(tasks), **fields}


class Machine:
    """Runs a workflow by the scheduler alone; `answer` is what each attempt ends with."""

    def __init__(
        self,
        raw: Raw,
        given: Mapping[str, Any] | None = None,
        *,
        answer: Answer,
        rules: Mapping[str, TaskRule] | None = None,
    ) -> None:
        self.definition, self.rules, self.answer = read_definition(raw), rules or {}, answer
        self.state = WorkflowState(workflow="wf", input=given or {})
        self.scheduled: list[Schedule] = []

    def decide(self) -> End | None:
        """Take the scheduler's decisions into the state; the end, if that is one."""
        decisions = next_tasks(self.definition, self.state, self.rules)
        for decision in decisions:
            if isinstance(decision, End):
                assert len(decisions) == 1
                return decision
            self.scheduled.append(decision)
            view = TaskView(
                id=f"task-{len(self.state.tasks) + 1}",
                reference=decision.reference,
                name=decision.name,
                status="SCHEDULED",
                iteration=decision.iteration,
                retry_count=decision.retry_count,
                retry_limit=decision.retry_limit,
                input=decision.input,
            )
            self.state = replace(self.state, tasks=[*self.state.tasks, view])
        return None

    def running(self) -> list[TaskView]:
        return [task for task in self.state.tasks if task.status == "SCHEDULED"]

    def finish(self, task: TaskView) -> None:
        status, output = self.answer(task)
        ended = replace(task, status=status, output=output, reason="" if status == "COMPLETED" else f"{status} here")
        self.state = replace(self.state, tasks=[ended if one.id == task.id else one for one in self.state.tasks])

    def run(self, pick: Callable[[list[TaskView]], TaskView] = lambda running: running[0]) -> End:
        for _ in range(1000):
            if (end := self.decide()) is not None:
                return end
            self.finish(pick(self.running()))
        raise AssertionError("it does not end")

    @property
    def order(self) -> list[str]:
        return [f"{one.reference}{f'#{one.iteration}' if one.iteration else ''}" for one in self.scheduled]


def completes(task: TaskView) -> tuple[str, Mapping[str, Any]]:
    return "COMPLETED", {"result": task.reference, "round": task.iteration}
