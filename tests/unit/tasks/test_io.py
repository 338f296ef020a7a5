import json
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator

from headgate.errors import InvalidInput, InvalidResult, ResultTooLarge
from headgate.publication import Ref
from headgate.tasks import GraphTransaction, ReadOnly, TaskDeclaration, build_output, read_input, task, task_of
from headgate.tasks.io import dump_result

T = TypeVar("T")

WORKSPACE = {"repository": "song-000123", "branch": "main", "ref_type": "commit", "ref": "c0ffee"}
GRAPH = {"graph": "music", "branch": "main", "ref_type": "commit", "ref": "beef"}


class Inner(BaseModel):
    size: int = 0


class Params(BaseModel):
    limit: int
    inner: Inner = Inner()


class Result(BaseModel):
    count: int


def declare(params: Any = Params, result: Any = Result) -> TaskDeclaration:
    def plain(params: Any) -> Any: ...

    plain.__annotations__ = {"params": params, "return": result}
    return task_of(task(name="plain")(plain))


@task(workspace="songs/", graph=ReadOnly(["Song"]))
def both(workspace: Path, graph: GraphTransaction, params: Params) -> Result:
    return Result(count=1)


def problems(declaration: TaskDeclaration, raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        read_input(declaration, raw)
    return {problem.where: f"{problem.message} {problem.fix}" for problem in refused.value.problems}


def test_good_input_becomes_values() -> None:
    given = read_input(task_of(both), {"workspace": WORKSPACE, "graph": GRAPH, "params": {"limit": 3}})
    assert given.params == Params(limit=3)
    assert given.workspace is not None
    assert given.graph is not None
    assert (given.workspace.store, given.graph.store) == ("song-000123", "music")
    assert given.refs == {"workspace": "c0ffee", "graph": "beef"}


def test_everything_wrong_is_told_at_once() -> None:
    """Invariant 9: bad input gets an error that names the input and the fix."""
    told = problems(
        task_of(both),
        {"workspace": {**WORKSPACE, "ref_type": "branch", "extra": 1}, "parms": {}, "params": {"limit": "many"}},
    )
    assert set(told) == {"workspace.ref_type", "workspace.extra", "parms", "graph", "params.limit"}
    assert "did you mean 'params'?" in told["parms"]
    assert "exactly workspace, graph, params" in told["graph"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"ref_type": "branch"}, "workspace.ref_type"),
        ({"ref": ""}, "workspace.ref"),
        ({"ref": None}, "workspace.ref"),
        ({"ref": 7}, "workspace.ref"),
        ({"branch": "two words"}, "workspace.branch"),
        ({"repository": "a\nb"}, "workspace.repository"),
        ({"graph": "music"}, "workspace.graph"),
    ],
)
def test_a_store_block_is_exact(change: dict[str, Any], where: str) -> None:
    raw = {"workspace": {**WORKSPACE, **change}, "graph": GRAPH, "params": {"limit": 1}}
    assert set(problems(task_of(both), raw)) == {where}


def test_a_missing_field_of_a_block() -> None:
    block = {key: value for key, value in WORKSPACE.items() if key != "ref"}
    assert set(problems(task_of(both), {"workspace": block, "graph": GRAPH, "params": {"limit": 1}})) == {
        "workspace.ref"
    }


@pytest.mark.parametrize("raw", [None, [], "text", 3, {"limit": float("nan"), "x": object()}])
def test_params_that_are_no_object(raw: Any) -> None:
    assert all(where.startswith("params") for where in problems(declare(), {"params": raw}))


def test_extras_are_forbidden_at_every_depth_and_the_model_is_left_alone() -> None:
    raw = {"params": {"limit": 1, "limmit": 2, "inner": {"size": 1, "sice": 2}}}
    told = problems(declare(), raw)
    assert set(told) == {"params.limmit", "params.inner.sice"}
    assert "did you mean 'limit'?" in told["params.limmit"]
    assert Params.model_validate(raw["params"]) == Params(limit=1, inner=Inner(size=1)), (
        "the class itself ignores extras"
    )


class Aliased(BaseModel):
    song_id: int = Field(alias="songId")
    spelled: str = Field(validation_alias="spelledIn", serialization_alias="spelledOut")


def test_aliases() -> None:
    declaration = declare(Aliased, Aliased)
    given = read_input(declaration, {"params": {"songId": 1, "spelledIn": "x"}})
    assert given.params == Aliased(songId=1, spelledIn="x")
    assert dump_result(declaration, given.params) == {"songId": 1, "spelledOut": "x"}
    told = problems(declaration, {"params": {"song_id": 1, "spelledIn": "x"}})
    assert set(told) == {"params.songId", "params.song_id"}


class Computed(BaseModel):
    plays: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def popular(self) -> bool:
        return self.plays > 100


def test_computed_fields_go_out_and_do_not_come_in() -> None:
    declaration = declare(Computed, Computed)
    assert dump_result(declaration, Computed(plays=200)) == {"plays": 200, "popular": True}
    assert read_input(declaration, {"params": {"plays": 1}}).params == Computed(plays=1)
    assert set(problems(declaration, {"params": {"plays": 1, "popular": True}})) == {"params.popular"}


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


