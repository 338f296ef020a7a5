"""From the keywords of `@task` and the function below it to a declaration, or to everything that is wrong with them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from headgate.errors import Problem
from headgate.tasks.controls import PublishBudget, TaskControls
from headgate.tasks.declaration import Source, TaskDeclaration
from headgate.tasks.declaring import nearest
from headgate.tasks.signature import STORES, read_signature
from headgate.tasks.specs import GraphSpec, StoreSpec, WorkspaceSpec

KEYWORDS = ("name", "owner_email", "description", "workspace", "graph", "controls")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_EMAIL = re.compile(r"[^\s@<>\"(),:;\\]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?")


def label(function: Any) -> str:
    """What a function is called in a message."""
    return getattr(function, "__qualname__", None) or repr(function)


def is_email(text: str) -> bool:
    """Whether this names the owner of a task; no address with spaces, quotes or two `@`."""
    return bool(_EMAIL.fullmatch(text)) and ".." not in text


class Draft:
    """A declaration being read. `problems` holds what is wrong so far, each with the line of the function."""

    def __init__(self, function: FunctionType, keywords: Mapping[str, Any]) -> None:
        self.function, self.keywords = function, keywords
        self.source = Source(file=function.__code__.co_filename, line=function.__code__.co_firstlineno)
        self.problems: list[Problem] = []

    def declaration(self, names: Mapping[str, Any]) -> TaskDeclaration | None:
        """The declaration, or None if something is wrong. `names` are what annotations may use besides the module's."""
        for keyword in self.keywords:
            if keyword not in KEYWORDS:
                self._wrong(f"@task takes no keyword {keyword!r}", nearest(keyword, KEYWORDS))
        name, email, description = self._name(), self._email(), self._text("description")
        workspace, graph, controls = self._workspace(), self._graph(), self._controls()
        specs: list[StoreSpec] = [spec for spec in (workspace, graph) if spec is not None]
        self._check_stores(specs, controls)
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            self._wrong("it is a generator", "return one result instead of yielding")
        declared = tuple(store for store in STORES if self.keywords.get(store) is not None)
        signature, broken = read_signature(self.function, stores=declared, names=names)
        for rule in broken:
            self._wrong(rule.message, rule.fix)
        if self.problems or signature is None:
            return None
        return TaskDeclaration(
            name=name,
            function=self.function,
            module=self.function.__module__,
            source=self.source,
            params=signature.params,
            result=signature.result,
            arguments=signature.arguments,
            spark_workspace=signature.spark_workspace,
            merge_workspace=signature.merge_workspace,
            workspace=workspace,
            graph=graph,
            controls=controls,
            owner_email=email,
            description=self._first_line() if description is None else description,
            warnings=tuple(self._problem(told, fix) for told, fix in _warnings(specs, controls)),
        )

    def _problem(self, message: str, fix: str) -> Problem:
        return Problem(str(self.source), f"task {self.function.__name__}: {message}", fix)

    def _wrong(self, message: str, fix: str) -> None:
        self.problems.append(self._problem(message, fix))

    def _text(self, key: str) -> str | None:
        value = self.keywords.get(key)
        if value is None or isinstance(value, str):
            return value
        self._wrong(f"{key} is {value!r}", f"write {key} as text")
        return None

    def _name(self) -> str:
        given = self._text("name")
        name = self.function.__name__ if given is None else given
        if not _NAME.fullmatch(name):
            self._wrong(
                f"the name {name!r} will not do",
                "use letters, digits, '_', '-' and '.', at most 255 of them, the first one no '-' or '.'",
            )
        return name

    def _email(self) -> str | None:
        email = self._text("owner_email")
        if email is not None and not is_email(email):
            self._wrong(f"owner_email {email!r} is no e-mail address", "write it as name@example.org")
        return email

    def _workspace(self) -> WorkspaceSpec | None:
        given = self.keywords.get("workspace")
        if isinstance(given, str):
            return WorkspaceSpec(prefix=given)
        if given is None or isinstance(given, WorkspaceSpec):
            return given
        self._wrong(f"workspace is {type(given).__name__}", 'write workspace="songs/" or workspace=WorkspaceSpec(…)')
        return None

    def _graph(self) -> GraphSpec | None:
        given = self.keywords.get("graph")
        if given is None or isinstance(given, GraphSpec):
            return given
        if isinstance(given, list | tuple):
            return GraphSpec(types=given)
        self._wrong(f"graph is {type(given).__name__}", 'write graph=["Song"] or graph=GraphSpec(…)')
        return None

    def _controls(self) -> TaskControls:
        given = self.keywords.get("controls")
        if isinstance(given, TaskControls):
            return given
        if given is not None:
            self._wrong(f"controls is {type(given).__name__}", "write controls=TaskControls(…)")
        return TaskControls()

    def _check_stores(self, specs: list[StoreSpec], controls: TaskControls) -> None:
        if sum(not spec.read_only for spec in specs) > 1:
            self._wrong(
                "it writes two stores, and no publish spans two",
                "make one ReadOnly(…), or split the task: the second one gets the ref the first one published",
            )
        if controls.publish is not None and not specs:
            self._wrong(
                "a publish budget needs a store, and it declares none", "drop publish=…, or declare workspace or graph"
            )

    def _first_line(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0].strip()


def _warnings(specs: list[StoreSpec], controls: TaskControls) -> list[tuple[str, str]]:
    if all(spec.read_only for spec in specs):
        unused = ("a publish budget has no effect on a task that only reads", "drop publish=…")
        return [unused] if controls.publish is not None else []
    budget = controls.publish or PublishBudget()
    warning = budget.lease_warning(response_seconds=controls.timeout.response_seconds)
    return [(warning, "raise response_seconds, or shorten the budget")] if warning else []
