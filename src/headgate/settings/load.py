"""Reading the settings: layers in their order, one clear error for all that is wrong, the source of each value.

The order is `HEADGATE_*` variables, `.env`, the profile, the rest of `headgate.toml`, what people have set up for
other tools, and last the defaults.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headgate.errors import InvalidSettings, NotFound, Problem
from headgate.settings.fields import is_location, keys_at, leaves_of, scalars, secrets_in, shown, variable_names
from headgate.settings.model import LOCATION, Settings
from headgate.settings.sources import (
    FILE_NAME,
    PREFIX,
    Layer,
    SettingPath,
    TomlFile,
    Value,
    ambient_layer,
    find_file,
    placeholder_problems,
    read_dotenv,
    read_toml,
    variables,
)

DEFAULT = "default"
PROFILE_VARIABLE = f"{PREFIX}PROFILE"


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The settings in force, and where they came from."""

    settings: Settings
    sources: Mapping[SettingPath, str]
    folder: Path
    """Where `headgate.toml` is, or the folder the search began in."""
    file: Path | None = None
    profile: str | None = None
    warnings: tuple[str, ...] = ()

    def rows(self) -> Iterator[tuple[str, str | None, str]]:
        """Each setting as (name, value, source), in the order of the model; secrets are hidden."""
        for path, value in leaves_of(self.settings):
            yield ".".join(path), shown(value), self.sources.get(path, DEFAULT)

    def secrets(self) -> list[str]:
        """Every secret in the settings, for those who must keep them out of what they write."""
        return secrets_in(self.settings)


def load(
    *,
    profile: str | None = None,
    start: Path | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Loaded:
    """Read the settings that hold in the folder `start` (the current one if nothing is said)."""
    start = (start or Path.cwd()).resolve()
    file = find_file(start)
    folder = file.parent if file else start
    toml = read_toml(file) if file else TomlFile(folder / FILE_NAME, {}, {})
    said = variables(os.environ if environ is None else environ, read_dotenv(folder / ".env"))

    base, profiles = _file_layers(toml)
    chosen = profile or (said[PROFILE_VARIABLE][0] if PROFILE_VARIABLE in said else None)
    if chosen is not None and chosen not in profiles:
        raise _no_such_profile(chosen, profiles, toml.path)

    ours, warnings = _variable_layer(said, folder=folder, start=start)
    ambient = ambient_layer(said, home or Path.home(), folder)
    in_force = _defaults(folder) | ambient | (profiles[chosen] if chosen else base) | ours
    problems = [
        *(problem for layer in (base, *profiles.values(), in_force) for problem in _problems(layer, toml)),
        *placeholder_problems(in_force),
    ]
    if problems:
        raise _invalid(tuple(dict.fromkeys(problems)), folder)
    sources = {path: value.where for path, value in in_force.items()}
    settings = _validated(in_force)
    return Loaded(settings=settings, sources=sources, folder=folder, file=file, profile=chosen, warnings=warnings)


def _file_layers(toml: TomlFile) -> tuple[Layer, dict[str, Layer]]:
    """The file without its profiles, and the file under each of its profiles."""
    profiles = toml.data.get("profile", {})
    if not isinstance(profiles, dict):
        raise _not_a_profile("NAME", toml)
    base = toml.layer({key: value for key, value in toml.data.items() if key != "profile"})
    layers: dict[str, Layer] = {}
    for name, patch in profiles.items():
        if not isinstance(patch, dict):
            raise _not_a_profile(name, toml)
        layers[name] = _over(base, toml.layer(patch, under=("profile", name)))
    return base, layers


def _over(base: Layer, patch: Layer) -> Layer:
    """`patch` over `base`; a store whose kind the patch names is replaced as a whole, since options do not mix."""
    replaced = {path[:2] for path in patch if path[0] == "stores" and path[2:] in (("lake",), ("graph",))}
    return {path: value for path, value in base.items() if path[:2] not in replaced} | patch


def _variable_layer(said: Mapping[str, tuple[str, str]], *, folder: Path, start: Path) -> tuple[Layer, tuple[str, ...]]:
    known = variable_names()
    layer: Layer = {}
    warnings = []
    for name, (value, where) in sorted(said.items()):
        if name in known:
            from_environment = where == name
            layer[known[name]] = Value(value, where, start if from_environment else folder)
        elif name.startswith(PREFIX) and name != PROFILE_VARIABLE:
            names = [other.removeprefix(PREFIX) for other in (*known, PROFILE_VARIABLE)]
            near = get_close_matches(name.removeprefix(PREFIX), names, n=1)
            warnings.append(f"{where} is not a setting" + (f"; did you mean {PREFIX}{near[0]}?" if near else ""))
    return layer, tuple(warnings)


def _defaults(folder: Path) -> Layer:
    """The defaults that depend on where the settings file is."""
    return {
        path: Value(field.default, DEFAULT, folder)
        for path, field in scalars()
        if LOCATION in field.metadata and field.default is not None
    }


def _validated(layer: Layer) -> Settings:
    tree: dict[str, Any] = {}
    for path, value in layer.items():
        _put(tree, path, value.located() if is_location(path) and isinstance(value.raw, str | Path) else value.raw)
    return Settings.model_validate(tree)


def _put(tree: dict[str, Any], path: SettingPath, raw: Any) -> None:
    at = tree
    for key in path[:-1]:
        below = at.setdefault(key, {})
        if not isinstance(below, dict):
            return  # a value where a table belongs: the model refuses it by that name
        at = below
    if raw == {}:
        at.setdefault(path[-1], {})
    else:
        at[path[-1]] = raw


def _problems(layer: Layer, toml: TomlFile) -> Iterator[Problem]:
    try:
        _validated(layer)
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False, include_input=False, include_context=False):
            path = tuple(str(part) for part in error["loc"])
            where = next((value.where for at, value in layer.items() if at[: len(path)] == path), toml.path.name)
            if error["type"] == "extra_forbidden":
                yield _unknown_key(path, where)
            else:
                message = error["msg"].removeprefix("Value error, ")
                yield Problem(where, f"{'.'.join(path)}: {message[0].lower()}{message[1:]}")


