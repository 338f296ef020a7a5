"""The shapes of a task body, for type checkers: a wrong signature is an error in the editor, before it is one here.

Parameter names of a protocol count, so each allowed combination is one protocol; `decorator` binds them to the stores
a task declares.
"""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from pydantic import BaseModel

from headgate.tasks.context import TaskContext
from headgate.tasks.protocols import GraphTransaction, SparkWorkspace

_Returned: TypeAlias = BaseModel | Coroutine[Any, Any, BaseModel]

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R", bound=_Returned)
W = TypeVar("W", bound=Path | SparkWorkspace)
P_contra = TypeVar("P_contra", bound=BaseModel, contravariant=True)
W_contra = TypeVar("W_contra", bound=Path | SparkWorkspace, contravariant=True)
R_co = TypeVar("R_co", bound=_Returned, covariant=True)


class PlainBody(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, params: P_contra) -> R_co: ...


class PlainBodyWithContext(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, params: P_contra, context: TaskContext) -> R_co: ...


class PlainBodyWithSpark(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, params: P_contra, spark: Any) -> R_co: ...


class PlainBodyWithContextSpark(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, params: P_contra, context: TaskContext, spark: Any) -> R_co: ...


class PlainBodyWithSparkContext(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, params: P_contra, spark: Any, context: TaskContext) -> R_co: ...


class WorkspaceBody(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: Path, params: P_contra) -> R_co: ...


class WorkspaceBodyWithContext(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: Path, params: P_contra, context: TaskContext) -> R_co: ...


class WorkspaceBodyWithSpark(Protocol[W_contra, P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: W_contra, params: P_contra, spark: Any) -> R_co: ...


class WorkspaceBodyWithContextSpark(Protocol[W_contra, P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: W_contra, params: P_contra, context: TaskContext, spark: Any) -> R_co: ...


class WorkspaceBodyWithSparkContext(Protocol[W_contra, P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: W_contra, params: P_contra, spark: Any, context: TaskContext) -> R_co: ...


class GraphBody(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, graph: GraphTransaction, params: P_contra) -> R_co: ...


class GraphBodyWithContext(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, graph: GraphTransaction, params: P_contra, context: TaskContext) -> R_co: ...


class GraphBodyWithSpark(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, graph: GraphTransaction, params: P_contra, spark: Any) -> R_co: ...


class GraphBodyWithContextSpark(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, graph: GraphTransaction, params: P_contra, context: TaskContext, spark: Any) -> R_co: ...


class GraphBodyWithSparkContext(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, graph: GraphTransaction, params: P_contra, spark: Any, context: TaskContext) -> R_co: ...


class StoresBody(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: Path, graph: GraphTransaction, params: P_contra) -> R_co: ...


class StoresBodyWithContext(Protocol[P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: Path, graph: GraphTransaction, params: P_contra, context: TaskContext) -> R_co: ...


class StoresBodyWithSpark(Protocol[W_contra, P_contra, R_co]):
    __name__: str

    def __call__(self, workspace: W_contra, graph: GraphTransaction, params: P_contra, spark: Any) -> R_co: ...


class StoresBodyWithContextSpark(Protocol[W_contra, P_contra, R_co]):
    __name__: str

    def __call__(
        self, workspace: W_contra, graph: GraphTransaction, params: P_contra, context: TaskContext, spark: Any
    ) -> R_co: ...


class StoresBodyWithSparkContext(Protocol[W_contra, P_contra, R_co]):
    __name__: str

    def __call__(
        self, workspace: W_contra, graph: GraphTransaction, params: P_contra, spark: Any, context: TaskContext
    ) -> R_co: ...


class PlainDecorator(Protocol):
    @overload
    def __call__(self, function: PlainBody[P, R]) -> PlainBody[P, R]: ...
    @overload
    def __call__(self, function: PlainBodyWithContext[P, R]) -> PlainBodyWithContext[P, R]: ...
    @overload
    def __call__(self, function: PlainBodyWithSpark[P, R]) -> PlainBodyWithSpark[P, R]: ...
    @overload
    def __call__(self, function: PlainBodyWithContextSpark[P, R]) -> PlainBodyWithContextSpark[P, R]: ...
    @overload
    def __call__(self, function: PlainBodyWithSparkContext[P, R]) -> PlainBodyWithSparkContext[P, R]: ...


class WorkspaceDecorator(Protocol):
    @overload
    def __call__(self, function: WorkspaceBody[P, R]) -> WorkspaceBody[P, R]: ...
    @overload
    def __call__(self, function: WorkspaceBodyWithContext[P, R]) -> WorkspaceBodyWithContext[P, R]: ...
    @overload
    def __call__(self, function: WorkspaceBodyWithSpark[W, P, R]) -> WorkspaceBodyWithSpark[W, P, R]: ...
    @overload
    def __call__(self, function: WorkspaceBodyWithContextSpark[W, P, R]) -> WorkspaceBodyWithContextSpark[W, P, R]: ...
    @overload
    def __call__(self, function: WorkspaceBodyWithSparkContext[W, P, R]) -> WorkspaceBodyWithSparkContext[W, P, R]: ...


class GraphDecorator(Protocol):
    @overload
    def __call__(self, function: GraphBody[P, R]) -> GraphBody[P, R]: ...
    @overload
    def __call__(self, function: GraphBodyWithContext[P, R]) -> GraphBodyWithContext[P, R]: ...
    @overload
    def __call__(self, function: GraphBodyWithSpark[P, R]) -> GraphBodyWithSpark[P, R]: ...
    @overload
    def __call__(self, function: GraphBodyWithContextSpark[P, R]) -> GraphBodyWithContextSpark[P, R]: ...
    @overload
    def __call__(self, function: GraphBodyWithSparkContext[P, R]) -> GraphBodyWithSparkContext[P, R]: ...


class StoresDecorator(Protocol):
    @overload
    def __call__(self, function: StoresBody[P, R]) -> StoresBody[P, R]: ...
    @overload
    def __call__(self, function: StoresBodyWithContext[P, R]) -> StoresBodyWithContext[P, R]: ...
    @overload
    def __call__(self, function: StoresBodyWithSpark[W, P, R]) -> StoresBodyWithSpark[W, P, R]: ...
    @overload
    def __call__(self, function: StoresBodyWithContextSpark[W, P, R]) -> StoresBodyWithContextSpark[W, P, R]: ...
    @overload
    def __call__(self, function: StoresBodyWithSparkContext[W, P, R]) -> StoresBodyWithSparkContext[W, P, R]: ...
