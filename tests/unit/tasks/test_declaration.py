from __future__ import annotations

import asyncio
import functools
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from headgate.errors import InvalidTask
from headgate.publication import Replace
from headgate.tasks import (
    GraphSpec,
    GraphTransaction,
    PublishBudget,
    ReadOnly,
    SparkWorkspace,
    TaskContext,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    find_task,
    task,
    task_of,
    tasks_in,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Hidden = BaseModel

T = TypeVar("T")


class Params(BaseModel):
    limit: int


class Result(BaseModel):
    count: int


class Box(BaseModel, Generic[T]):
    held: T


def test_the_function_comes_back_as_it_is() -> None:
    def body(params: Params) -> Result:
        return Result(count=params.limit)

    assert task()(body) is body
    assert body(Params(limit=3)) == Result(count=3)


def test_the_declaration_says_everything_the_runtime_needs() -> None:
    @task(
        name="count-songs",
        owner_email="songs@example.org",
        workspace=WorkspaceSpec(prefix="songs", replace="any"),
        graph=ReadOnly(["Song"]),
        controls=TaskControls(publish=PublishBudget(publish_timeout_seconds=7)),
    )
    def body(workspace: Path, graph: GraphTransaction, params: Params, context: TaskContext) -> Result:
        """Count the songs.

        At length.
        """
        return Result(count=1)

    declared = task_of(body)
    assert declared.name == "count-songs"
    assert declared.function is body
    assert declared.module == __name__
    assert declared.source.file == __file__
    assert Path(__file__).read_text().splitlines()[declared.source.line - 1].strip() == "@task("
    assert (declared.params, declared.result) == (Params, Result)
    assert declared.arguments == ("workspace", "graph", "params", "context")
    assert declared.takes_context
    assert not declared.takes_spark
    assert not declared.spark_workspace
    assert list(declared.stores) == ["workspace", "graph"]
    assert declared.writes == "workspace"
    assert declared.replace is Replace.ANY
    assert declared.description == "Count the songs."
    assert declared.budget.publish_timeout_seconds == 7
    assert declared.input_keys == ("workspace", "graph", "params")
    assert declared.output_keys == ("workspace", "graph", "result")
    assert declared.warnings == ()


def test_defaults_come_from_the_function() -> None:
    @task(workspace="songs/", graph=None)
    def ingest(workspace: Path, params: Params) -> Result:
        return Result(count=1)

    declared = task_of(ingest)
    assert (declared.name, declared.owner_email, declared.description) == ("ingest", None, "")
    assert declared.workspace == WorkspaceSpec(prefix="songs/")
    assert declared.budget == PublishBudget()


def test_a_session_type_seen_by_type_checkers_only_is_enough() -> None:
    @task(workspace="songs/")
    def body(workspace: SparkWorkspace, params: Params, spark: SparkSession, context: TaskContext) -> Result:
        return Result(count=1)

    declared = task_of(body)
    assert declared.spark_workspace
    assert declared.takes_spark


def test_a_downloaded_workspace_next_to_spark() -> None:
    @task(workspace="songs/")
    def body(workspace: Path, params: Params, context: TaskContext, spark: SparkSession) -> Result:
        return Result(count=1)

    assert not task_of(body).spark_workspace


def test_generic_models_with_their_type_are_models() -> None:
    @task()
    def body(params: Box[int]) -> Box[list[int]]:
        return Box[list[int]](held=[params.held])

    assert task_of(body).params is Box[int]


def wrong_signatures() -> list[tuple[dict[str, Any], Callable[..., Any], str, str]]:
    def no_params() -> Result: ...
    def other_name(parameters: Params) -> Result: ...
    def default(params: Params = Params(limit=1)) -> Result: ...
    def starred(*params: Params) -> Result: ...
    def double_starred(params: Params, **rest: Any) -> Result: ...
    def keyword_only(*, params: Params) -> Result: ...
    def positional_only(params: Params, /) -> Result: ...
    def not_annotated(params) -> Result: ...  # type: ignore[no-untyped-def]
    def no_return(params: Params): ...  # type: ignore[no-untyped-def]
    def returns_none(params: Params) -> None: ...
    def returns_dict(params: Params) -> dict[str, int]: ...
    def params_dict(params: dict[str, int]) -> Result: ...
    def bare_base(params: BaseModel) -> Result: ...
    def hidden(params: Hidden) -> Result: ...
    def open_generic(params: Box) -> Result: ...  # type: ignore[type-arg]
    def undeclared_store(workspace: Path, params: Params) -> Result: ...
    def wrong_order(params: Params, workspace: Path) -> Result: ...
    def context_first(context: TaskContext, params: Params) -> Result: ...
    def store_as_text(workspace: str, params: Params) -> Result: ...
    def graph_as_path(graph: Path, params: Params) -> Result: ...
    def context_any(params: Params, context: Any) -> Result: ...
    def spark_any(params: Params, spark: int) -> Result: ...
    def no_spark(workspace: SparkWorkspace, params: Params) -> Result: ...
    def spark_optional(params: Params, spark: list[int]) -> Result: ...
    def not_resolved(workspace: Nowhere, params: Params) -> Result: ...  # type: ignore[name-defined]  # noqa: F821
    def generator(params: Params) -> Result:  # type: ignore[misc]
        yield Result(count=1)

    ws: dict[str, Any] = {"workspace": "songs/"}
    return [
        ({}, no_params, "it has no parameter params", "add params: P"),
        ({}, other_name, "it has a parameter parameters", "by these names"),
        ({}, default, "the parameter params has a default", "fields of the params model"),
        ({}, starred, "it takes *params", "name each parameter"),
        ({}, double_starred, "it takes **rest", "name each parameter"),
        ({}, keyword_only, "params is keyword-only", "take the bare * out"),
        ({}, positional_only, "params is positional-only", "take the / out"),
        ({}, not_annotated, "params has no annotation", "write params: P"),
        ({}, no_return, "the return value has no annotation", "write -> R"),
        ({}, returns_none, "the return value is annotated None", "BaseModel"),
        ({}, returns_dict, "the return value is annotated dict[str, int]", "BaseModel"),
        ({}, params_dict, "the parameter params is annotated dict[str, int]", "BaseModel"),
        ({}, bare_base, "the parameter params is annotated BaseModel", "BaseModel"),
        ({}, hidden, "cannot be resolved: name 'Hidden'", "outside TYPE_CHECKING"),
        ({}, open_generic, "is the generic Box without its type", "Box[int]"),
        ({}, undeclared_store, "it takes workspace, but the task declares none", "add workspace=…"),
        ({"graph": ["Song"]}, returns_one, "it has no parameter graph", "add graph: GraphTransaction"),
        (ws, returns_one, "it has no parameter workspace", "add workspace: Path"),
        (ws, wrong_order, "in the order params, workspace", "write them as workspace, params"),
        ({}, context_first, "in the order context, params", "write them as params, context"),
        (ws, store_as_text, "workspace is annotated str", "write workspace: Path"),
        ({"graph": ["Song"]}, graph_as_path, "graph is annotated Path", "GraphTransaction"),
        ({}, context_any, "context is annotated Any", "context: TaskContext"),
        ({}, spark_any, "spark is annotated int", "spark: SparkSession"),
        ({}, spark_optional, "spark is annotated list[int]", "spark: SparkSession"),
        (ws, not_resolved, "workspace cannot be resolved: name 'Nowhere'", "workspace: Path"),
        (ws, no_spark, "takes no spark", "add a last parameter spark"),
        ({}, generator, "it is a generator", "return one result"),
    ]


def returns_one(params: Params) -> Result:
    return Result(count=1)


@pytest.mark.parametrize(
    ("keywords", "function", "told", "fix"), wrong_signatures(), ids=lambda v: getattr(v, "__name__", "")
)
def test_each_rule_of_a_signature(keywords: dict[str, Any], function: Callable[..., Any], told: str, fix: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        task(**keywords)(function)
    matching = [problem for problem in refused.value.problems if told in problem.message]
    assert matching, str(refused.value)
    assert fix in matching[0].fix
    assert matching[0].where == f"{__file__}:{function.__code__.co_firstlineno}"
    assert find_task(function) is None


@pytest.mark.parametrize(
    ("keywords", "told", "fix"),
    [
        ({"owner": "x"}, "takes no keyword 'owner'", "owner_email"),
        ({"workspce": "x"}, "takes no keyword 'workspce'", "did you mean 'workspace'?"),
        ({"owner_email": "nobody"}, "'nobody' is no e-mail", "name@example.org"),
        ({"owner_email": "a b@example.org"}, "is no e-mail", "name@example.org"),
        ({"owner_email": "a@b@c"}, "is no e-mail", "name@example.org"),
        ({"owner_email": ""}, "is no e-mail", "name@example.org"),
        ({"owner_email": 3}, "owner_email is 3", "as text"),
        ({"name": "two words"}, "the name 'two words' will not do", "letters, digits"),
        ({"name": ""}, "the name '' will not do", "letters, digits"),
        ({"name": "a:b"}, "the name 'a:b' will not do", "letters, digits"),
        ({"controls": {}}, "controls is dict", "TaskControls"),
        ({"workspace": 3}, "workspace is int", "WorkspaceSpec"),
        ({"graph": "Song"}, "graph is str", 'graph=["Song"]'),
        ({"controls": TaskControls(publish=PublishBudget())}, "a publish budget needs a store", "drop publish"),
    ],
)
def test_each_rule_of_the_keywords(keywords: dict[str, Any], told: str, fix: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        task(**keywords)(returns_one)
    matching = [problem for problem in refused.value.problems if told in problem.message]
    assert matching, str(refused.value)
    assert fix in matching[0].fix


@pytest.mark.parametrize("email", ["a@b", "first.last+tag@sub.example.org", "o'neil@example.org"])
def test_an_e_mail_a_server_takes_is_taken(email: str) -> None:
    def body(params: Params) -> Result: ...

    task(owner_email=email)(body)
    assert task_of(body).owner_email == email


def test_all_problems_of_one_declaration_come_together() -> None:
    with pytest.raises(InvalidTask) as refused:

        @task(owner_email="nobody", colour="red")  # type: ignore[call-overload]
        def body(params: int = 3): ...

    assert len(refused.value.problems) == 5


def test_two_writable_stores_are_refused() -> None:
    with pytest.raises(InvalidTask, match="writes two stores"):

        @task(workspace="songs/", graph=["Song"])
        def body(workspace: Path, graph: GraphTransaction, params: Params) -> Result: ...


def test_without_parentheses() -> None:
    with pytest.raises(InvalidTask, match="with parentheses"):
        task(returns_one)  # type: ignore[call-overload]
    with pytest.raises(InvalidTask, match="keywords only; name the argument"):
        task("name")  # type: ignore[call-overload]


@pytest.mark.parametrize("thing", [functools.partial(returns_one), Result, len, 3])
def test_only_plain_functions_are_tasks(thing: Any) -> None:
    with pytest.raises(InvalidTask, match="no plain function"):
        task()(thing)


def test_a_method_is_told_by_its_self() -> None:
    with pytest.raises(InvalidTask, match="it has a parameter self"):

        class Holder:
            @task()
            def body(self, params: Params) -> Result: ...


def test_warnings_do_not_stop_a_declaration() -> None:
    short = TaskControls(timeout=TimeoutPolicy(response_seconds=60))

    @task(workspace="songs/", controls=short)
    def writes(workspace: Path, params: Params) -> Result: ...

    @task(workspace=ReadOnly("songs/"), controls=short)
    def reads(workspace: Path, params: Params) -> Result: ...

    @task(graph=ReadOnly(["Song"]), controls=TaskControls(publish=PublishBudget()))
    def reads_with_budget(graph: GraphTransaction, params: Params) -> Result: ...

    (warning,) = task_of(writes).warnings
    assert "shorter than the 80 s" in warning.message
    assert task_of(writes).controls.timeout.response_seconds == 60, "the lease is never changed"
    assert task_of(reads).warnings == ()
    assert task_of(reads).writes is None
    assert "no effect" in task_of(reads_with_budget).warnings[0].message


def test_a_wrapper_of_a_task_is_none() -> None:
    @task()
    def body(params: Params) -> Result: ...

    @functools.wraps(body)
    def wrapper(params: Params) -> Result: ...

    assert find_task(wrapper) is None
    with pytest.raises(InvalidTask, match="is not a task"):
        task_of(wrapper)


def test_tasks_of_a_module_are_its_own_in_order() -> None:
    module = types.ModuleType("songs")

    def make(name: str, home: str) -> Any:
        def body(params: Params) -> Result: ...

        body.__module__ = home
        return task(name=name)(body)

    module.b = make("b", "songs")  # type: ignore[attr-defined]
    module.a = make("a", "songs")  # type: ignore[attr-defined]
    module.again = module.b  # type: ignore[attr-defined]
    module.inner = make("inner", "songs.parts")  # type: ignore[attr-defined]
    module.foreign = make("foreign", "songs2")  # type: ignore[attr-defined]
    assert [declared.name for declared in tasks_in(module)] == ["b", "a", "inner"]


def test_a_body_gets_what_it_takes() -> None:
    @task(workspace="songs/")
    def body(workspace: Path, params: Params, context: TaskContext) -> Result:
        assert context.execution == "none"
        return Result(count=params.limit + len(workspace.parts))

    given = {"workspace": Path("a/b"), "params": Params(limit=1), "context": TaskContext(), "spark": object()}
    assert task_of(body).call(given) == Result(count=3)


def test_an_async_body_runs_to_its_end_also_under_a_running_loop() -> None:
    @task()
    async def body(params: Params) -> Result:
        await asyncio.sleep(0)
        return Result(count=params.limit)

    declared = task_of(body)
    assert declared.is_async
    assert declared.call({"params": Params(limit=4)}) == Result(count=4)

    async def notebook() -> Any:
        return declared.call({"params": Params(limit=5)})

    assert asyncio.run(notebook()) == Result(count=5)


def test_what_a_body_raises_passes() -> None:
    @task()
    async def body(params: Params) -> Result:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        task_of(body).call({"params": Params(limit=4)})


def test_graph_types_keep_their_order() -> None:
    @task(graph=["B", "A"])
    def body(graph: GraphTransaction, params: Params) -> Result: ...

    assert task_of(body).graph == GraphSpec(types=["B", "A"])
    assert task_of(body).writes == "graph"
