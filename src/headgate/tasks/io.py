"""The typed boundary of a task: its validated input, and the output built from what was published.

Extra fields are forbidden at every depth by the validation call itself. The models stay as their author wrote them:
they are neither copied nor changed, so aliases, computed fields, recursion, unions and generics keep working.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from headgate.errors import InvalidInput, InvalidResult, Problem, ResultTooLarge
from headgate.publication import Ref
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.declaring import nearest

Name = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\s\x00-\x1f]+$")]


class _Block(BaseModel, frozen=True):
    model_config = ConfigDict(extra="forbid", strict=True)


class WorkspaceBlock(_Block, frozen=True):
    """Which commit of which repository a task reads, and the branch its publish is for."""

    repository: Name
    branch: Name
    ref_type: Literal["commit"]
    ref: Name

    @property
    def store(self) -> str:
        """The name of the store: here the repository."""
        return self.repository

    @property
    def input_ref(self) -> Ref:
        return Ref(self.ref)


class GraphBlock(_Block, frozen=True):
    """Which commit of which graph a task reads, and the branch its publish is for."""

    graph: Name
    """A name from the settings, or a URI under a configured root."""
    branch: Name
    ref_type: Literal["commit"]
    ref: Name

    @property
    def store(self) -> str:
        """The name of the store: here the graph."""
        return self.graph

    @property
    def input_ref(self) -> Ref:
        return Ref(self.ref)


StoreBlock: TypeAlias = WorkspaceBlock | GraphBlock

BLOCKS: dict[str, type[StoreBlock]] = {"workspace": WorkspaceBlock, "graph": GraphBlock}
"""The block of each store, by input key."""


@dataclass(frozen=True, kw_only=True)
class TaskInput:
    """Input that has been checked: nothing was downloaded for it yet."""

    params: BaseModel
    workspace: WorkspaceBlock | None = None
    graph: GraphBlock | None = None

    @property
    def blocks(self) -> dict[str, StoreBlock]:
        """The store blocks by input key."""
        given: dict[str, StoreBlock | None] = {"workspace": self.workspace, "graph": self.graph}
        return {name: block for name, block in given.items() if block is not None}

    @property
    def refs(self) -> dict[str, Ref]:
        """The input ref of each store, by input key."""
        return {name: block.input_ref for name, block in self.blocks.items()}


_M = TypeVar("_M", bound=BaseModel)


def read_input(declaration: TaskDeclaration, raw: Mapping[str, Any]) -> TaskInput:
    """The validated input of a task; `InvalidInput` with everything that is wrong with it."""
    keys = declaration.input_keys
    problems = [
        Problem(str(key), "the task declares no such input", nearest(str(key), keys)) for key in raw if key not in keys
    ]
    needed = f"the input needs exactly {', '.join(keys)}"
    problems += [Problem(key, "it is missing", needed) for key in keys if key not in raw]
    blocks = {name: _validated(BLOCKS[name], raw[name], name, problems) for name in declaration.stores if name in raw}
    params = _validated(declaration.params, raw["params"], "params", problems) if "params" in raw else None
    if problems or params is None:
        raise InvalidInput(
            message=f"the input of task {declaration.name} is not valid",
            hint="fix the input and start again: a retry gets the same input",
            problems=tuple(problems),
        )
    return TaskInput(params=params, **blocks)  # type: ignore[arg-type]


def _validated(model: type[_M], value: Any, place: str, problems: list[Problem]) -> _M | None:
    try:
        # Input comes as JSON: what JSON has no type for (dates, tuples, bytes) is read from text, as Pydantic does.
        return model.model_validate_json(json.dumps(value), extra="forbid")
    except ValidationError as error:
        problems += [_told(found, model, place) for found in error.errors(include_url=False)]
    except (TypeError, ValueError) as error:
        problems.append(Problem(place, f"it is no JSON value ({error})"))
    return None


def _told(found: Any, model: type[BaseModel], place: str) -> Problem:
    where = ".".join([place, *(str(part) for part in found["loc"])])
    if found["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = [field.alias or name for name, field in model.model_fields.items()]
        fix = nearest(str(found["loc"][-1]), known) if len(found["loc"]) == 1 else "take it out"
        return Problem(where, "there is no such field", fix)
    if found["type"] == "missing":
        return Problem(where, "it is missing")
    shown = repr(found["input"])
    return Problem(where, f"{found['msg']}, not {shown if len(shown) <= 80 else shown[:79] + '…'}")


MAX_OUTPUT_BYTES = 3 * 1024 * 1024
"""What a Conductor server takes as a task's output unless it is set up otherwise."""


def build_output(
    declaration: TaskDeclaration,
    task_input: TaskInput,
    result: Any,
    *,
    published: Mapping[str, Ref] | None = None,
    max_bytes: int = MAX_OUTPUT_BYTES,
) -> dict[str, Any]:
    """The output block: every store block, its ref replaced by what was published, and the result.

    `InvalidResult` if the body did not return what it declares, `ResultTooLarge` if the orchestrator would not take it.
    """
    refs = {**task_input.refs, **(published or {})}
    output: dict[str, Any] = {
        name: block.model_copy(update={"ref": str(refs[name])}).model_dump()
        for name, block in task_input.blocks.items()
    }
    output["result"] = dump_result(declaration, result)
    size = len(json.dumps(output, ensure_ascii=False).encode())
    if size > max_bytes:
        raise ResultTooLarge(
            message=f"the output of task {declaration.name} is larger than the orchestrator takes",
            hint="write the data to a file of the workspace and return its path",
            size=size,
            limit=max_bytes,
        )
    return output


def dump_result(declaration: TaskDeclaration, result: Any) -> Any:
    """The result as JSON data, by alias and with computed fields; `InvalidResult` if it is not what was declared."""
    if not isinstance(result, declaration.result):
        raise InvalidResult(
            message=f"task {declaration.name} returned {type(result).__name__}, not {declaration.result.__name__}",
            hint=f"return a {declaration.result.__name__}",
        )
    try:
        _check_complete(result, declaration.result.__name__)
        dumped = TypeAdapter(declaration.result).dump_python(result, mode="json", by_alias=True, warnings="error")
        json.dumps(dumped, allow_nan=False)
    except (PydanticSerializationError, AttributeError, TypeError, ValueError) as error:
        raise InvalidResult(
            message=f"the result of task {declaration.name} is not a valid {declaration.result.__name__}: {error}",
            hint="a field was changed to a value its type does not allow",
        ) from error
    return dumped


def _check_complete(value: Any, place: str) -> None:
    # Serialising leaves out, without a word, what `model_construct` did not set, and keeps what it added.
    if isinstance(value, BaseModel):
        if missing := type(value).model_fields.keys() - value.__dict__.keys():
            raise ValueError(f"{place}.{min(missing)} is not set")
        if value.model_extra:
            raise ValueError(f"{place}.{min(value.model_extra)} is no field of {type(value).__name__}")
        for name, inner in value.__dict__.items():
            _check_complete(inner, f"{place}.{name}")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check_complete(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for position, inner in enumerate(value):
            _check_complete(inner, f"{place}.{position}")
