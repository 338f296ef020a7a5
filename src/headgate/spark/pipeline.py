"""The pipeline as a graph asks for it: transactions and reads of DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.prepared import WriteRequest
from headgate.spark.frames import graphframe, register
from headgate.spark.reading import read_frame
from headgate.spark.transaction import SparkTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transaction(spark: SparkSession, store: GraphStore, base: Base, request: WriteRequest) -> SparkTransaction:
    return SparkTransaction(spark, store, base, request)


def read(spark: SparkSession, base: Any, type_name: str, columns: Sequence[str] | None) -> DataFrame:
    return read_frame(spark, base, type_name, columns=columns)


__all__ = ["graphframe", "read", "register", "transaction"]
