"""Looking at the settings model: what may stand where, and what stands there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from headgate.settings.model import LOCATION, Settings
from headgate.settings.sources import PREFIX, SettingPath


def shown(value: Any) -> str | None:
    """A value as it may be printed: secrets are hidden."""
    if value is None:
        return None
    return "********" if isinstance(value, SecretStr) else str(value)


def leaves_of(section: BaseModel, under: SettingPath = ()) -> Iterator[tuple[SettingPath, Any]]:
    """Every setting with its value; of a named store, those that are set."""
    for name in type(section).model_fields:
        value, path = getattr(section, name), (*under, name)
        if isinstance(value, BaseModel):
            yield from leaves_of(value, path)
        elif isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, BaseModel):
                    yield from ((at, leaf) for at, leaf in leaves_of(item, (*path, key)) if leaf is not None)
                else:
                    yield (*path, key), item
        else:
            yield path, value


def secrets_in(settings: BaseModel) -> list[str]:
    """Every secret in the settings, for those who must keep them out of what they write."""
    return [value.get_secret_value() for _, value in leaves_of(settings) if isinstance(value, SecretStr)]


def variable_names() -> dict[str, SettingPath]:
    """The `HEADGATE_*` variable of each setting that a variable can hold."""
    return {PREFIX + "_".join(path).upper(): path for path, _ in scalars()}


def scalars(section: type[BaseModel] = Settings, under: SettingPath = ()) -> Iterator[tuple[SettingPath, FieldInfo]]:
    """Every setting that is one value with a fixed name."""
    for name, field in section.model_fields.items():
        if _is_section(field.annotation):
            yield from scalars(field.annotation, (*under, name))
        elif get_origin(field.annotation) is not dict:
            yield (*under, name), field


def field_at(path: SettingPath) -> FieldInfo | None:
    """The declaration of a setting; None where there is no such setting."""
    return _walk(path)[0]


def keys_at(path: SettingPath) -> list[str]:
    """The keys that may stand in the table `path`."""
    section = _walk(path)[1]
    keys = list(section.model_fields) if _is_section(section) else []
    return keys if path else [*keys, "profile"]


def is_location(path: SettingPath) -> bool:
    field = field_at(path)
    return field is not None and LOCATION in field.metadata


def _walk(path: SettingPath) -> tuple[FieldInfo | None, Any]:
    field: FieldInfo | None = None
    at: Any = Settings
    for part in path:
        if get_origin(at) is dict:
            field, at = None, get_args(at)[1]
        elif _is_section(at) and part in at.model_fields:
            field = at.model_fields[part]
            at = field.annotation
        else:
            return None, None
    return field, at


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
