"""The signature of a task body: what it takes and gives, and every way in which that is wrong.

Parameter names are exact and in this order: `workspace`, `graph` (the stores the task declares), `params`, and last,
where the body wants them, `context` and `spark`. The runtime calls the body with these names.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from headgate.tasks.context import TaskContext
from headgate.tasks.protocols import GraphTransaction, MergeWorkspace, SparkWorkspace

STORES = ("workspace", "graph")
LAST = ("context", "spark")


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a body takes, in order, and the models at its boundary."""

    arguments: tuple[str, ...]
    params: type[BaseModel]
    result: type[BaseModel]
    spark_workspace: bool = False
    """Whether the workspace is handed over as paths for Spark and not as a downloaded folder."""
    merge_workspace: bool = False
    """Whether the workspace is a branch that is merged, and not a folder."""


@dataclass(frozen=True)
class Wrong:
    """One rule a signature breaks."""

    message: str
    fix: str


@dataclass(frozen=True)
class _Unresolved:
    """An annotation whose name does not exist at run time, as its text."""

    text: str
    reason: str


def read_signature(
    function: Callable[..., Any], *, stores: tuple[str, ...], names: Mapping[str, Any]
) -> tuple[Signature | None, list[Wrong]]:
    """The signature of a body for a task with these stores, or everything that is wrong with it.

    `names` are what the annotations may use besides the module's own names.
    """
    wrong: list[Wrong] = []
    parameters = inspect.signature(function).parameters
    annotations = _annotations(function, names)
    wrong += _shape_problems(parameters)
    wrong += _name_problems(tuple(parameters), stores)
    spark_workspace = merge_workspace = False
    for name in parameters:
        if name not in annotations:
            if name in (*STORES, "params", *LAST):
                wrong.append(Wrong(f"the parameter {name} has no annotation", f"write {_wanted(name)}"))
        elif name == "workspace":
            spark_workspace = _is(annotations[name], SparkWorkspace)
            merge_workspace = _is(annotations[name], MergeWorkspace)
            if not spark_workspace and not merge_workspace and not _is(annotations[name], Path):
                wrong.append(_mismatch(name, annotations[name]))
        elif (
            (name == "graph" and not _is(annotations[name], GraphTransaction))
            or (name == "context" and not _is(annotations[name], TaskContext))
            or (name == "spark" and not _is_spark_session(annotations[name]))
        ):
            wrong.append(_mismatch(name, annotations[name]))
    if spark_workspace and "spark" not in parameters:
        wrong.append(
            Wrong(
                "a SparkWorkspace holds paths that only Spark can read, and the body takes no spark",
                "add a last parameter spark: SparkSession, or take the workspace as a Path",
            )
        )
    params = result = None
    if "params" in annotations:
        params, problem = _model(annotations["params"], "the parameter params")
        wrong += problem
    if "return" in annotations:
        result, problem = _model(annotations["return"], "the return value")
        wrong += problem
    else:
        wrong.append(Wrong("the return value has no annotation", "write -> R with a Pydantic model R"))
    if wrong or params is None or result is None:
        return None, wrong
    signature = Signature(
        arguments=tuple(parameters),
        params=params,
        result=result,
        spark_workspace=spark_workspace,
        merge_workspace=merge_workspace,
    )
    return signature, wrong


def _shape_problems(parameters: Mapping[str, inspect.Parameter]) -> Iterator[Wrong]:
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield Wrong(f"it takes *{parameter.name}", "name each parameter; the runtime passes exactly those")
        elif parameter.kind is parameter.VAR_KEYWORD:
            yield Wrong(f"it takes **{parameter.name}", "name each parameter; the runtime passes exactly those")
        elif parameter.kind is parameter.KEYWORD_ONLY:
            yield Wrong(f"the parameter {parameter.name} is keyword-only", "take the bare * out")
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            yield Wrong(f"the parameter {parameter.name} is positional-only", "take the / out")
        if parameter.default is not parameter.empty:
            yield Wrong(
                f"the parameter {parameter.name} has a default", "give defaults to the fields of the params model"
            )


