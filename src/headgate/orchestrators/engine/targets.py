"""Which store branches a workflow writes, as far as that can be told before it runs.

Writes to one branch are serial. Two branches of a fork may both write only if what they write is known and different;
what comes from an expression that cannot be followed counts as anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from headgate.errors import InvalidInput, Problem
from headgate.orchestrators.engine import expressions
from headgate.orchestrators.engine.rules import TaskRule, target_in
from headgate.orchestrators.engine.steps import Fork, Simple, WorkflowDefinition, every


def check_targets(definition: WorkflowDefinition, rules: Mapping[str, TaskRule], given: Mapping[str, Any]) -> set[str]:
    """The targets that are known before the run; `InvalidInput` where a fork may write one of them twice at a time."""
    known = {step.reference: step for step in definition.simple}
    workflow = {"workflow": {"input": given}}

    def writes(step: Simple) -> bool:
        return step.name in rules and rules[step.name].writes is not None

    def target(step: Simple) -> str | None:
        kind = rules[step.name].writes
        assert kind is not None
        return target_in(kind, _block(step.input.get(kind), kind, known, workflow))

    problems = [
        Problem(fork.where, *_told(fork, one, other, target(one), target(other)))
        for fork in every(definition.steps)
        if isinstance(fork, Fork)
        for first, second in combinations(fork.branches, 2)
        for one, other in _pairs(first, second)
        if writes(one) and writes(other) and not _different(target(one), target(other))
    ]
    if problems:
        raise InvalidInput(
            message=f"branches of a fork of {definition.name} may write one store branch at the same time",
            hint="write in one branch of the fork only, or to branches that the input tells apart; merge them after it",
            problems=tuple(problems),
        )
    return {found for step in definition.simple if writes(step) and (found := target(step)) is not None}


def _pairs(first: Any, second: Any) -> Iterator[tuple[Simple, Simple]]:
    for one in every(first):
        for other in every(second):
            if isinstance(one, Simple) and isinstance(other, Simple):
                yield one, other


def _different(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _told(fork: Fork, one: Simple, other: Simple, target: str | None, second: str | None) -> tuple[str, str]:
    both = f"{one.reference} and {other.reference} run at the same time in {fork.reference}"
    if target is not None and target == second:
        return f"{both}, and both write {target}", ""
    unknown = one.reference if target is None else other.reference
    return f"{both}, and what {unknown} writes is not known before the run", ""


def _block(value: Any, kind: str, known: Mapping[str, Simple], workflow: Mapping[str, Any], hops: int = 100) -> Any:
    """A store's input block with all that can be known of it; None for what cannot."""
    if isinstance(value, Mapping):
        return {key: _block(inner, kind, known, workflow, hops) for key, inner in value.items()}
    if not isinstance(value, str):
        return value
    pieces = expressions.parse(value)
    if all(isinstance(piece, str) or piece.root == "workflow" for piece in pieces):
        return expressions.resolve(value, workflow)
    [piece, *more] = pieces
    if more or isinstance(piece, str) or not hops or piece.root not in known:
        return None
    # A task publishes to the branch it was given: its output block names the same store and branch.
    if len(piece.path) < 2 or piece.path[0] not in ("input", "output") or piece.path[1] != kind:
        return None
    return expressions.follow(
        _block(known[piece.root].input.get(kind), kind, known, workflow, hops - 1), piece.path[2:]
    )
