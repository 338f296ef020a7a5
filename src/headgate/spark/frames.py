"""A snapshot as DataFrames: a view for every type, and nodes and edges as GraphFrames takes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from headgate.errors import InvalidInput, MissingExtra
from headgate.graph.schema.model import DST, ID, SRC, EdgeType
from headgate.graph.write.base import Base
from headgate.spark.reading import read_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GRAPHFRAMES = "io.graphframes:graphframes-spark4_2.13"


def register(spark: SparkSession, base: Base, prefix: str = "") -> tuple[str, ...]:
    """A temporary view for every type, named after it; the names."""
    names = []
    for table in base.schema.tables():
        read_frame(spark, base, table.name).createOrReplaceTempView(f"{prefix}{table.name}")
        names.append(f"{prefix}{table.name}")
    return tuple(names)


def graphframe(
    spark: SparkSession, base: Base, nodes: Sequence[str] | None = None, edges: Sequence[str] | None = None
) -> Any:
    """Nodes and edges of some or all types as a GraphFrame.

    Ids are unique within a type only, so with several node types an id is `Type/id`; `type` and the plain id stay
    beside it. With one type of nodes and one of edges their properties are columns, too.
    """
    graph_frame = _graph_frame(spark)
    node_types = list(nodes) if nodes else [table.name for table in base.schema.nodes]
    chosen = [base.type(name) for name in edges] if edges else list(base.schema.edges)
    edge_types = [edge for edge in chosen if isinstance(edge, EdgeType)]
    inside = [edge for edge in edge_types if edge.src in node_types and edge.dst in node_types]
    if not node_types or (edges and len(inside) < len(chosen)):
        raise InvalidInput(
            message="a GraphFrame needs nodes, and both ends of every edge among them",
            hint="name the types of nodes that the edges connect",
        )
    if len(node_types) == 1 and len(inside) <= 1:
        vertices = read_frame(spark, base, node_types[0])
        lines = read_frame(spark, base, inside[0].name) if inside else _no_edges(spark)
        return graph_frame(vertices, lines)
    return graph_frame(
        _union([_vertices(spark, base, name) for name in node_types]),
        _union([_edges(spark, base, edge) for edge in inside]) if inside else _no_edges(spark),
    )


def _vertices(spark: SparkSession, base: Base, name: str) -> DataFrame:
    from pyspark.sql import functions as f

    plain = read_frame(spark, base, name, columns=[ID])
    return plain.select(
        f.concat(f.lit(f"{name}/"), f.col(ID)).alias(ID), f.lit(name).alias("type"), f.col(ID).alias("node")
    )


def _edges(spark: SparkSession, base: Base, edge: EdgeType) -> DataFrame:
    from pyspark.sql import functions as f

    plain = read_frame(spark, base, edge.name, columns=[ID, SRC, DST])
    return plain.select(
        f.concat(f.lit(f"{edge.src}/"), f.col(SRC)).alias(SRC),
        f.concat(f.lit(f"{edge.dst}/"), f.col(DST)).alias(DST),
        f.lit(edge.name).alias("type"),
        f.col(ID).alias("edge"),
    )


def _no_edges(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], f"{ID} string, {SRC} string, {DST} string")


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def _graph_frame(spark: SparkSession) -> Any:
    try:
        from graphframes import GraphFrame
    except ImportError as error:
        raise MissingExtra(
            message="GraphFrames is not installed", hint="pip install graphframes-py", extra="graphframes"
        ) from error
    try:
        spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(  # noqa: SLF001
            "org.graphframes.GraphFrame"
        )
    except Exception as error:
        raise MissingExtra(
            message="the session has no GraphFrames",
            hint=f"set spark.jars.packages to {GRAPHFRAMES}:VERSION in [spark.conf]",
            extra="graphframes",
        ) from error
    return GraphFrame
