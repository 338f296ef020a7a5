"""Declarations that are wrong: on each line that ends in `# wrong`, mypy and pyright must both find an error.

They must find none on any other line. The file is never imported.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from headgate import (
    GraphSpec,
    GraphTransaction,
    PublishBudget,
    RetryPolicy,
    SparkWorkspace,
    TaskContext,
    TimeoutPolicy,
    WorkspaceSpec,
    task,
)


class Params(BaseModel):
    limit: int = 10


class Result(BaseModel):
    count: int


ONE = Result(count=1)


@task()  # wrong
def no_params() -> Result:
    return ONE


@task()  # wrong
def another_name(parameters: Params) -> Result:
    return ONE


@task()  # wrong
def params_are_no_model(params: dict[str, int]) -> Result:
    return ONE


@task()  # wrong
def result_is_no_model(params: Params) -> int:
    return 1


@task()  # wrong
def nothing_is_returned(params: Params) -> None:
    return None


@task()  # wrong
def store_that_is_not_declared(workspace: Path, params: Params) -> Result:
    return ONE


@task(workspace="songs/")  # wrong
def store_that_is_not_taken(params: Params) -> Result:
    return ONE


@task(workspace="songs/")  # wrong
def workspace_as_text(workspace: str, params: Params) -> Result:
    return ONE


@task(workspace="songs/")  # wrong
def the_other_store(graph: GraphTransaction, params: Params) -> Result:
    return ONE


@task(workspace="songs/")  # wrong
def the_other_order(params: Params, workspace: Path) -> Result:
    return ONE


@task(workspace="songs/")  # wrong
def paths_for_spark_without_spark(workspace: SparkWorkspace, params: Params) -> Result:
    return ONE


@task(graph=["Song"])  # wrong
def graph_as_path(graph: Path, params: Params) -> Result:
    return ONE


@task()  # wrong
def context_as_text(params: Params, context: str) -> Result:
    return ONE


@task()  # wrong
def context_first(context: TaskContext, params: Params) -> Result:
    return ONE


@task()  # wrong
def keyword_only(*, params: Params) -> Result:
    return ONE


@task()  # wrong
async def result_of_async_is_no_model(params: Params) -> int:
    return 1


def body(params: Params) -> Result:
    return ONE


task(body)  # wrong
task(colour="red")  # wrong
task(name=3)  # wrong
task(workspace=3)  # wrong
task(graph=GraphSpec, workspace=None)  # wrong
task(workspace=GraphSpec())  # wrong
task()(body)("text")  # wrong
WorkspaceSpec(prefx="songs/")  # wrong
WorkspaceSpec(replace="never")  # wrong
WorkspaceSpec(pre=["songs/index.json"])  # wrong
RetryPolicy(logic="SOMETIMES")  # wrong
TimeoutPolicy(policy="WAIT")  # wrong
PublishBudget(publish_timeout_seconds="30")  # wrong
WorkspaceSpec().prefix = "other"  # wrong
