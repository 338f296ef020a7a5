"""The TaskDef of a task: what a Conductor server is told about it, as our own JSON.

The same declaration always gives the same text: keys are in a fixed order, and nothing of the machine or the time is in
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from headgate.errors import InvalidTask, Problem
from headgate.tasks.declaration import TaskDeclaration
from headgate.tasks.io import BLOCKS

SCHEMA_VERSION = 1
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _ExtrasForbidden(GenerateJsonSchema):
    """Says of every object with fields what validation at the boundary does: no others."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return self._closed(super().typed_dict_schema(schema))

    def _closed(self, made: JsonSchemaValue) -> JsonSchemaValue:
        target = self.get_schema_from_definitions(made["$ref"]) if "$ref" in made else made
        if target is not None and "properties" in target:
            target["additionalProperties"] = False
        return made


def input_schema(declaration: TaskDeclaration) -> dict[str, Any]:
    """The JSON Schema of a task's whole input."""
    return _schema(declaration, "input", {"params": declaration.params}, "validation")


def output_schema(declaration: TaskDeclaration) -> dict[str, Any]:
    """The JSON Schema of a task's whole output, computed fields included."""
    return _schema(declaration, "output", {"result": declaration.result}, "serialization")


def _schema(
    declaration: TaskDeclaration,
    side: str,
    models: dict[str, type[BaseModel]],
    mode: Literal["validation", "serialization"],
) -> dict[str, Any]:
    fields: dict[str, Any] = {name: (BLOCKS[name], ...) for name in declaration.stores}
    fields |= {name: (model, ...) for name, model in models.items()}
    whole = create_model(f"{declaration.name}_{side}", **fields)
    try:
        schema = whole.model_json_schema(by_alias=True, mode=mode, schema_generator=_ExtrasForbidden)
    except Exception as error:
        ((key, model),) = models.items()
        told = f"the {key} model {model.__name__} of task {declaration.name} has no JSON Schema"
        raise InvalidTask(
            message=told,
            hint="use field types that JSON can hold",
            problems=(Problem(str(declaration.source), told, str(error).partition("\n")[0]),),
        ) from error
    return {"$schema": _DIALECT, **schema}


def task_def(declaration: TaskDeclaration, *, owner_email: str | None = None) -> dict[str, Any]:
    """The TaskDef of a task; `owner_email` is the settings', for a task that names none."""
    owner = declaration.owner_email or owner_email
    if not owner:
        raise InvalidTask(
            message=f"the task {declaration.name} has no owner, and servers want an e-mail address",
            hint="write @task(owner_email=…), or set owner_email in headgate.toml",
            problems=(Problem(str(declaration.source), f"task {declaration.name}: no owner_email"),),
        )
    retry, timeout, limits = declaration.controls.retry, declaration.controls.timeout, declaration.controls.limits
    return {
        "name": declaration.name,
        "description": declaration.description,
        "ownerEmail": owner,
        "retryCount": retry.count,
        "retryLogic": retry.logic,
        "retryDelaySeconds": retry.delay_seconds,
        "maxRetryDelaySeconds": retry.max_delay_seconds,
        "backoffScaleFactor": retry.backoff_scale,
        "backoffJitterMs": retry.jitter_ms,
        "timeoutPolicy": timeout.policy,
        "timeoutSeconds": timeout.seconds,
        "responseTimeoutSeconds": timeout.response_seconds,
        "pollTimeoutSeconds": timeout.poll_seconds,
        "totalTimeoutSeconds": timeout.total_seconds,
        "concurrentExecLimit": limits.concurrent,
        "rateLimitPerFrequency": limits.rate_per_window,
        "rateLimitFrequencyInSeconds": limits.window_seconds,
        "inputKeys": list(declaration.input_keys),
        "outputKeys": list(declaration.output_keys),
        "inputSchema": _schema_def(f"{declaration.name}_input", input_schema(declaration)),
        "outputSchema": _schema_def(f"{declaration.name}_output", output_schema(declaration)),
        "enforceSchema": True,
    }


def _schema_def(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "version": SCHEMA_VERSION, "type": "JSON", "data": data}


def task_defs(declarations: Iterable[TaskDeclaration], *, owner_email: str | None = None) -> list[dict[str, Any]]:
    """The TaskDefs of several tasks, in order of name; `InvalidTask` with the problems of all of them."""
    made, problems = [], []
    for declaration in sorted(declarations, key=lambda one: one.name):
        try:
            made.append(task_def(declaration, owner_email=owner_email))
        except InvalidTask as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidTask(
            message=f"{len(problems)} tasks cannot be registered",
            hint=problems[0].hint,
            problems=tuple(problem for error in problems for problem in error.problems),
        )
    return made


def render(made: list[dict[str, Any]]) -> str:
    """TaskDefs as the text of a file."""
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
