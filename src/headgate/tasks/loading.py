"""Find the tasks of a module by its name, from the current folder, and everything that is wrong with them."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from headgate.errors import InvalidTask, NotFound, Problem
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.declaring import Collected, collecting, nearest
from headgate.tasks.decorator import tasks_in
from headgate.tasks.taskdef import input_schema, output_schema


def load_tasks(module: str, *, folder: Path | None = None) -> list[TaskDeclaration]:
    """The tasks of a module, in order; `InvalidTask` with every problem of the module at once.

    The module is looked for in `folder` (the current one unless told otherwise) before anywhere else. The folder stays
    on the path, since bodies import what they need when they run.
    """
    root = str((folder or Path.cwd()).resolve())
    if root not in sys.path:
        sys.path.insert(0, root)
    _check_name(module)
    importlib.invalidate_caches()
    with collecting() as found:
        declarations = _import(module, found, root)
    found.problems += _same_names(declarations)
    found.problems += _schema_problems(declarations)
    if not declarations and not found.problems:
        where = getattr(sys.modules[module], "__file__", None) or module
        found.problems.append(Problem(str(where), "it declares no task", "put @task(…) on a function"))
    if found.problems:
        sys.modules.pop(module, None)
        count = len(found.problems)
        raise InvalidTask(
            message=f"the module {module} has {'a problem' if count == 1 else f'{count} problems'}",
            problems=tuple(found.problems),
        )
    return declarations


def load_named(module: str, names: Sequence[str], *, folder: Path | None = None) -> list[TaskDeclaration]:
    """Those tasks of a module that are named, in the order of the names; all of them if none is."""
    declared = {declaration.name: declaration for declaration in load_tasks(module, folder=folder)}
    for name in names:
        if name not in declared:
            raise NotFound(
                message=f"the module {module} declares no task {name!r}",
                hint=nearest(name, declared),
                kind="task",
                name=name,
            )
    return [declared[name] for name in names] if names else list(declared.values())


def _check_name(module: str) -> None:
    if all(part.isidentifier() for part in module.split(".")) and not module.endswith(".py"):
        return
    dotted = module.removesuffix(".py").strip("/").replace("/", ".").lstrip(".")
    hint = f"write {dotted}" if "/" in module or module.endswith(".py") else "write it as package.module"
    raise NotFound(message=f"{module!r} is not the name of a module", hint=hint, kind="module", name=module)


def _import(module: str, found: Collected, root: str) -> list[TaskDeclaration]:
    if module in sys.modules:
        return tasks_in(sys.modules[module])
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise NotFound(
                message=f"there is no module {module} in {root}",
                hint="run the command in the folder that holds it, and write it with dots: package.module",
                kind="module",
                name=module,
            ) from error
        found.problems.append(_import_problem(error, root))
    except Exception as error:
        found.problems.append(_import_problem(error, root))
    else:
        own = tasks_in(imported)
        # A second function of the same name hides the first from the module; the collection has both.
        hidden = [one for one in found.declarations if one.module == module and one not in own]
        return sorted(own + hidden, key=lambda one: found.declarations.index(one) if one in found.declarations else -1)
    return []


def _import_problem(error: Exception, root: str) -> Problem:
    if isinstance(error, SyntaxError):
        return Problem(f"{error.filename}:{error.lineno}", f"it does not parse: {error.msg}", "fix the syntax")
    if isinstance(error, InvalidTask) and error.problems:
        first = error.problems[0]
        return Problem(first.where, f"{error.message}: {first.message}", first.fix)
    frames = traceback.extract_tb(error.__traceback__)
    # The deepest line a person wrote: not in the import machinery, not in a library.
    written = [frame for frame in frames if frame.filename.startswith(root) and "site-packages" not in frame.filename]
    written = written or list(frames)
    where = f"{written[-1].filename}:{written[-1].lineno}"
    fix = "install it" if isinstance(error, ModuleNotFoundError) else "importing a task module must not fail"
    return Problem(where, f"it does not import: {type(error).__name__}: {error}", fix)


def _same_names(declarations: Sequence[TaskDeclaration]) -> list[Problem]:
    seen: dict[str, TaskDeclaration] = {}
    problems = []
    for declaration in declarations:
        first = seen.setdefault(declaration.name, declaration)
        if first is not declaration:
            fix = f"the other one is at {first.source}: give one of them a name of its own"
            problems.append(Problem(str(declaration.source), f"two tasks are named {declaration.name}", fix))
    return problems


def _schema_problems(declarations: Sequence[TaskDeclaration]) -> list[Problem]:
    problems: list[Problem] = []
    for declaration in declarations:
        for schema in (input_schema, output_schema):
            try:
                schema(declaration)
            except InvalidTask as error:
                problems += error.problems
    return problems
