"""The places settings come from. Each gives leaf values by their path, with the place a person can go to."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.errors import InvalidSettings, Problem

SettingPath = tuple[str, ...]

PREFIX = "HEADGATE_"
FILE_NAME = "headgate.toml"

# What other tools read: the setting each of their variables stands for.
AMBIENT_VARIABLES: Mapping[str, SettingPath] = {
    "CONDUCTOR_SERVER_URL": ("conductor", "server_url"),
    "CONDUCTOR_AUTH_KEY": ("conductor", "auth_key"),
    "CONDUCTOR_AUTH_SECRET": ("conductor", "auth_secret"),
    "LAKECTL_SERVER_ENDPOINT_URL": ("lakefs", "endpoint"),
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ("lakefs", "access_key_id"),
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": ("lakefs", "secret_access_key"),
}
_LAKECTL_KEYS: Mapping[SettingPath, SettingPath] = {
    ("server", "endpoint_url"): ("lakefs", "endpoint"),
    ("credentials", "access_key_id"): ("lakefs", "access_key_id"),
    ("credentials", "secret_access_key"): ("lakefs", "secret_access_key"),
}
_PLACEHOLDER = re.compile(
    r"<.*>|\$?\{\{?.*\}?\}|x{3,}|\.{3,}|…|(change|replace)[-_ ]?(me|this)|todo|tbd|fixme|your[-_ ].*|placeholder",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Value:
    """A raw value and where it stands: `headgate.toml:7`, `HEADGATE_LOG_LEVEL`, `.env:3 CONDUCTOR_AUTH_KEY`."""

    raw: Any
    where: str
    folder: Path
    """Relative paths are meant from here."""

    def located(self) -> str:
        """The value as an absolute path; an address with a scheme stays as it is."""
        text = str(self.raw)
        return text if "://" in text else str((self.folder / Path(text).expanduser()).resolve())


Layer = dict[SettingPath, Value]


@dataclass(frozen=True)
class TomlFile:
    path: Path
    data: Mapping[str, Any]
    lines: Mapping[SettingPath, int]

    def layer(self, data: Mapping[str, Any], *, under: SettingPath = ()) -> Layer:
        """The leaves of a part of the file that stands under `under`."""
        return {path: Value(raw, self.where((*under, *path)), self.path.parent) for path, raw in _leaves(data)}

    def where(self, path: SettingPath) -> str:
        """`headgate.toml:LINE` of a key, or of the nearest table around it."""
        for length in range(len(path), 0, -1):
            if line := self.lines.get(path[:length]):
                return f"{self.path.name}:{line}"
        return self.path.name


def find_file(start: Path) -> Path | None:
    """The `headgate.toml` of this folder, or of the nearest one above it."""
    return next((at / FILE_NAME for at in (start, *start.parents) if (at / FILE_NAME).is_file()), None)


def read_toml(path: Path) -> TomlFile:
    text = _read_text(path)
    try:
        return TomlFile(path, tomllib.loads(text), _key_lines(text))
    except tomllib.TOMLDecodeError as error:
        message, line = _toml_place(str(error), text)
        raise InvalidSettings(
            message=f"{path.name}:{line}: not TOML: {message}",
            hint=f"correct line {line} of {path}",
            source=str(path),
        ) from None


def read_dotenv(path: Path) -> dict[str, tuple[str, str]]:
    """The variables of a `.env` file: the value and the place of each. An empty value counts as not set."""
    if not path.is_file():
        return {}
    from io import StringIO

    from dotenv.parser import parse_stream

    found: dict[str, tuple[str, str]] = {}
    for binding in parse_stream(StringIO(_read_text(path))):
        where = f"{path.name}:{binding.original.line}"
        if binding.error or (binding.key and binding.value is None):
            raise InvalidSettings(
                message=f"{where}: not a variable: {binding.original.string.strip()!r}",
                hint=f"write NAME=value on line {binding.original.line} of {path}, or start the line with #",
                source=str(path),
            )
        if binding.key and binding.value:
            found[binding.key] = (binding.value, where)
    return found


def variables(environ: Mapping[str, str], dotenv: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Every variable with its value and its place; the environment wins over `.env`."""
    said = {name: (value, name) for name, value in environ.items() if value}
    return {name: (value, f"{where} {name}") for name, (value, where) in dotenv.items()} | said


def ambient_layer(said: Mapping[str, tuple[str, str]], home: Path, folder: Path) -> Layer:
    """What people have set up for other tools: their variables, then `~/.lakectl.yaml`."""
    from_file = _lakectl(home / ".lakectl.yaml") if home else {}
    from_variables = {path: Value(*said[name], folder) for name, path in AMBIENT_VARIABLES.items() if name in said}
    return from_file | from_variables


def placeholder_problems(layer: Mapping[SettingPath, Value]) -> Iterator[Problem]:
    """Values somebody meant to fill in. They are not shown: a careless secret looks the same."""
    for path, value in layer.items():
        if isinstance(value.raw, str) and _PLACEHOLDER.fullmatch(value.raw.strip()):
            yield Problem(
                value.where, f"{'.'.join(path)} is still a placeholder", "put the real value there, or remove it"
            )


def _lakectl(path: Path) -> Layer:
    if not path.is_file():
        return {}
    import yaml

    try:
        data = yaml.safe_load(_read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InvalidSettings(message=f"{where}: not YAML", hint=f"correct {path}", source=str(path)) from None
    leaves = dict(_leaves(data if isinstance(data, dict) else {}))
    return {
        ours: Value(leaves[theirs], "~/.lakectl.yaml", path.parent)
        for theirs, ours in _LAKECTL_KEYS.items()
        if leaves.get(theirs)
    }


def _leaves(data: Mapping[str, Any], under: SettingPath = ()) -> Iterator[tuple[SettingPath, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*under, key))
        else:
            yield (*under, key), value


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidSettings(message=f"{path} is not UTF-8 text", hint="save it as UTF-8", source=str(path)) from None
    except OSError as error:
        raise InvalidSettings(
            message=f"{path} cannot be read: {error.strerror}", hint="check the file and its rights", source=str(path)
        ) from None


def _toml_place(message: str, text: str) -> tuple[str, int]:
    if found := re.search(r" \(at line (\d+), column (\d+)\)$", message):
        return message[: found.start()], int(found.group(1))
    return re.sub(r" \(at end of document\)$", " at the end of the file", message), text.count("\n") + 1


_KEY = r'(?:"[^"]*"|\'[^\']*\'|[A-Za-z0-9_-]+)'
_DOTTED = rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*"
_HEADER = re.compile(rf"\s*\[\[?{_DOTTED}\]")
_ASSIGNMENT = re.compile(rf"{_DOTTED}=")


def _key_lines(text: str) -> dict[SettingPath, int]:
    """The line of each table and key. `tomllib` keeps no positions, and this only has to serve error messages."""
    lines: dict[SettingPath, int] = {}
    table: SettingPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _split_key(header.group(1))
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_split_key(assignment.group(1))), number)
    return lines


def _split_key(dotted: str) -> SettingPath:
    return tuple(part.strip().strip("\"'") for part in re.findall(_KEY, dotted))
