"""A graph at one commit, for reading: queries, SQL, and the tables themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headgate.errors import NotFound
from headgate.graph.language.diagnostics import nearest
from headgate.graph.pipeline import pipeline
from headgate.graph.query.prepare import prepare_read
from headgate.graph.read.execute import Profile, execute, profile
from headgate.graph.read.explain import explain
from headgate.graph.read.result import QueryResult
from headgate.graph.read.source import TableSource
from headgate.graph.read.sql import run_sql
from headgate.graph.schema.model import Schema

if TYPE_CHECKING:
    from lance import LanceDataset

Params = Mapping[str, Any]


class Snapshot:
    """What a graph held at one commit; nothing that is written later changes it."""

    def __init__(self, source: TableSource) -> None:
        self._source = source

    @property
    def commit(self) -> str:
        return self._source.commit

    @property
    def schema(self) -> Schema:
        return self._source.schema

    def query(
        self, text: str, params: Params | None = None, *, name: str | None = None, source: str = "query"
    ) -> QueryResult:
        """The result of a read; `name` says which of several is meant, `source` is what errors call the text."""
        return execute(self._source, prepare_read(text, self.schema, query=name, name=source), params)

    def explain(
        self, text: str, params: Params | None = None, *, name: str | None = None, source: str = "query"
    ) -> list[str]:
        """How a read would run, line by line."""
        return explain(self._source, prepare_read(text, self.schema, query=name, name=source), params)

    def profile(
        self, text: str, params: Params | None = None, *, name: str | None = None, source: str = "query"
    ) -> Profile:
        """The result of a read, with every access to a table that it took."""
        return profile(self._source, prepare_read(text, self.schema, query=name, name=source), params)

    def sql(self, text: str, params: Params | None = None) -> QueryResult:
        """The result of a SELECT over the types as views."""
        return run_sql(self._source, text, params)

    def table(self, type_name: str) -> LanceDataset:
        """A type's Lance table at this commit, with its own vector and text search."""
        if self.schema.find(type_name) is None:
            known = [table.name for table in self.schema.tables()]
            hint = nearest(type_name, known)
            raise NotFound(message=f"there is no type {type_name}", hint=hint, kind="type", name=type_name)
        return self._source.dataset(type_name)

    # -------- on Spark

    def frame(self, spark: Any, type_name: str, *, columns: Sequence[str] | None = None) -> Any:
        """A type at this commit as a DataFrame; conditions on it are asked of Lance."""
        return pipeline().read(spark, self._source, type_name, columns)

    def register(self, spark: Any, *, prefix: str = "") -> tuple[str, ...]:
        """A temporary view of a session for every type, named after it; the names."""
        return pipeline().register(spark, self._source, prefix)

    def graphframe(self, spark: Any, *, nodes: Sequence[str] | None = None, edges: Sequence[str] | None = None) -> Any:
        """Nodes and edges of some or all types as a GraphFrame."""
        return pipeline().graphframe(spark, self._source, nodes, edges)

    def __repr__(self) -> str:
        return f"Snapshot({self.commit!r})"
