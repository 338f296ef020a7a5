"""Workflow definitions in files, JSON or the same in YAML, with the line of everything in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from headgate.errors import InvalidInput

Place: TypeAlias = tuple[str | int, ...]
"""The way from the top of a definition to a part of it."""
Where: TypeAlias = Callable[[Place], str]
"""Names a place for a person."""

SUFFIXES = (".json", ".yaml", ".yml")


def by_path(place: Place) -> str:
    """For a definition that is in no file: `tasks[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".") or "workflow"


def read_file(path: Path) -> tuple[Any, Where]:
    """What a file holds, and where in the file each part of it is."""
    try:
        text = path.read_text()
    except OSError as error:
        message = f"the workflow {path} cannot be read: {error.strerror}"
        raise InvalidInput(message=message, hint="name a JSON or YAML file") from error
    try:
        held = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        told = " ".join(str(error).split())
        raise InvalidInput(message=f"{path} does not parse: {told}", hint="fix it there") from error
    lines = _lines(text)

    def where(place: Place) -> str:
        while place and place not in lines:
            place = place[:-1]
        line = lines.get(place)
        return str(path) if line is None else f"{path}:{line}"

    return held, where


def _lines(text: str) -> dict[Place, int]:
    # JSON is YAML but for oddities such as tabs between tokens; a file with those is named without a line.
    try:
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return {}
    lines: dict[Place, int] = {}

    def note(node: Any, place: Place) -> None:
        lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                lines[*place, str(key.value)] = key.start_mark.line + 1
                note(value, (*place, str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                note(value, (*place, index))

    if top is not None:
        note(top, ())
    return lines
