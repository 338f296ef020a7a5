"""What a Conductor server knows about our tasks, what it should know, and the difference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headgate.errors import NotFound
from headgate.orchestrators.conductor.client import Client
from headgate.orchestrators.conductor.schemas import breaking_changes

_SCHEMAS = ("inputSchema", "outputSchema")
_OF_A_SCHEMA = ("name", "version", "type", "data")
_LONGEST = 80


class Standing(StrEnum):
    """How a task stands at the server."""

    NEW = "new"
    SAME = "same"
    CHANGED = "changed"


@dataclass(frozen=True)
class FieldChange:
    """One field, by its path, as the server has it and as the code declares it."""

    field: str
    server: str
    code: str

    def __str__(self) -> str:
        return f"{self.field}: {self.server} at the server, {self.code} in the code"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What registering a task would change."""

    task: str
    standing: Standing
    changes: tuple[FieldChange, ...] = ()
    breaking: tuple[str, ...] = ()
    """What input that was right so far would no longer pass."""

    @property
    def fields(self) -> list[str]:
        """The fields of the TaskDef that differ."""
        return list(dict.fromkeys(change.field.partition(".")[0] for change in self.changes))


def server_task_def(client: Client, name: str) -> dict[str, Any] | None:
    """The TaskDef the server has; None if it has none of that name."""
    try:
        found = client.call(
            *("GET", "metadata", "taskdefs", name),
            doing=f"show the TaskDef {name}",
            kind="TaskDef",
            name=name,
            repeat=True,
        )
    except NotFound:
        return None
    return found if isinstance(found, dict) else None


def difference(told: Mapping[str, Any], kept: Mapping[str, Any] | None) -> Difference:
    """Between the TaskDef of the code and the server's; fields that only the server has are its own affair."""
    name = str(told["name"])
    if kept is None:
        return Difference(task=name, standing=Standing.NEW)
    changes = tuple(change for key in told for change in _changes(key, _plain(key, kept.get(key)), told[key]))
    if not changes:
        return Difference(task=name, standing=Standing.SAME)
    schemas = [(one.get("inputSchema") or {}).get("data") or {} for one in (kept, told)]
    return Difference(task=name, standing=Standing.CHANGED, changes=changes, breaking=tuple(breaking_changes(*schemas)))


def register(client: Client, told: Mapping[str, Any], standing: Standing) -> None:
    """Have the server know the task as the code declares it."""
    name = str(told["name"])
    doing = f"register the task {name}"
    if standing is Standing.NEW:
        client.call("POST", "metadata", "taskdefs", payload=[dict(told)], doing=doing, kind="TaskDef", name=name)
    elif standing is Standing.CHANGED:
        client.call("PUT", "metadata", "taskdefs", payload=dict(told), doing=doing, kind="TaskDef", name=name)


def _plain(key: str, value: Any) -> Any:
    """Without what the server adds to a schema: when it was made, and by whom."""
    if key in _SCHEMAS and isinstance(value, Mapping):
        return {name: value[name] for name in _OF_A_SCHEMA if name in value}
    return value


def _changes(path: str, server: Any, code: Any) -> Iterator[FieldChange]:
    if server == code:
        return
    if isinstance(server, Mapping) and isinstance(code, Mapping):
        for key in dict.fromkeys([*server, *code]):
            yield from _changes(f"{path}.{key}", server.get(key), code.get(key))
        return
    yield FieldChange(path, _shown(server), _shown(code))


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
