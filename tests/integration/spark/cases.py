"""A kit whose tasks run on Spark, and the bodies they have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from tests.unit.attempts.kit import Kit, declared, fresh_repository

from headgate import SparkWorkspace
from headgate.attempts import lake_opener
from headgate.lake import Changes
from headgate.lake.opening import OpenLake
from headgate.spark import SparkSessions
from headgate.tasks import WorkspaceSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUTS = {
    "numbers/one.json": b'{"n": 1}\n',
    "numbers/two.json": b'{"n": 2}\n',
    "numbers/about.txt": b"not a number",
    "other/kept.txt": b"kept",
}


def make_kit(folder: Path, lake: OpenLake, sparks: SparkSessions) -> Kit:
    """A kit on a repository of its own: Hadoop remembers for a repository where it is."""
    repository = fresh_repository()
    lake.create_repository(repository)
    lake.commit(repository, "main", Changes(puts=PUTS), message="as it began")
    kit = Kit.make(folder, lake, repository=repository)
    stores = {"workspace": lake_opener(lambda block: lake, spark=sparks)}
    return replace(kit, runtime=replace(kit.runtime, stores=stores, spark=sparks))


class Params(BaseModel):
    add: int = 10
    to: str = "numbers/"
    format: str = "json"


class Total(BaseModel):
    total: int


def overwrite(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
    """Reads the folder it overwrites."""
    from pyspark.sql import functions as f

    numbers = spark.read.json(workspace.read_path("numbers/*.json"))
    more = numbers.select((f.col("n") + params.add).alias("n")).coalesce(1)
    more.write.mode("overwrite").format(params.format).save(workspace.write_path(params.to))
    # Computed again from the input ref, which the write has left as it was.
    return Total(total=more.agg(f.sum("n")).first()[0])


def append(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
    spark.range(params.add).coalesce(1).write.mode("append").format(params.format).save(workspace.write_path(params.to))
    return Total(total=params.add)


def look(workspace: SparkWorkspace, params: Params, spark: SparkSession) -> Total:
    return Total(total=spark.read.json(workspace.read_path("numbers/*.json")).count())


SELECTED = WorkspaceSpec(include=["numbers/*.json", "numbers/_SUCCESS", "more/**"])
OVERWRITE = declared(overwrite, workspace=SELECTED)
APPEND = declared(append, workspace=WorkspaceSpec(include=["numbers/*.json", "more/*.json"]))
LOOK = declared(look, workspace=SELECTED)
READ = declared(look, workspace=WorkspaceSpec(include=["numbers/*.json"], read_only=True))
