"""Reading a Conductor workflow definition: into steps, or into everything in it that this engine does not run.

A field the engine does not know is refused, not skipped: a workflow that loads does what it says. Fields that change
nothing about a run, and those at the value a server gives them by default, are taken as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.errors import Problem, Unsupported
from headgate.orchestrators.engine import conditions
from headgate.orchestrators.engine.files import Place, Where, by_path, read_file
from headgate.orchestrators.engine.references import problems_of_references
from headgate.orchestrators.engine.steps import Fork, Join, Loop, Simple, Step, Switch, WorkflowDefinition, every, heads
from headgate.tasks.declaring import nearest

_TOLD = frozenset({"description", "ownerEmail", "ownerApp", "createTime", "updateTime", "createdBy", "updatedBy"})
_WORKFLOW = {
    *("name", "version", "tasks", "inputParameters", "inputTemplate", "outputParameters", "timeoutSeconds"),
    *("timeoutPolicy", "schemaVersion", "restartable", "workflowStatusListenerEnabled", "enforceSchema", "metadata"),
}
_COMMON = {"name", "taskReferenceName", "type", "inputParameters", "optional"}
_OWN: dict[str, set[str]] = {
    "SIMPLE": {"retryCount", "startDelay"},
    "SWITCH": {"evaluatorType", "expression", "decisionCases", "defaultCase"},
    "FORK_JOIN": {"forkTasks"},
    "JOIN": {"joinOn"},
    "DO_WHILE": {"loopCondition", "loopOver"},
}
_INSTEAD = {
    "DECISION": "use SWITCH with evaluatorType value-param",
    "FORK_JOIN_DYNAMIC": "write the branches as a FORK_JOIN",
    "EXCLUSIVE_JOIN": "use SWITCH before, or a JOIN",
    "SUB_WORKFLOW": "write its tasks in this workflow",
}


def read_workflow(path: Path, *, tasks: Collection[str] | None = None) -> tuple[WorkflowDefinition, dict[str, Any]]:
    """The workflow of a file, and the definition as it is written there."""
    raw, where = read_file(path)
    return read_definition(raw, where=where, tasks=tasks), raw


def read_definition(raw: Any, *, where: Where = by_path, tasks: Collection[str] | None = None) -> WorkflowDefinition:
    """The workflow of a definition; `Unsupported` with all that keeps it from being run.

    `tasks` are the names of those that can be run here; without it any name will do.
    """
    reader = _Reader(where, tasks)
    definition = reader.workflow(raw)
    if definition is not None and not reader.problems:
        reader.problems += problems_of_references(definition)
    if definition is None or reader.problems:
        count = len(reader.problems)
        raise Unsupported(
            message=f"the workflow {reader.name} cannot be run here: {count} problem{'s' if count > 1 else ''}",
            hint="change the definition, or run it on a Conductor server",
            problems=tuple(reader.problems),
        )
    return definition


def _joined(steps: list[Step]) -> Iterator[Step]:
    """The steps, each join told what its fork begins with."""
    for before, step in zip([None, *steps], steps, strict=False):
        if isinstance(step, Join) and isinstance(before, Fork):
            begun = tuple(reference for branch in before.branches for reference in heads(branch))
            yield replace(step, begun_with=begun)
        else:
            yield step


class _Reader:
    def __init__(self, where: Where, tasks: Collection[str] | None) -> None:
        self.where, self.tasks, self.name = where, tasks, ""
        self.problems: list[Problem] = []
        self.references: dict[str, str] = {}

    def refuse(self, place: Place, message: str, fix: str = "") -> None:
        self.problems.append(Problem(self.where(place), message, fix))

    # the workflow
    def workflow(self, raw: Any) -> WorkflowDefinition | None:
        if not isinstance(raw, Mapping):
            self.refuse((), "it is not a map", "write name and tasks")
            return None
        self.name = str(raw.get("name") or "without a name")
        if not isinstance(raw.get("name"), str) or not raw["name"]:
            self.refuse(("name",), "the workflow has no name", "add name")
        self._fields(raw, _WORKFLOW, (), "the workflow")
        policy, timeout = raw.get("timeoutPolicy", "TIME_OUT_WF"), self._number(raw, "timeoutSeconds", ())
        if policy not in ("TIME_OUT_WF", "ALERT_ONLY"):
            self.refuse(("timeoutPolicy",), f"there is no timeoutPolicy {policy!r} of a workflow", "TIME_OUT_WF")
        steps = self._sequence(raw.get("tasks"), ("tasks",), in_loop=False)
        if not raw.get("tasks"):
            self.refuse(("tasks",), "the workflow has no tasks", "add tasks")
        return WorkflowDefinition(
            name=self.name,
            version=int(self._number(raw, "version", (), default=1)),
            steps=steps,
            input_names=tuple(str(name) for name in self._list(raw, "inputParameters", ())),
            input_template=self._map(raw, "inputTemplate", ()),
            output=self._map(raw, "outputParameters", ()),
            timeout_seconds=timeout if policy == "TIME_OUT_WF" else 0.0,
            where=self.where(()),
        )

    # tasks
    def _sequence(self, raw: Any, place: Place, *, in_loop: bool) -> tuple[Step, ...]:
        if raw is None:
            return ()
        if not isinstance(raw, list):
            self.refuse(place, "it is not a list of tasks", "write a list")
            return ()
        steps = [
            step for index, one in enumerate(raw) if (step := self._step(one, (*place, index), in_loop)) is not None
        ]
        self._check_joins(steps)
        return tuple(_joined(steps))

    def _step(self, raw: Any, place: Place, in_loop: bool) -> Step | None:
        if not isinstance(raw, Mapping):
            self.refuse(place, "a task is not a map", "write name, taskReferenceName and type")
            return None
        kind = raw.get("type", "SIMPLE")
        reference = raw.get("taskReferenceName")
        if kind not in _OWN:
            known = ", ".join(_OWN)
            self.refuse((*place, "type"), f"the task type {kind} is not supported", _INSTEAD.get(kind, f"use {known}"))
            return None
        if not isinstance(reference, str) or not reference:
            self.refuse(place, "a task has no taskReferenceName", "add one that no other task has")
            return None
        if reference in self.references or reference == "workflow":
            fix = f"the other one is at {self.references.get(reference, 'the workflow itself')}: rename one"
            self.refuse((*place, "taskReferenceName"), f"two tasks have the reference {reference!r}", fix)
            return None
        self.references[reference] = self.where(place)
        self._fields(raw, _COMMON | _OWN[kind], place, f"the {kind} task {reference}")
        if kind != "SIMPLE" and raw.get("optional"):
            self.refuse((*place, "optional"), f"optional is not supported on {kind}", "make the tasks in it optional")
        at = {"reference": reference, "where": self.where(place)}
        match kind:
            case "SIMPLE":
                return self._simple(raw, place, at)
            case "SWITCH":
                return self._switch(raw, place, at, in_loop)
            case "FORK_JOIN":
                branches = self._list(raw, "forkTasks", place)
                if not branches:
                    self.refuse(place, f"the fork {reference} has no branches", "add forkTasks")
                sequences = (
                    self._sequence(branch, (*place, "forkTasks", index), in_loop=in_loop)
                    for index, branch in enumerate(branches)
                )
                return Fork(branches=tuple(sequences), **at)
            case "JOIN":
                joined = tuple(map(str, self._list(raw, "joinOn", place)))
                return Join(join_on=joined, begun_with=(), **at)
            case _:
                return self._loop(raw, place, at, in_loop)

    def _simple(self, raw: Mapping[str, Any], place: Place, at: dict[str, str]) -> Simple | None:
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            self.refuse(place, f"the task {at['reference']} has no name", "add the name of a task")
            return None
        if self.tasks is not None and name not in self.tasks:
            self.refuse((*place, "name"), f"there is no task {name!r} here", nearest(name, self.tasks))
        return Simple(
            name=name,
            input=self._map(raw, "inputParameters", place),
            optional=bool(raw.get("optional", False)),
            retries=int(self._number(raw, "retryCount", place)) if raw.get("retryCount") is not None else None,
            start_delay=self._number(raw, "startDelay", place),
            **at,
        )

    def _switch(self, raw: Mapping[str, Any], place: Place, at: dict[str, str], in_loop: bool) -> Switch:
        kind, named = raw.get("evaluatorType"), raw.get("expression")
        given = self._map(raw, "inputParameters", place)
        if kind != "value-param":
            fix = "use value-param, and name the input parameter in expression"
            self.refuse(
                (*place, "evaluatorType"), f"the evaluatorType {kind!r} of {at['reference']} is not supported", fix
            )
        elif named not in given:
            self.refuse((*place, "expression"), f"{at['reference']} chooses by {named!r}, which is no input parameter")
        cases = self._map(raw, "decisionCases", place)
        return Switch(
            selector=given.get(str(named)),
            cases={
                str(case): self._sequence(steps, (*place, "decisionCases", str(case)), in_loop=in_loop)
                for case, steps in cases.items()
            },
            default=self._sequence(raw.get("defaultCase"), (*place, "defaultCase"), in_loop=in_loop),
            **at,
        )

    def _loop(self, raw: Mapping[str, Any], place: Place, at: dict[str, str], in_loop: bool) -> Loop | None:
        if in_loop:
            self.refuse(place, f"the loop {at['reference']} is inside another one, which is not supported")
        body = self._sequence(raw.get("loopOver"), (*place, "loopOver"), in_loop=True)
        if not any(isinstance(step, Simple) for step in every(body)):
            self.refuse(place, f"the loop {at['reference']} runs no task", "put a task in loopOver")
        try:
            condition = conditions.parse(str(raw.get("loopCondition", "")))
        except conditions.NotACondition as error:
            self.refuse((*place, "loopCondition"), f"the condition of {at['reference']} is not supported: {error}")
            return None
        given = self._map(raw, "inputParameters", place)
        known = {at["reference"], *given, *(step.reference for step in every(body))}
        for root in sorted(condition.roots - known):
            message = f"the condition of {at['reference']} names {root!r}, which is no task in the loop and no input"
            self.refuse((*place, "loopCondition"), message, nearest(root, known))
        return Loop(body=body, condition=condition, input=given, **at)

    def _check_joins(self, steps: list[Step]) -> None:
        for before, step, after in zip([None, *steps], steps, [*steps[1:], None], strict=False):
            if isinstance(step, Fork) and not isinstance(after, Join):
                self._refuse_step(
                    step, f"the fork {step.reference} has no JOIN after it", "add a JOIN as the next task"
                )
            if not isinstance(step, Join):
                continue
            if not isinstance(before, Fork):
                self._refuse_step(step, f"the JOIN {step.reference} has no FORK_JOIN before it")
                continue
            held = [one.reference for branch in before.branches for one in every(branch)]
            if not step.join_on:
                self._refuse_step(step, f"the JOIN {step.reference} waits for nothing", "add joinOn")
            for reference in step.join_on:
                if reference not in held:
                    message = f"the JOIN {step.reference} waits for {reference!r}, which is not in its fork"
                    self._refuse_step(step, message, nearest(reference, held))

    def _refuse_step(self, step: Step, message: str, fix: str = "") -> None:
        self.problems.append(Problem(step.where, message, fix))

    # fields
    def _fields(self, raw: Mapping[str, Any], known: set[str], place: Place, what: str) -> None:
        for field, value in raw.items():
            # A server writes the fields a task does not use as null, false, zero or empty.
            if field not in known and field not in _TOLD and value not in (None, False, 0, "", [], {}):
                self.refuse((*place, str(field)), f"{field} of {what} is not supported", nearest(str(field), known))

    def _map(self, raw: Mapping[str, Any], field: str, place: Place) -> dict[str, Any]:
        value = raw.get(field)
        if value is not None and not isinstance(value, Mapping):
            self.refuse((*place, field), f"{field} is not a map")
            return {}
        return dict(value or {})

    def _list(self, raw: Mapping[str, Any], field: str, place: Place) -> list[Any]:
        value = raw.get(field)
        if value is not None and not isinstance(value, list):
            self.refuse((*place, field), f"{field} is not a list")
            return []
        return list(value or [])

    def _number(self, raw: Mapping[str, Any], field: str, place: Place, *, default: float = 0) -> float:
        value = raw.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            self.refuse((*place, field), f"{field} is {value!r}, which is no number of 0 or more")
            return default
        return value
