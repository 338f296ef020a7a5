"""Find the tasks of modules by name, from the current folder, and everything that is wrong with them."""

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


def load_tasks(*modules: str, folder: Path | None = None) -> list[TaskDeclaration]:
    """The tasks of the modules, in order; `InvalidTask` with every problem of all of them at once.

    A module is looked for in `folder` (the current one unless told otherwise) before anywhere else. The folder stays
    on the path, since bodies import what they need when they run.
    """
    root = str((folder or Path.cwd()).resolve())
    if root not in sys.path:
        sys.path.insert(0, root)
    importlib.invalidate_caches()
    imported_before = set(sys.modules)
    declarations: list[TaskDeclaration] = []
    problems: list[Problem] = []
    for module in dict.fromkeys(modules):
        found = _load(module, root)
        declarations += found.declarations
        problems += found.problems
    problems += _same_names(declarations)
    problems += _schema_problems(declarations)
    if problems:
        for module in set(modules) - imported_before:
            sys.modules.pop(module, None)
        what = f"the module {modules[0]} has" if len(modules) == 1 else f"the modules {', '.join(modules)} have"
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InvalidTask(
            message=f"{what} {count}",
            problems=tuple(problems),
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


def _load(module: str, root: str) -> Collected:
    """What a module declares, and what is wrong with it by itself."""
    _check_name(module)
    with collecting() as found:
        try:
            imported = importlib.import_module(module)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
                raise NotFound(
                    message=f"there is no module {module} in {root}",
                    hint="run the command in the folder that holds it, and write it with dots: package.module",
                    kind="module",
                    name=module,
                ) from error
            return Collected(problems=[*found.problems, _import_problem(error, root)])
    own = tasks_in(imported)
    # A second function of the same name hides the first from the module; the collection has both. A module that was
    # imported before collects nothing now.
    declared = [one for one in found.declarations if one.module == module or one in own]
    declared += [one for one in own if one not in declared]
    if not declared and not found.problems:
        where = getattr(imported, "__file__", None) or module
        found.problems.append(Problem(str(where), "it declares no task", "put @task(…) on a function"))
    return Collected(declarations=declared, problems=found.problems)


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