def test_recursive_models() -> None:
    declaration = declare(Tree, Tree)
    raw = {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "children": []}]}]}
    tree = read_input(declaration, {"params": raw}).params
    assert dump_result(declaration, tree) == raw
    deep = {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "colour": "red"}]}]}
    assert set(problems(declaration, {"params": deep})) == {"params.children.0.children.0.colour"}


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Pets(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Cat | Dog | None = None


def test_discriminated_unions() -> None:
    declaration = declare(Pets, Pets)
    pets = read_input(declaration, {"params": {"pet": {"kind": "dog", "tricks": ["sit"]}}}).params
    assert pets == Pets(pet=Dog(kind="dog", tricks=["sit"]))
    assert dump_result(declaration, pets)["pet"] == {"kind": "dog", "tricks": ["sit"]}
    assert set(problems(declaration, {"params": {"pet": {"kind": "cat", "tricks": []}}})) == {"params.pet.cat.tricks"}
    assert set(problems(declaration, {"params": {"pet": {"kind": "cow"}}})) == {"params.pet"}


class Box(BaseModel, Generic[T]):
    held: T


def test_generics() -> None:
    declaration = declare(Box[Inner], Box[list[int]])
    assert read_input(declaration, {"params": {"held": {"size": 2}}}).params == Box[Inner](held=Inner(size=2))
    assert set(problems(declaration, {"params": {"held": {"size": 2, "x": 1}}})) == {"params.held.x"}
    assert dump_result(declaration, Box[list[int]](held=[1, 2])) == {"held": [1, 2]}


class Strictly(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    pair: tuple[int, int]


def test_a_strict_model_reads_what_json_has_no_type_for() -> None:
    declaration = declare(Strictly, Strictly)
    given = read_input(declaration, {"params": {"day": "2024-02-29", "pair": [1, 2]}})
    assert given.params == Strictly(day=date(2024, 2, 29), pair=(1, 2))
    assert dump_result(declaration, given.params) == {"day": "2024-02-29", "pair": [1, 2]}


class Rows(RootModel[list[Inner]]):
    pass


def test_root_models() -> None:
    declaration = declare(Rows, Rows)
    assert dump_result(declaration, read_input(declaration, {"params": [{"size": 1}]}).params) == [{"size": 1}]
    assert set(problems(declaration, {"params": [{"size": 1, "x": 2}]})) == {"params.0.x"}


class Split(BaseModel):
    words: list[str]

    @field_validator("words", mode="before")
    @classmethod
    def _split(cls, value: str) -> list[str]:
        return value.split()


def test_a_validator_that_is_not_idempotent_runs_once() -> None:
    declaration = declare(Split, Split)
    given = read_input(declaration, {"params": {"words": "a b"}}).params
    assert dump_result(declaration, given) == {"words": ["a", "b"]}


def test_the_output_has_the_blocks_with_the_published_ref() -> None:
    declaration = task_of(both)
    given = read_input(declaration, {"workspace": WORKSPACE, "graph": GRAPH, "params": {"limit": 3}})
    output = build_output(declaration, given, Result(count=5), published={"workspace": Ref("new")})
    assert output == {"workspace": {**WORKSPACE, "ref": "new"}, "graph": GRAPH, "result": {"count": 5}}
    assert list(output) == list(declaration.output_keys)
    assert json.loads(json.dumps(output)) == output


class Wider(Result):
    secret: str = "kept here"


def test_a_result_is_what_the_body_declares() -> None:
    declaration = declare()
    assert dump_result(declaration, Wider(count=1)) == {"count": 1}, "fields of a subclass stay inside"
    for wrong in ({"count": 1}, None, Params(limit=1)):
        with pytest.raises(InvalidResult, match="not Result"):
            dump_result(declaration, wrong)
    changed = Result(count=1)
    changed.count = "many"  # type: ignore[assignment]
    with pytest.raises(InvalidResult, match="count"):
        dump_result(declaration, changed)
    with pytest.raises(InvalidResult, match=r"Result\.count is not set"):
        dump_result(declaration, Result.model_construct())


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Holder(BaseModel):
    rows: list[Result] = []
    named: dict[str, Open] = {}


def test_nested_parts_of_a_result_are_checked_too() -> None:
    declaration = declare(result=Holder)
    with pytest.raises(InvalidResult, match=r"Holder\.rows\.1.count is not set"):
        dump_result(declaration, Holder(rows=[Result(count=1), Result.model_construct()]))
    with pytest.raises(InvalidResult, match=r"Holder\.named\.a\.colour is no field of Open"):
        dump_result(declaration, Holder(named={"a": Open.model_validate({"colour": "red"})}))


class Measured(BaseModel):
    mean: float


def test_a_number_json_does_not_have_is_no_result() -> None:
    with pytest.raises(InvalidResult):
        dump_result(declare(result=Measured), Measured(mean=float("nan")))


class Text(BaseModel):
    text: str


def test_a_result_the_server_would_not_take_is_told_before_it_is_sent() -> None:
    declaration = declare(result=Text)
    given = read_input(declaration, {"params": {"limit": 1}})
    assert build_output(declaration, given, Text(text="é" * 10), max_bytes=100)
    with pytest.raises(ResultTooLarge) as refused:
        build_output(declaration, given, Text(text="é" * 50), max_bytes=100)
    assert refused.value.size > refused.value.limit == 100
    assert "file" in refused.value.hint
