"""`@task`: declare a function as a task, and find what was declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, overload

from headgate.errors import InvalidTask, Problem
from headgate.tasks.bodies import GraphDecorator, PlainDecorator, StoresDecorator, WorkspaceDecorator
from headgate.tasks.controls import TaskControls
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.declaring import collected, declaring_frame, report
from headgate.tasks.draft import Draft, label
from headgate.tasks.specs import GraphSpec, WorkspaceSpec

_F = TypeVar("_F", bound=Callable[..., Any])

_ATTRIBUTE = "__headgate_task__"


@overload
def task(
    *,
    name: str | None = None,
    owner_email: str | None = None,
    description: str | None = None,
    workspace: None = None,
    graph: None = None,
    controls: TaskControls | None = None,
) -> PlainDecorator: ...
@overload
def task(
    *,
    name: str | None = None,
    owner_email: str | None = None,
    description: str | None = None,
    workspace: str | WorkspaceSpec,
    graph: None = None,
    controls: TaskControls | None = None,
) -> WorkspaceDecorator: ...
@overload
def task(
    *,
    name: str | None = None,
    owner_email: str | None = None,
    description: str | None = None,
    workspace: None = None,
    graph: Sequence[str] | GraphSpec,
    controls: TaskControls | None = None,
) -> GraphDecorator: ...
@overload
def task(
    *,
    name: str | None = None,
    owner_email: str | None = None,
    description: str | None = None,
    workspace: str | WorkspaceSpec,
    graph: Sequence[str] | GraphSpec,
    controls: TaskControls | None = None,
) -> StoresDecorator: ...
def task(*wrong: Any, **keywords: Any) -> Any:
    """Declare a function as a task; the function comes back as it is, and can be called in a unit test.

    `workspace="songs/"` is short for `WorkspaceSpec(prefix="songs/")`, `graph=["Song"]` for
    `GraphSpec(types=["Song"])`; `ReadOnly(…)` around either declares a store that is not written. The name defaults
    to the function's, the e-mail to that in the settings, the description to the docstring's first line. What is
    wrong with the declaration is `InvalidTask`, with every problem and its line.
    """
    frame = declaring_frame()
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
    if wrong:
        fix = "write @task() with parentheses" if callable(wrong[0]) else "name the argument: @task(name=…)"
        report("@task is used wrongly", [Problem(place, "@task takes keywords only", fix)])
        return wrong[0] if callable(wrong[0]) else lambda function: function
    names = dict(frame.f_locals) if frame else {}

    def declare(function: _F) -> _F:
        if not inspect.isfunction(function):
            told = f"@task is on {label(function)}, which is no plain function"
            problem = Problem(place, told, "put it on a function defined with def or async def")
            report("@task is used wrongly", [problem])
            return function
        draft = Draft(function, keywords)
        declaration = draft.declaration(names)
        report(f"the task {label(function)} is declared wrongly", draft.problems)
        if declaration is not None:
            setattr(function, _ATTRIBUTE, declaration)
            if (found := collected()) is not None:
                found.declarations.append(declaration)
        return function

    return declare


def task_of(function: Callable[..., Any]) -> TaskDeclaration:
    """The declaration of a function that `@task` was put on."""
    declaration = find_task(function)
    if declaration is None:
        raise InvalidTask(message=f"{label(function)} is not a task", hint="put @task(…) on it")
    return declaration


def find_task(function: object) -> TaskDeclaration | None:
    """The declaration of a function, or None. A wrapper that copied the attributes of a task is none."""
    declaration = getattr(function, _ATTRIBUTE, None)
    return declaration if isinstance(declaration, TaskDeclaration) and declaration.function is function else None


def tasks_in(module: ModuleType) -> list[TaskDeclaration]:
    """The tasks a module, or a package with its modules, declares, in order; not those imported from elsewhere."""
    found: dict[int, TaskDeclaration] = {}
    for value in vars(module).values():
        declaration = find_task(value)
        if declaration and f"{declaration.module}.".startswith(f"{module.__name__}."):
            found[id(declaration)] = declaration
    return list(found.values())
