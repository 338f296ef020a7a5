"""The types of the language, as schemas and query parameters write them."""

from __future__ import annotations

from headgate.graph.language.diagnostics import Diagnostics, nearest
from headgate.graph.schema.model import Kind, PropertyType
from headgate.graph.schema.syntax import Name, TypeText, Value

_MAX_VECTOR = 65_536
_PLAIN = {kind.value: kind for kind in Kind if kind not in (Kind.VECTOR, Kind.ENUM)}
_FALLBACK = PropertyType(Kind.STRING)


def read_type(text: TypeText, diagnostics: Diagnostics) -> PropertyType:
    """The type a text stands for; a wrong one is told and read as String, so that the rest is checked too."""
    if text.nested:
        diagnostics.add(text.at, "a list of lists has no column type", "make the inner list a type of its own")
    made = _read_element(text, diagnostics)
    if text.is_list and made.kind is Kind.VECTOR:
        diagnostics.add(text.at, "a list of vectors has no column type", "make the vector a type of its own")
        return made
    return PropertyType(made.kind, text.is_list, made.values, made.size)


def _read_element(text: TypeText, diagnostics: Diagnostics) -> PropertyType:
    if text.name == Kind.VECTOR:
        return _vector(text, diagnostics)
    if text.name == Kind.ENUM:
        return _enum(text, diagnostics)
    if text.name not in _PLAIN:
        diagnostics.add(text.at, f"there is no type {text.name}", nearest(text.name, [kind.value for kind in Kind]))
        return _FALLBACK
    if text.args is not None:
        diagnostics.add(text.at, f"{text.name} takes no arguments", "remove the parentheses")
    return PropertyType(_PLAIN[text.name])


def _vector(text: TypeText, diagnostics: Diagnostics) -> PropertyType:
    args = text.args or ()
    size = args[0].value if len(args) == 1 and isinstance(args[0], Value) else None
    if not isinstance(size, int) or not 1 <= size <= _MAX_VECTOR:
        diagnostics.add(text.at, f"Vector takes its size, 1 to {_MAX_VECTOR}", "such as Vector(384)")
        return _FALLBACK
    return PropertyType(Kind.VECTOR, size=size)


def _enum(text: TypeText, diagnostics: Diagnostics) -> PropertyType:
    args = text.args or ()
    values = [str(arg.text if isinstance(arg, Name) else arg.value) for arg in args]
    seen: set[str] = set()
    for arg, value in zip(args, values, strict=True):
        if value in seen:
            diagnostics.add(arg.at, f"{value!r} is in the enum twice", "remove one")
        seen.add(value)
    if not values:
        diagnostics.add(text.at, "an enum has at least one member", "such as enum(red, green)")
        return _FALLBACK
    return PropertyType(Kind.ENUM, values=tuple(dict.fromkeys(values)))
