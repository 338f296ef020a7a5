"""What the pipeline on Spark does for a graph, as the graph asks for it.

The pipeline is a layer above this one. It is found by its name when a session is handed in, so that a graph that is
used without one never imports it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import Written
from headgate.graph.write.prepared import Prepared, WriteRequest
from headgate.publication import Ref

_PIPELINE = "headgate.spark.pipeline"


class FrameTransaction(Protocol):
    """Changes by DataFrames that become visible together."""

    written: Written | None

    @property
    def base(self) -> Ref:
        """The commit that is read."""
        ...

    def read(self, type_name: str, *, columns: Sequence[str] | None = None) -> Any:
        """The rows of a type at the base, as a DataFrame."""
        ...

    def append(self, type_name: str, frame: Any) -> None:
        """Add rows; one whose id is taken is refused."""
        ...

    def merge(self, type_name: str, frame: Any) -> None:
        """Add rows, or replace those with their id."""
        ...

    def overwrite(self, type_name: str, frame: Any) -> None:
        """Replace every row of a type."""
        ...

    def delete(self, type_name: str, frame: Any) -> None:
        """Remove the rows that a DataFrame names by `id` or by the columns of the key, and with a node its edges."""
        ...

    def commit(self) -> Written:
        """Publish the changes as one commit, or raise and leave nothing visible."""
        ...

    def rollback(self) -> None:
        """Forget the changes."""
        ...

    def prepare_on(self, base: Base) -> Prepared | None:
        """Check and stage the changes on a base whose touched tables have the same content."""
        ...

    def published(self, publish: Callable[[], Written]) -> Written:
        """Run a publish of these changes, and remove the files that it turns out not to need."""
        ...

    @property
    def staged_under(self) -> str:
        """The record that covers the files until they are published."""
        ...

    def told(self) -> Mapping[str, str]:
        """What has been changed, per type, for people."""
        ...

    def __enter__(self) -> FrameTransaction: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...


class Pipeline(Protocol):
    def transaction(self, spark: Any, store: GraphStore, base: Base, request: WriteRequest) -> FrameTransaction: ...

    def read(self, spark: Any, base: Any, type_name: str, columns: Sequence[str] | None) -> Any: ...

    def register(self, spark: Any, base: Any, prefix: str) -> tuple[str, ...]: ...

    def graphframe(self, spark: Any, base: Any, nodes: Sequence[str] | None, edges: Sequence[str] | None) -> Any: ...


def is_frame(rows: Any) -> bool:
    """Whether rows are a DataFrame of Spark; asked without importing it."""
    return hasattr(rows, "mapInArrow") and hasattr(rows, "sparkSession")


def pipeline() -> Pipeline:
    return cast(Pipeline, importlib.import_module(_PIPELINE))
