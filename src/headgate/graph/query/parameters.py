"""The values of a query's parameters: typed JSON, checked all at once before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.errors import InvalidInput, Problem
from headgate.graph.language.diagnostics import nearest
from headgate.graph.query.syntax import Parameter
from headgate.graph.schema.text import type_text
from headgate.graph.schema.values import BadValue, Rules, coerce


def bind_parameters(query: str, declared: tuple[Parameter, ...], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Each parameter's value as Python knows it, or `InvalidInput` that names every wrong, missing and unknown one."""
    given = {name.removeprefix("$"): value for name, value in (given or {}).items()}
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for item in declared:
        where = f"${item.name}"
        if item.name not in given and not item.nullable:
            shape = type_text(item.type)
            problems.append(Problem(where, f"this parameter, a {shape}, has no value", f"pass {item.name}"))
            continue
        try:
            values[item.name] = coerce(Rules(item.name, item.type, item.nullable), given.get(item.name))
        except BadValue as problem:
            problems.append(Problem(where, problem.message))
    known = [item.name for item in declared]
    for name in given:
        if name not in known:
            fix = nearest(name, known) or "it takes no parameters"
            problems.append(Problem(f"${name}", f"{query} has no such parameter", fix))
    if problems:
        raise InvalidInput(message=f"the parameters of {query} are wrong", problems=tuple(problems))
    return values