def _name_problems(given: tuple[str, ...], stores: tuple[str, ...]) -> Iterator[Wrong]:
    known = (*STORES, "params", *LAST)
    for name in given:
        if name not in known:
            yield Wrong(
                f"it has a parameter {name}", f"a body takes {', '.join(known[:-1])} and {known[-1]}, by these names"
            )
        elif name in STORES and name not in stores:
            yield Wrong(f"it takes {name}, but the task declares none", f"add {name}=… to @task, or drop the parameter")
    for name in (*stores, "params"):
        if name not in given:
            yield Wrong(f"it has no parameter {name}", f"add {_wanted(name)}")
    ordered = [name for name in given if name in known]
    last = [name for name in ordered if name in LAST]
    expected = [name for name in (*STORES, "params") if name in ordered] + last
    if ordered != expected:
        yield Wrong(f"its parameters are in the order {', '.join(ordered)}", f"write them as {', '.join(expected)}")


_WANTED = {
    "workspace": "workspace: Path",
    "graph": "graph: GraphTransaction",
    "params": "params: P with a Pydantic model P",
    "context": "context: TaskContext",
    "spark": "spark: SparkSession",
}


def _wanted(name: str) -> str:
    return _WANTED[name]


def _mismatch(name: str, annotation: Any) -> Wrong:
    if isinstance(annotation, _Unresolved):
        return Wrong(f"the annotation of {name} cannot be resolved: {annotation.reason}", f"write {_wanted(name)}")
    fix = f"write {_wanted(name)}" + (", or SparkWorkspace together with spark" if name == "workspace" else "")
    return Wrong(f"the parameter {name} is annotated {_told(annotation)}", fix)


def _told(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else repr(annotation)


def _model(annotation: Any, what: str) -> tuple[type[BaseModel] | None, list[Wrong]]:
    if isinstance(annotation, _Unresolved):
        fix = "import or define the model at module level, outside TYPE_CHECKING"
        return None, [Wrong(f"the annotation of {what} cannot be resolved: {annotation.reason}", fix)]
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)) or annotation is BaseModel:
        return None, [
            Wrong(
                f"{what} is annotated {_told(annotation)}, which is no Pydantic model of your own",
                "declare a class X(BaseModel) and use it",
            )
        ]
    if any(
        getattr(parameter, "__name__", None) for parameter in annotation.__pydantic_generic_metadata__["parameters"]
    ):
        fix = f"name its type, as in {annotation.__name__}[int]"
        return None, [Wrong(f"{what} is the generic {annotation.__name__} without its type", fix)]
    return annotation, []


def _annotations(function: Callable[..., Any], names: Mapping[str, Any]) -> dict[str, Any]:
    scope = {**names, **getattr(function, "__globals__", {}), **inspect.getclosurevars(function).nonlocals}
    return {name: _resolve(annotation, scope) for name, annotation in _raw_annotations(function).items()}


def _raw_annotations(function: Callable[..., Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.STRING)
    return inspect.get_annotations(function)


def _resolve(annotation: Any, scope: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        resolved = eval(annotation, scope)
    except Exception as error:
        return _Unresolved(annotation, str(error))
    return _resolve(resolved, scope) if isinstance(resolved, str) else resolved


def _is(annotation: Any, wanted: type) -> bool:
    # A name imported for type checkers only cannot be resolved; its text is then all there is to go by.
    if isinstance(annotation, _Unresolved):
        return annotation.text.rpartition(".")[2] == wanted.__name__
    return annotation is wanted


def _is_spark_session(annotation: Any) -> bool:
    if isinstance(annotation, _Unresolved):
        return annotation.text.rpartition(".")[2] == "SparkSession"
    if get_origin(annotation) is not None:
        return any(_is_spark_session(argument) for argument in get_args(annotation))
    return isinstance(annotation, type) and annotation.__name__ == "SparkSession" and "pyspark" in annotation.__module__
