"""What the expressions of a workflow may name: its input, and tasks that have run when the expression is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.errors import InvalidInput, Problem
from headgate.orchestrators.engine import expressions
from headgate.orchestrators.engine.steps import Fork, Loop, Simple, Step, Switch, WorkflowDefinition, every, inside
from headgate.tasks.declaring import nearest

OF_WORKFLOW = ("input", "workflowId", "workflowType", "version")
OF_TASK = ("input", "output", "status", "taskId")


def problems_of_references(definition: WorkflowDefinition) -> list[Problem]:
    """Every expression that cannot be read, or that names what is not there when it is needed."""
    everything = {step.reference for step in every(definition.steps)}
    problems: list[Problem] = []

    def check(value: Any, where: str, what: str, earlier: set[str]) -> None:
        for _, text in expressions.texts_in(value):
            problems.extend(_problems_of(text, where, what, earlier, everything))

    def walk(steps: tuple[Step, ...], earlier: set[str]) -> set[str]:
        for step in steps:
            match step:
                case Simple():
                    check(step.input, step.where, f"the input of {step.reference}", earlier)
                case Switch():
                    check(step.selector, step.where, f"the choice of {step.reference}", earlier)
                case Loop():
                    # A round of the loop may read what the one before it left.
                    own = earlier | {inner.reference for inner in every(step.body)}
                    check(step.input, step.where, f"the input of {step.reference}", own)
                    earlier = own
                case _:
                    pass
            here = earlier | ({step.reference} if not isinstance(step, Fork) else set())
            # Branches of a fork, and cases of a switch, do not see one another.
            ends = [walk(sequence, here) for sequence in inside(step)]
            earlier = here.union(*ends, {step.reference})
        return earlier

    after = walk(definition.steps, set())
    check(definition.output, definition.where, "the output of the workflow", after)
    return problems


def _problems_of(text: str, where: str, what: str, earlier: set[str], everything: set[str]) -> Iterator[Problem]:
    try:
        pieces = expressions.parse(text)
    except expressions.NotAnExpression as error:
        yield Problem(where, f"{what}: {error}", "write ${workflow.input.x} or ${ref.output.y}")
        return
    for piece in pieces:
        if isinstance(piece, str):
            continue
        first = piece.path[0] if piece.path else None
        if piece.root == "workflow":
            if first not in OF_WORKFLOW:
                yield Problem(where, f"{what}: {piece.text} is not supported", f"use {', '.join(OF_WORKFLOW)}")
        elif piece.root not in everything:
            yield Problem(where, f"{what}: {piece.text} names no task", nearest(piece.root, everything))
        elif piece.root not in earlier:
            yield Problem(where, f"{what}: {piece.text} names a task that has not run by then", "put it before")
        elif first not in OF_TASK:
            yield Problem(where, f"{what}: {piece.text} is not supported", f"use {', '.join(OF_TASK)}")


def complete_input(definition: WorkflowDefinition, given: Mapping[str, Any]) -> dict[str, Any]:
    """The input of a run: `given` over the template; `InvalidInput` for what is missing or too much."""
    whole = {**definition.input_template, **given}
    asked = {name for name, _ in _asked(definition)}
    problems = [
        Problem(where, f"the input has no {name!r}", "add it to --input")
        for name, where in dict(reversed(list(_asked(definition)))).items()
        if name not in whole
    ]
    declared = asked | set(definition.input_names) | set(definition.input_template)
    if not _takes_all(definition):
        problems += [
            Problem(f"input.{name}", "the workflow takes no such input", nearest(name, declared))
            for name in given
            if name not in declared
        ]
    if problems:
        raise InvalidInput(
            message=f"the input of the workflow {definition.name} is not valid",
            hint=f"it takes {', '.join(sorted(declared)) or 'nothing'}",
            problems=tuple(problems),
        )
    return whole


def _expressions(definition: WorkflowDefinition) -> Iterator[tuple[expressions.Expression, str]]:
    for step in every(definition.steps):
        match step:
            case Simple() | Loop():
                value: Any = step.input
            case Switch():
                value = step.selector
            case _:
                continue
        for _, text in expressions.texts_in(value):
            yield from ((piece, step.where) for piece in expressions.parse(text) if not isinstance(piece, str))
    for _, text in expressions.texts_in(definition.output):
        yield from ((piece, definition.where) for piece in expressions.parse(text) if not isinstance(piece, str))


def _asked(definition: WorkflowDefinition) -> Iterator[tuple[str, str]]:
    """The names of the input that expressions read, and where."""
    for expression, where in _expressions(definition):
        if expression.root == "workflow" and expression.path[0] == "input" and len(expression.path) > 1:
            yield str(expression.path[1]), where


def _takes_all(definition: WorkflowDefinition) -> bool:
    return any(found.root == "workflow" and found.path == ("input",) for found, _ in _expressions(definition))
