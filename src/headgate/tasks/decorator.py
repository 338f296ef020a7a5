"""`@task`: declare a function as a task, and find what was declared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any, TypeVar, overload

from headgate.errors import InvalidTask, Problem
from headgate.tasks.bodies import GraphDecorator, PlainDecorator, StoresDecorator, WorkspaceDecorator
from headgate.tasks.controls import TaskControls
from headgate.tasks.declaration import Source, TaskDeclaration
from headgate.tasks.declaring import collected, declaring_frame, nearest, report
from headgate.tasks.signature import STORES, read_signature
from headgate.tasks.specs import GraphSpec, WorkspaceSpec

_F = TypeVar("_F", bound=Callable[..., Any])

_KEYWORDS = ("name", "owner_email", "description", "workspace", "graph", "controls")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_EMAIL = re.compile(r"[^\s@<>\"(),:;\\]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?")
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
    if wrong:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        fix = "write @task() with parentheses" if callable(wrong[0]) else "name the argument: @task(name=…)"
        report("@task is used wrongly", [Problem(place, "@task takes keywords only", fix)])
        return wrong[0] if callable(wrong[0]) else lambda function: function
    names = dict(frame.f_locals) if frame else {}

    def declare(function: _F) -> _F:
        declaration, problems = _declare(function, keywords, names, frame)
        report(f"the task {_label(function)} is declared wrongly", problems)
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
        raise InvalidTask(message=f"{_label(function)} is not a task", hint="put @task(…) on it")
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


def _label(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _declare(
    function: Any, keywords: Mapping[str, Any], names: Mapping[str, Any], frame: FrameType | None
) -> tuple[TaskDeclaration | None, list[Problem]]:
    if not inspect.isfunction(function):
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        fix = "put it on a function defined with def or async def"
        return None, [Problem(place, f"@task is on {_label(function)}, which is no plain function", fix)]
    source = Source(file=function.__code__.co_filename, line=function.__code__.co_firstlineno)
    label = f"task {function.__name__}"
    problems: list[Problem] = []

    def wrong(message: str, fix: str) -> None:
        problems.append(Problem(str(source), f"{label}: {message}", fix))

    for keyword in keywords:
        if keyword not in _KEYWORDS:
            wrong(f"@task takes no keyword {keyword!r}", nearest(keyword, _KEYWORDS))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        wrong("it is a generator", "return one result instead of yielding")
    before = len(found.problems) if (found := collected()) else 0
    workspace = _workspace(keywords.get("workspace"), wrong)
    graph = _graph(keywords.get("graph"), wrong)
    reported_apart = found is not None and len(found.problems) > before
    controls = keywords.get("controls")
    if controls is not None and not isinstance(controls, TaskControls):
        wrong(f"controls is {type(controls).__name__}", "write controls=TaskControls(…)")
        controls = None
    controls = controls or TaskControls()
    name = _text(keywords, "name", wrong)
    name = function.__name__ if name is None else name
    if not _NAME.fullmatch(name):
        wrong(
            f"the name {name!r} will not do",
            "use letters, digits, '_', '-' and '.', at most 255 of them, the first one no '-' or '.'",
        )
    email = _text(keywords, "owner_email", wrong)
    if email is not None and not is_email(email):
        wrong(f"owner_email {email!r} is no e-mail address", "write it as name@example.org")
    description = _text(keywords, "description", wrong)
    specs = {key: spec for key, spec in (("workspace", workspace), ("graph", graph)) if spec is not None}
    if sum(not spec.read_only for spec in specs.values()) > 1:
        wrong(
            "it writes two stores, and no publish spans two",
            "make one ReadOnly(…), or split the task: the second one gets the ref the first one published",
        )
    declared = tuple(store for store in STORES if keywords.get(store) is not None)
    signature, broken = read_signature(function, stores=declared, names=names)
    for rule in broken:
        wrong(rule.message, rule.fix)
    if controls.publish is not None and not declared:
        wrong("a publish budget needs a store, and it declares none", "drop publish=…, or declare workspace or graph")
    if problems or signature is None or reported_apart:
        return None, problems
    declaration = TaskDeclaration(
        name=name,
        function=function,
        module=function.__module__,
        source=source,
        params=signature.params,
        result=signature.result,
        arguments=signature.arguments,
        spark_workspace=signature.spark_workspace,
        workspace=workspace,
        graph=graph,
        controls=controls,
        owner_email=email,
        description=_first_line(function) if description is None else description,
        warnings=tuple(
            Problem(str(source), f"{label}: {message}", fix) for message, fix in _warnings(specs.values(), controls)
        ),
    )
    return declaration, problems


def is_email(text: str) -> bool:
    """Whether an orchestrator takes this as the owner of a task."""
    return bool(_EMAIL.fullmatch(text)) and ".." not in text


def _text(keywords: Mapping[str, Any], key: str, wrong: Callable[[str, str], None]) -> str | None:
    value = keywords.get(key)
    if value is None or isinstance(value, str):
        return value
    wrong(f"{key} is {value!r}", f"write {key} as text")
    return None


def _workspace(given: Any, wrong: Callable[[str, str], None]) -> WorkspaceSpec | None:
    if isinstance(given, str):
        return WorkspaceSpec(prefix=given)
    if given is None or isinstance(given, WorkspaceSpec):
        return given
    wrong(f"workspace is {type(given).__name__}", 'write workspace="songs/" or workspace=WorkspaceSpec(…)')
    return None


def _graph(given: Any, wrong: Callable[[str, str], None]) -> GraphSpec | None:
    if given is None or isinstance(given, GraphSpec):
        return given
    if isinstance(given, list | tuple):
        return GraphSpec(types=given)
    wrong(f"graph is {type(given).__name__}", 'write graph=["Song"] or graph=GraphSpec(…)')
    return None


def _first_line(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    return text.partition("\n")[0].strip()


def _warnings(specs: Any, controls: TaskControls) -> list[tuple[str, str]]:
    specs = list(specs)
    writes = any(not spec.read_only for spec in specs)
    found = []
    if controls.publish is not None and not writes:
        found.append(("a publish budget has no effect on a task that only reads", "drop publish=…"))
    if writes:
        from headgate.tasks.controls import PublishBudget

        warning = (controls.publish or PublishBudget()).lease_warning(
            response_seconds=controls.timeout.response_seconds
        )
        if warning:
            found.append((warning, "raise response_seconds, or shorten the budget"))
    return found
