"""What turns one commit into another, as a DataFrame: only fragments that differ are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.errors import Unsupported
from headgate.graph.graph import Graph
from headgate.graph.schema.model import ID
from headgate.graph.storage.differences import differing_fragments
from headgate.graph.write.base import Base
from headgate.spark.pinned import Pinned
from headgate.spark.reading import pinned, read_pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def changes_frame(spark: SparkSession, graph: Graph, type_name: str, old: str, new: str) -> DataFrame:
    """Rows of a type that two commits show differently: `kind` is added, changed or removed, with both rows beside."""
    from pyspark.sql import functions as f

    before, after = graph.base(commit=old), graph.base(commit=new)
    if before.type(type_name) != after.type(type_name):
        raise Unsupported(
            message=f"{type_name} was declared otherwise at {old} than at {new}",
            hint="graph.changes compares rows over changes of the schema",
        )
    was, now = _differing(before, after, type_name)
    left = _rows(spark, before, was, "before")
    right = _rows(spark, after, now, "after")
    joined = left.join(right, ID, "full_outer").where(~f.col("before").eqNullSafe(f.col("after")))
    kind = f.when(f.col("before").isNull(), "added").when(f.col("after").isNull(), "removed").otherwise("changed")
    return joined.select(f.lit(type_name).alias("type"), kind.alias("kind"), ID, "before", "after")


def _differing(before: Base, after: Base, type_name: str) -> tuple[Pinned, Pinned]:
    numbers = differing_fragments(before.snapshot(type_name), after.snapshot(type_name))
    found = []
    for base, those in zip((before, after), numbers, strict=True):
        whole = pinned(base, type_name)
        found.append(replace(whole, fragments=tuple(one for one in whole.fragments if one.number in those)))
    return found[0], found[1]


def _rows(spark: SparkSession, base: Base, what: Pinned, name: str) -> DataFrame:
    from pyspark.sql import functions as f

    frame = read_pinned(spark, base, what)
    return frame.select(ID, f.struct(*what.wanted).alias(name))
