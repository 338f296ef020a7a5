"""What registering a task would change, and whether workflows that run would still fit it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from headgate.orchestrators.conductor.schemas import breaking_changes
from headgate.orchestrators.conductor.taskdefs import Standing, difference
from headgate.tasks import TaskControls, TimeoutPolicy, task, task_of
from headgate.tasks.taskdef import task_def


class Inner(BaseModel):
    a: int


class Tree(BaseModel):
    children: list[Tree] = []
    name: str = ""


class Result(BaseModel):
    n: int = 0


def defined(controls: TaskControls | None = None, **fields: Any) -> dict[str, Any]:
    """The TaskDef of a task with these params."""
    params = create_model("Params", **fields)

    def body(params: Any) -> Result:
        return Result()

    body.__annotations__ = {"params": params, "return": Result}
    made = task(name="taken", owner_email="me@example.com", controls=controls)(body)
    return task_def(task_of(made))


def test_a_task_the_server_does_not_know_is_new() -> None:
    assert difference(defined(), None).standing is Standing.NEW


def test_a_task_the_server_knows_as_it_is_is_the_same_whatever_the_server_adds() -> None:
    told = defined(n=(int, 1))
    kept = {**told, "createTime": 1, "inputSchema": {**told["inputSchema"], "createdBy": "somebody"}}
    assert difference(told, kept).standing is Standing.SAME


def test_fields_that_differ_are_named_with_both_values() -> None:
    kept = defined()
    told = defined(TaskControls(timeout=TimeoutPolicy(response_seconds=77)))
    found = difference(told, kept)
    assert (found.standing, found.fields, found.breaking) == (Standing.CHANGED, ["responseTimeoutSeconds"], ())
    assert str(found.changes[0]) == "responseTimeoutSeconds: 600 at the server, 77 in the code"


Widened = [
    ({"n": (int, ...)}, {"n": (int, 3)}),
    ({"n": (int, ...)}, {"n": (float, ...)}),
    ({"n": (int, ...)}, {"n": (int, ...), "more": (str, "")}),
    ({"n": (int, ...)}, {"n": (int | str, ...)}),
    ({"n": (int | None, None)}, {"n": (int | str | None, None)}),
    ({"n": (Literal["a"], ...)}, {"n": (Literal["a", "b"], ...)}),
    ({"n": (Literal["a", "b"], ...)}, {"n": (str, ...)}),
    ({"n": (Annotated[int, Field(ge=3)], ...)}, {"n": (Annotated[int, Field(ge=1)], ...)}),
    ({"n": (Annotated[int, Field(description="x")], ...)}, {"n": (Annotated[int, Field(description="y")], ...)}),
    ({"n": (list[Inner], ...)}, {"n": (list[Inner], [])}),
    ({"n": (Tree, ...)}, {"n": (Tree, Tree())}),
    ({"n": (dict[str, int], ...)}, {"n": (dict[str, float], ...)}),
]


@pytest.mark.parametrize(("before", "after"), Widened, ids=range(len(Widened)))
def test_params_that_take_what_they_took_break_nothing(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert difference(defined(**after), defined(**before)).breaking == ()


Narrowed = [
    ({"n": (int, 1)}, {}, "input.params.n is gone"),
    ({}, {"n": (int, ...)}, "input.params.n is required now"),
    ({"n": (int, 1)}, {"n": (int, ...)}, "input.params.n is required now"),
    ({"n": (int, ...)}, {"n": (str, ...)}, "input.params.n was integer and has to be string now"),
    ({"n": (float, ...)}, {"n": (int, ...)}, "input.params.n was number and has to be integer now"),
    ({"n": (int | None, None)}, {"n": (int, 1)}, "input.params.n no longer takes choice 2"),
    ({"n": (Literal["a", "b"], ...)}, {"n": (Literal["a"], ...)}, "input.params.n no longer takes 'b'"),
    ({"n": (str, ...)}, {"n": (Literal["a", "b"], ...)}, "input.params.n takes only 'a', 'b' now"),
    ({"n": (int, ...)}, {"n": (Annotated[int, Field(ge=3)], ...)}, "input.params.n has minimum 3 now"),
    ({"n": (str, ...)}, {"n": (Annotated[str, Field(pattern="x")], ...)}, "input.params.n has pattern 'x' now"),
    ({"n": (list[int], ...)}, {"n": (list[str], ...)}, "input.params.n[] was integer and has to be string now"),
    (
        {"n": (dict[str, int], ...)},
        {"n": (dict[str, str], ...)},
        "input.params.n.* was integer and has to be string now",
    ),
    ({"n": (list[Any], ...)}, {"n": (list[int], ...)}, "input.params.n[] has to be integer now"),
]


@pytest.mark.parametrize(("before", "after", "told"), Narrowed, ids=[told for _, _, told in Narrowed])
def test_params_that_refuse_what_they_took_are_told(before: dict[str, Any], after: dict[str, Any], told: str) -> None:
    assert told in difference(defined(**after), defined(**before)).breaking


def test_a_store_that_comes_or_goes_breaks_the_input() -> None:
    assert breaking_changes(
        {"properties": {"params": {}, "workspace": {"type": "object"}}, "additionalProperties": False},
        {"properties": {"params": {}}, "additionalProperties": False},
    ) == ["input.workspace is gone"]
