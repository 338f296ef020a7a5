import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, computed_field
from typing_extensions import TypedDict

from headgate.errors import InvalidInput, InvalidTask
from headgate.publication import Ref
from headgate.tasks import (
    ExecutionLimits,
    GraphTransaction,
    ReadOnly,
    RetryPolicy,
    TaskControls,
    TaskDeclaration,
    TimeoutPolicy,
    build_output,
    read_input,
    task,
    task_of,
)
from headgate.tasks.taskdef import input_schema, output_schema, render, task_def, task_defs

T = TypeVar("T")
WORKSPACE = {"repository": "song-000123", "branch": "main", "ref_type": "commit", "ref": "c0ffee"}


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Box(BaseModel, Generic[T]):
    held: T


class Params(BaseModel):
    song_id: int = Field(alias="songId", ge=0)
    day: date | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat()
    tree: Tree | None = None
    box: Box[int] = Box[int](held=1)
    free: dict[str, Any] = {}


class Result(BaseModel):
    plays: int = Field(serialization_alias="playCount")
    tree: Tree = Tree(name="root")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def popular(self) -> bool:
        return self.plays > 100


CONTROLS = TaskControls(
    retry=RetryPolicy(
        count=5, logic="LINEAR_BACKOFF", delay_seconds=2, max_delay_seconds=30, jitter_ms=500, backoff_scale=3
    ),
    timeout=TimeoutPolicy(policy="RETRY", seconds=900, response_seconds=120, poll_seconds=60, total_seconds=3600),
    limits=ExecutionLimits(concurrent=4, rate_per_window=10, window_seconds=60),
)


@task(owner_email="songs@example.org", workspace="songs/", controls=CONTROLS)
def popular(workspace: Path, params: Params) -> Result:
    """Which songs are popular."""
    return Result(plays=1)


@task(graph=ReadOnly(["Song"]))
def unowned(graph: GraphTransaction, params: Params) -> Result:
    return Result(plays=1)


def test_every_field_of_a_task_def() -> None:
    made = task_def(task_of(popular))
    schemas = {key: made.pop(key) for key in ("inputSchema", "outputSchema")}
    assert made == {
        "name": "popular",
        "description": "Which songs are popular.",
        "ownerEmail": "songs@example.org",
        "retryCount": 5,
        "retryLogic": "LINEAR_BACKOFF",
        "retryDelaySeconds": 2,
        "maxRetryDelaySeconds": 30,
        "backoffScaleFactor": 3,
        "backoffJitterMs": 500,
        "timeoutPolicy": "RETRY",
        "timeoutSeconds": 900,
        "responseTimeoutSeconds": 120,
        "pollTimeoutSeconds": 60,
        "totalTimeoutSeconds": 3600,
        "concurrentExecLimit": 4,
        "rateLimitPerFrequency": 10,
        "rateLimitFrequencyInSeconds": 60,
        "inputKeys": ["workspace", "params"],
        "outputKeys": ["workspace", "result"],
        "enforceSchema": True,
    }
    for side, schema in (("input", schemas["inputSchema"]), ("output", schemas["outputSchema"])):
        assert schema["name"] == f"popular_{side}"
        assert (schema["version"], schema["type"]) == (1, "JSON")
        jsonschema.Draft202012Validator.check_schema(schema["data"])


def test_the_owner_comes_from_the_settings_where_the_task_names_none() -> None:
    assert task_def(task_of(unowned), owner_email="team@example.org")["ownerEmail"] == "team@example.org"
    assert task_def(task_of(popular), owner_email="team@example.org")["ownerEmail"] == "songs@example.org"
    with pytest.raises(InvalidTask, match="owner_email") as refused:
        task_def(task_of(unowned))
    assert str(task_of(unowned).source) in str(refused.value)


def test_tasks_without_owner_are_told_together() -> None:
    def other(params: Params) -> Result: ...

    task()(other)
    with pytest.raises(InvalidTask) as refused:
        task_defs([task_of(unowned), task_of(other), task_of(popular)])
    assert len(refused.value.problems) == 2


GOOD: list[dict[str, Any]] = [
    {"songId": 1},
    {"songId": 1, "day": "2024-02-29", "pet": {"kind": "dog", "tricks": ["sit"]}},
    {"songId": 0, "tree": {"name": "a", "children": [{"name": "b"}]}, "box": {"held": 3}, "free": {"any": [1, {}]}},
]
BAD: list[dict[str, Any]] = [
    {},
    {"song_id": 1},
    {"songId": -1},
    {"songId": 1, "colour": "red"},
    {"songId": 1, "pet": {"kind": "cat", "tricks": []}},
    {"songId": 1, "pet": {"kind": "cow"}},
    {"songId": 1, "tree": {"name": "a", "children": [{"name": "b", "colour": "red"}]}},
    {"songId": 1, "box": {"held": 3, "more": 4}},
    {"songId": 1, "box": {"held": "x"}},
]


