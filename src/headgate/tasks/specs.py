"""Which stores a task reads, and which one it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, overload

from pydantic import AfterValidator, Field, PlainValidator

from headgate.tasks.declaring import Declared
from headgate.tasks.paths import Selection, check_glob, normalise_prefix

Guardrail: TypeAlias = Callable[[Path], None]
"""A check on the workspace: returns if it holds, raises if not."""


def _listed(values: Any, *, example: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{values!r} is not a list; write {example}")
    return tuple(values)


def _guardrails(values: Any) -> tuple[Guardrail, ...]:
    listed = _listed(values, example='[require_file("songs/index.json")]')
    for value in listed:
        if not callable(value):
            raise ValueError(f"{value!r} is no guardrail; use one of headgate.guardrails or a function (Path) -> None")
    return listed


def _globs(values: Any) -> tuple[str, ...]:
    listed = _listed(values, example='["songs/*.json"]')
    for value in listed:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is no pattern; write patterns as text")
        check_glob(value)
    return listed


def _included(values: Any) -> tuple[str, ...] | None:
    if values is None:
        return None
    if not (patterns := _globs(values)):
        raise ValueError("an empty include selects nothing; leave it out to select everything")
    return patterns


def _excluded(values: Any) -> tuple[str, ...] | None:
    return None if values is None else _globs(values)


def _types(values: Any) -> tuple[str, ...]:
    listed = _listed(values, example='["Song"]')
    for value in listed:
        if not isinstance(value, str) or not value.isidentifier():
            raise ValueError(f"{value!r} is not the name of a type; names are letters, digits and underscores")
        if listed.count(value) > 1:
            raise ValueError(f"{value!r} is listed twice; list each type once")
    return listed


class WorkspaceSpec(Declared, frozen=True):
    """The files a task reads, and writes unless it is read-only.

    A file has the same path in the repository and below the workspace folder: with `prefix="songs/"` the object
    `songs/one.json` is `workspace / "songs/one.json"`. Guardrails, `include` and `exclude` use that path, too. What
    prefix, `include` and `exclude` leave out is never read, changed or deleted, and a file that the body writes there
    is refused before staging.
    """

    prefix: Annotated[str, AfterValidator(normalise_prefix), Field(validate_default=True)] = "/"
    """Whole path segments; kept as `songs/`, or empty for the whole repository."""
    pre: Annotated[Sequence[Guardrail], PlainValidator(_guardrails)] = ()
    post: Annotated[Sequence[Guardrail], PlainValidator(_guardrails)] = ()
    read_only: bool = False
    include: Annotated[Sequence[str] | None, PlainValidator(_included)] = None
    exclude: Annotated[Sequence[str] | None, PlainValidator(_excluded)] = None
    replace: Literal["auto", "any"] = "auto"
    """Which heads on top of the input ref may be replaced: only abandoned ones, or any child of the input ref."""

    @property
    def selection(self) -> Selection:
        return Selection(
            prefix=self.prefix,
            include=None if self.include is None else tuple(self.include),
            exclude=tuple(self.exclude or ()),
        )


class GraphSpec(Declared, frozen=True):
    """The types of a graph that a task reads, and writes unless it is read-only."""

    types: Annotated[Sequence[str], PlainValidator(_types)] = ()
    """Empty for every type the graph has."""
    read_only: bool = False
    replace: Literal["auto", "any"] = "auto"
    exact: bool = False
    """Whether any change since the input ref fences, also one to tables the task does not use."""


StoreSpec: TypeAlias = WorkspaceSpec | GraphSpec


@overload
def ReadOnly(spec: str | WorkspaceSpec) -> WorkspaceSpec: ...  # type: ignore[overload-overlap]
@overload
def ReadOnly(spec: Sequence[str] | GraphSpec) -> GraphSpec: ...
def ReadOnly(spec: str | WorkspaceSpec | Sequence[str] | GraphSpec) -> WorkspaceSpec | GraphSpec:  # noqa: N802
    """The store that `spec` declares, for reading only."""
    if isinstance(spec, Declared):
        return spec.model_copy(update={"read_only": True})
    if isinstance(spec, str):
        return WorkspaceSpec(prefix=spec, read_only=True)
    return GraphSpec(types=spec, read_only=True)
