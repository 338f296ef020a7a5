"""Whether a JSON Schema still takes what another one took: by the rules that can be decided, and no for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_EXACT = ("pattern", "format", "multipleOf", "uniqueItems")
_CHOICES = ("anyOf", "oneOf")


def breaking_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What the old schema took and the new one may refuse, each told with its path; empty if there is nothing."""
    return list(_Comparison(old, new).of(old, new, "input", frozenset()))


class _Comparison:
    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self._old_root, self._new_root = old, new

    def of(self, old: Any, new: Any, path: str, seen: frozenset[tuple[str, str]]) -> Iterator[str]:
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            if old != new and new is False:
                yield f"{path} is no longer allowed"
            return
        refs = (str(old.get("$ref", "")), str(new.get("$ref", "")))
        if any(refs):
            if refs in seen:
                return
            seen = seen | {refs}
        old, new = _resolved(old, self._old_root), _resolved(new, self._new_root)
        yield from self._choices(old, new, path, seen)
        yield from _types(old, new, path)
        yield from _values(old, new, path)
        yield from _limits(old, new, path)
        yield from self._properties(old, new, path, seen)
        if "items" in new:
            yield from self.of(old.get("items", {}), new["items"], f"{path}[]", seen)

    def _choices(
        self, old: Mapping[str, Any], new: Mapping[str, Any], path: str, seen: frozenset[tuple[str, str]]
    ) -> Iterator[str]:
        """Every choice there was must fit one of those there are."""
        before, after = _options(old), _options(new)
        if before == [old] and after == [new]:
            return
        for number, option in enumerate(before):
            if option is old or option is new:
                option = {key: value for key, value in option.items() if key not in _CHOICES}
            if not any(option == choice or not list(self.of(option, choice, path, seen)) for choice in after):
                yield f"{path} no longer takes choice {number + 1}"

    def _properties(
        self, old: Mapping[str, Any], new: Mapping[str, Any], path: str, seen: frozenset[tuple[str, str]]
    ) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name, schema in before.items():
            if name in after:
                yield from self.of(schema, after[name], f"{path}.{name}", seen)
            elif new.get("additionalProperties") is False:
                yield f"{path}.{name} is gone"
        for name in new.get("required", ()):
            if name not in old.get("required", ()):
                yield f"{path}.{name} is required now"
        others, others_now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if isinstance(others_now, Mapping):
            yield from self.of(others if isinstance(others, Mapping) else {}, others_now, f"{path}.*", seen)
        elif others_now is False and others is not False:
            yield f"{path} takes no other keys now"


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(20):
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            break
        found: Any = root
        for step in ref.removeprefix("#/").split("/"):
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    for key in _CHOICES:
        if key in schema:
            return list(schema[key])
    return [schema]


def _types(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    if "type" not in new:
        return
    allowed = set(_listed(new["type"]))
    if "number" in allowed:
        allowed.add("integer")
    before = set(_listed(old.get("type", ())))
    if not before and not any(key in old for key in (*_CHOICES, "enum", "const")):
        yield f"{path} has to be {' or '.join(sorted(allowed))} now"
    elif lost := before - allowed:
        yield f"{path} was {' or '.join(sorted(lost))} and has to be {' or '.join(sorted(allowed))} now"


def _values(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    allowed = _enumerated(new)
    if allowed is None:
        return
    before = _enumerated(old)
    if before is None:
        yield f"{path} takes only {', '.join(map(repr, allowed))} now"
    elif lost := [value for value in before if value not in allowed]:
        yield f"{path} no longer takes {', '.join(map(repr, lost))}"


def _limits(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in (*_LOWER, *_UPPER):
        if key in new:
            tighter = key not in old or (new[key] > old[key] if key in _LOWER else new[key] < old[key])
            if tighter:
                yield f"{path} has {key} {new[key]} now"
    for key in _EXACT:
        if key in new and new[key] != old.get(key):
            yield f"{path} has {key} {new[key]!r} now"


def _enumerated(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if "enum" in schema else None


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