@pytest.mark.parametrize("params", GOOD)
def test_the_schema_takes_what_the_boundary_takes(params: dict[str, Any]) -> None:
    declared, raw = task_of(popular), {"workspace": WORKSPACE, "params": params}
    given = read_input(declared, raw)
    jsonschema.validate(raw, input_schema(declared))
    output = build_output(declared, given, Result(plays=3), published={"workspace": Ref("new")})
    jsonschema.validate(output, output_schema(declared))
    assert output["result"]["playCount"] == 3


@pytest.mark.parametrize("params", BAD)
def test_the_schema_refuses_what_the_boundary_refuses(params: dict[str, Any]) -> None:
    declared, raw = task_of(popular), {"workspace": WORKSPACE, "params": params}
    with pytest.raises(Exception, match="not valid"):
        read_input(declared, raw)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(raw, input_schema(declared))


@pytest.mark.parametrize(
    "raw",
    [
        {"params": {"songId": 1}},
        {"workspace": {**WORKSPACE, "ref_type": "branch"}, "params": {"songId": 1}},
        {"workspace": {**WORKSPACE, "more": 1}, "params": {"songId": 1}},
        {"workspace": WORKSPACE, "params": {"songId": 1}, "more": 1},
    ],
)
def test_the_schema_refuses_wrong_blocks_and_keys(raw: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(raw, input_schema(task_of(popular)))


def test_the_output_schema_knows_computed_fields_and_no_others() -> None:
    schema = output_schema(task_of(popular))
    result = {"playCount": 1, "tree": {"name": "a"}, "popular": True}
    jsonschema.validate({"workspace": WORKSPACE, "result": result}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"workspace": WORKSPACE, "result": {**result, "colour": "red"}}, schema)


def test_a_free_dict_stays_free() -> None:
    raw = {"workspace": WORKSPACE, "params": {"songId": 1, "free": {"anything": {"at": "all"}}}}
    jsonschema.validate(raw, input_schema(task_of(popular)))


@dataclass
class Point:
    x: int


class Size(TypedDict):
    width: int


class Shapes(BaseModel):
    point: Point
    size: Size


@pytest.mark.parametrize(
    ("shapes", "good"),
    [
        ({"point": {"x": 1}, "size": {"width": 2}}, True),
        ({"point": {"x": 1, "y": 2}, "size": {"width": 2}}, False),
        ({"point": {"x": 1}, "size": {"width": 2, "height": 3}}, False),
    ],
)
def test_dataclasses_and_typed_dicts_are_closed_too(shapes: dict[str, Any], good: bool) -> None:
    def body(params: Shapes) -> Result: ...

    task()(body)
    declared, raw = task_of(body), {"params": shapes}
    assert jsonschema.Draft202012Validator(input_schema(declared)).is_valid(raw) is good
    if good:
        assert read_input(declared, raw).params == Shapes.model_validate(shapes)
    else:
        with pytest.raises(InvalidInput, match="no such field"):
            read_input(declared, raw)


class Unwritable(BaseModel):
    thing: Callable[[], int]


def test_a_model_that_json_cannot_hold_is_told() -> None:
    def body(params: Unwritable) -> Result: ...

    task()(body)
    with pytest.raises(InvalidTask, match="the params model Unwritable of task body has no JSON Schema"):
        task_def(task_of(body), owner_email="a@example.org")


@given(
    st.builds(
        RetryPolicy,
        count=st.integers(0, 10),
        logic=st.sampled_from(["EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"]),
        jitter_ms=st.integers(0, 1000),
        backoff_scale=st.integers(1, 5),
    ),
    st.permutations([popular, unowned]),
)
def test_the_same_declarations_give_the_same_text_in_any_order(retry: RetryPolicy, functions: list[Any]) -> None:
    def text(order: list[Any]) -> str:
        declared: list[TaskDeclaration] = []
        for function in order:
            declaration = task_of(function)
            declared.append(type(declaration)(**{**vars(declaration), "controls": TaskControls(retry=retry)}))
        return render(task_defs(declared, owner_email="team@example.org"))

    assert text(functions) == text([popular, unowned])
    assert json.loads(text(functions))[0]["retryCount"] == retry.count


def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_taskdef as t\n"
        "from headgate.tasks.taskdef import render, task_defs\n"
        "from headgate.tasks import task_of\n"
        "print(render(task_defs([task_of(t.popular)])))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program, str(Path(__file__).parent)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
