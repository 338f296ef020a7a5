"""Declarations that are right: mypy in strict mode and pyright must both say nothing about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from pydantic import BaseModel

from headgate import (
    ExecutionLimits,
    GraphSpec,
    GraphTransaction,
    PublishBudget,
    ReadOnly,
    RetryPolicy,
    SparkWorkspace,
    TaskContext,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    guardrails,
    task,
)


class Params(BaseModel):
    limit: int = 10


class Result(BaseModel):
    count: int


def own_check(workspace: Path) -> None: ...


@task()
def plain(params: Params) -> Result:
    return Result(count=params.limit)


@task(name="with-everything", owner_email="songs@example.org", description="…")
def plain_with_all(params: Params, context: TaskContext, spark: Any) -> Result:
    context.progress(1, 2)
    context.logger.info("half", done=1)
    return Result(count=int(context.cancelled))


@task(workspace="songs/")
def short(workspace: Path, params: Params) -> Result:
    return Result(count=len(list(workspace.iterdir())))


@task(
    workspace=WorkspaceSpec(
        prefix="songs/",
        pre=[guardrails.require_file("songs/index.json"), own_check],
        post=(guardrails.forbid_glob("**/*.tmp"),),
        include=["songs/**"],
        exclude=["**/cache/**"],
        replace="any",
    ),
    controls=TaskControls(
        retry=RetryPolicy(count=5, logic="LINEAR_BACKOFF", backoff_scale=2),
        timeout=TimeoutPolicy(policy="RETRY", seconds=900, response_seconds=120),
        limits=ExecutionLimits(concurrent=4),
        publish=PublishBudget(publish_timeout_seconds=20),
    ),
)
def full(workspace: Path, params: Params, context: TaskContext) -> Result:
    return Result(count=1)


@task(workspace="songs/")
def on_spark(workspace: SparkWorkspace, params: Params, spark: Any) -> Result:
    spark.read.parquet(workspace.read_path("songs/")).write.parquet(workspace.write_path("features/"))
    return Result(count=1)


@task(workspace="songs/")
def downloaded_next_to_spark(workspace: Path, params: Params, spark: Any, context: TaskContext) -> Result:
    return Result(count=1)


@task(graph=["Song"])
def into_graph(graph: GraphTransaction, params: Params) -> Result:
    graph.append("Song", [])
    return Result(count=1)


@task(workspace=ReadOnly("songs/"), graph=GraphSpec(types=["Song"]))
def both(workspace: Path, graph: GraphTransaction, params: Params) -> Result:
    return Result(count=1)


@task(workspace="songs/", graph=ReadOnly(["Song"]))
async def asynchronous(workspace: Path, graph: GraphTransaction, params: Params) -> Result:
    return Result(count=1)


async def called_as_they_are() -> None:
    assert_type(plain(Params()), Result)
    assert_type(plain(params=Params()), Result)
    assert_type(short(workspace=Path(), params=Params()), Result)
    assert_type(full(Path(), Params(), TaskContext()), Result)
    assert_type(ReadOnly("songs/"), WorkspaceSpec)
    assert_type(ReadOnly(GraphSpec()), GraphSpec)