def _unknown_key(path: SettingPath, where: str) -> Problem:
    known = keys_at(path[:-1])
    near = get_close_matches(path[-1], known, n=1)
    table = f" in [{'.'.join(path[:-1])}]" if path[:-1] else ""
    fix = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    return Problem(where, f"unknown key {path[-1]!r}{table}", fix)


def _invalid(problems: tuple[Problem, ...], folder: Path) -> InvalidSettings:
    if len(problems) > 1:
        message = f"{len(problems)} settings are wrong"
        return InvalidSettings(message=message, hint="correct each of them", source=str(folder), problems=problems)
    [problem] = problems
    hint = problem.fix or "correct it there; `headgate config` shows every setting and where it comes from"
    return InvalidSettings(message=f"{problem.where}: {problem.message}", hint=hint, source=str(folder))


def _not_a_profile(name: str, toml: TomlFile) -> InvalidSettings:
    return InvalidSettings(
        message=f"{toml.where(('profile', name))}: a profile is a table",
        hint=f"write [profile.{name}] on a line of its own, with its settings below",
        source=str(toml.path),
    )


def _no_such_profile(name: str, profiles: Mapping[str, Layer], file: Path) -> NotFound:
    if near := get_close_matches(name, profiles, n=1):
        hint = f"did you mean {near[0]!r}?"
    elif profiles:
        hint = f"{file} has {', '.join(sorted(profiles))}"
    else:
        hint = f"write it in {file} as [profile.{name}]"
    return NotFound(message=f"no profile is called {name!r}", hint=hint, kind="profile", name=name)
