"""The body of a type: its properties with their types, and every constraint, wherever it stood."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.language.diagnostics import Diagnostics, Span, nearest
from headgate.graph.schema.about import read_about
from headgate.graph.schema.model import (
    NUMBERS,
    TIMES,
    Annotations,
    Check,
    Constraint,
    Index,
    Interface,
    Key,
    Kind,
    Literal_,
    Property,
    PropertyType,
    Range,
    Unique,
)
from headgate.graph.schema.syntax import Annotation, Argument, Declaration, Interval, Name, PropertyText, Value
from headgate.graph.schema.types import read_type
from headgate.graph.schema.values import BadValue, Rules, coerce, range_ends, whole

_ON_PROPERTIES = ("key", "unique", "index", "range", "check", "default")
_ABOUT = ("rename_from", "description", "instruction")


class Body(NamedTuple):
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True)
class _Scope:
    """What the constraints of one type can name."""

    properties: dict[str, Property]
    system: tuple[str, ...]
    diagnostics: Diagnostics

    def known(self) -> list[str]:
        return [*self.properties, *self.system]


def read_body(
    declaration: Declaration, inherited: Iterable[Interface], system: tuple[str, ...], diagnostics: Diagnostics
) -> Body:
    """Properties and constraints of a declaration, those of its interfaces first."""
    properties: dict[str, Property] = {}
    constraints: list[Constraint] = []
    for interface in inherited:
        for item in interface.properties:
            _inherit(declaration, properties, item, interface.name, diagnostics)
        constraints += interface.constraints
    own: set[str] = set()
    for text in declaration.properties:
        _own(text, properties, own, diagnostics)
    scope = _Scope(properties, system, diagnostics)
    for text in declaration.properties:
        for annotation in text.annotations:
            constraints += _read(annotation, text.name.text, scope)
    for annotation in declaration.constraints:
        constraints += _read(annotation, None, scope)
    _check_keys(declaration, constraints, scope)
    _check_defaults(constraints, scope, declaration)
    return Body(tuple(properties.values()), tuple(constraints))


def _inherit(
    declaration: Declaration, properties: dict[str, Property], item: Property, interface: str, diagnostics: Diagnostics
) -> None:
    before = properties.get(item.name)
    if before is not None and (before.type, before.nullable) != (item.type, item.nullable):
        diagnostics.add(
            declaration.name.at, f"{interface} wants {item.name} to be {_shape(item)}, and another {_shape(before)}"
        )
    properties.setdefault(item.name, item)


def _own(text: PropertyText, properties: dict[str, Property], own: set[str], diagnostics: Diagnostics) -> None:
    name = text.name.text
    clash = next((other for other in (*own, *properties) if other.casefold() == name.casefold()), None)
    if name in own or (clash is not None and clash != name):
        diagnostics.add(text.name.at, f"{name} is declared twice (case does not tell names apart)", "rename one")
    declared = read_type(text.type, diagnostics)
    made = Property(name, declared, text.nullable, annotations=_about(text, diagnostics))
    made = replace(made, default=_default(text, made, diagnostics))
    before = properties.get(name)
    if before is not None and name not in own and (before.type, before.nullable) != (made.type, made.nullable):
        diagnostics.add(text.name.at, f"{name} is {_shape(before)} in its interface", f"make it {_shape(before)}")
    own.add(name)
    properties[name] = made


def _shape(item: Property) -> str:
    return f"{item.type}{'?' if item.nullable else ''}"


def _about(text: PropertyText, diagnostics: Diagnostics) -> Annotations:
    about = Annotations()
    for annotation in text.annotations:
        about = read_about(annotation, about, diagnostics) or about
    return about


def _default(text: PropertyText, made: Property, diagnostics: Diagnostics) -> Literal_ | None:
    found = [item for item in text.annotations if item.name == "default"]
    if not found:
        return None
    if len(found) > 1:
        diagnostics.add(found[1].at, "@default is given twice", "keep one")
    args = found[0].args or ()
    value: Literal_ | None = None
    if len(args) == 1 and isinstance(args[0], Value):
        value = args[0].value
    elif len(args) == 1 and isinstance(args[0], Name) and args[0].text in ("true", "false"):
        value = args[0].text == "true"
    elif len(args) == 1 and isinstance(args[0], Name) and args[0].text in made.type.values:
        value = args[0].text
    else:
        diagnostics.add(found[0].at, "@default takes one literal", f"such as @default({_example(made.type)})")
    return value


def _example(declared: PropertyType) -> str:
    if declared.kind in NUMBERS:
        return "0"
    return "false" if declared.kind is Kind.BOOL else '"…"'


def _read(annotation: Annotation, owner: str | None, scope: _Scope) -> list[Constraint]:
    """The constraints an annotation stands for: none where it is no constraint or is wrong."""
    if annotation.name in _READERS:
        return _READERS[annotation.name](annotation, owner, scope)
    if annotation.name == "card":
        scope.diagnostics.add(annotation.at, "@card belongs to the edge", "put it before the {")
    elif annotation.name in (*_ABOUT, "default"):
        if owner is None:
            scope.diagnostics.add(annotation.at, f"@{annotation.name} must follow what it describes", "move it there")
    else:
        known = (*_ON_PROPERTIES, *_ABOUT)
        scope.diagnostics.add(
            annotation.at, f"there is no annotation @{annotation.name}", nearest(annotation.name, known)
        )
    return []


def _names(annotation: Annotation, owner: str | None, scope: _Scope) -> tuple[str, ...]:
    args = annotation.args
    if args is None and owner is not None:
        return (owner,)
    if not args or not all(isinstance(arg, Name) for arg in args):
        scope.diagnostics.add(
            annotation.at, f"@{annotation.name} names properties", f"such as @{annotation.name}(a) or after a property"
        )
        return ()
    names = [arg for arg in args if isinstance(arg, Name)]
    seen: set[str] = set()
    for arg in names:
        if arg.text not in scope.known():
            scope.diagnostics.add(arg.at, f"there is no property {arg.text}", nearest(arg.text, scope.known()))
            return ()
        if arg.text in seen:
            scope.diagnostics.add(arg.at, f"{arg.text} is named twice", "remove one")
        seen.add(arg.text)
    return tuple(dict.fromkeys(arg.text for arg in names))


def _keyable(annotation: Annotation, names: tuple[str, ...], scope: _Scope) -> None:
    for name in names:
        item = scope.properties.get(name)
        if item is not None and not item.type.is_keyable:
            scope.diagnostics.add(
                annotation.at,
                f"@{annotation.name} cannot hold {name}, a {item.type}",
                "only values with exact equality",
            )


def _key(annotation: Annotation, owner: str | None, scope: _Scope) -> list[Constraint]:
    names = _names(annotation, owner, scope)
    _keyable(annotation, names, scope)
    for name in names:
        item = scope.properties.get(name)
        if item is not None and item.nullable:
            scope.diagnostics.add(annotation.at, f"{name} is in the key and may be null", "remove its ?")
    return [Key(names)] if names else []


def _unique(annotation: Annotation, owner: str | None, scope: _Scope) -> list[Constraint]:
    names = _names(annotation, owner, scope)
    _keyable(annotation, names, scope)
    return [Unique(names)] if names else []


def _index(annotation: Annotation, owner: str | None, scope: _Scope) -> list[Constraint]:
    names = _names(annotation, owner, scope)
    if len(names) > 1:
        scope.diagnostics.add(annotation.at, "@index takes one property", "write one @index for each")
        return []
    item = scope.properties.get(names[0]) if names else None
    if names and item is None:
        scope.diagnostics.add(annotation.at, f"{names[0]} always has an index", "remove this one")
        return []
    if item is not None and (item.type.is_list or item.type.kind is Kind.BLOB):
        scope.diagnostics.add(annotation.at, f"@index cannot hold {item.name}, a {item.type}", "remove it")
    return [Index(names[0])] if names else []


def _target(annotation: Annotation, owner: str | None, scope: _Scope, shape: str) -> tuple[Property, Argument] | None:
    """The property an annotation with one argument is about, and that argument."""
    args = annotation.args or ()
    if len(args) == 2 and isinstance(args[0], Name):
        name, at, rest = args[0].text, args[0].at, args[1]
    elif len(args) == 1 and owner is not None:
        name, at, rest = owner, annotation.at, args[0]
    else:
        scope.diagnostics.add(annotation.at, f"@{annotation.name} takes {shape}", "name the property first in a body")
        return None
    item = scope.properties.get(name)
    if item is None:
        scope.diagnostics.add(at, f"there is no property {name}", nearest(name, scope.properties))
        return None
    return item, rest


def _range(annotation: Annotation, owner: str | None, scope: _Scope) -> list[Constraint]:
    shape = "a range, such as 0..10"
    found = _target(annotation, owner, scope, shape)
    if found is None:
        return []
    item, interval = found
    if not isinstance(interval, Interval) or (interval.low is None and interval.high is None):
        scope.diagnostics.add(annotation.at, f"@range takes {shape}", "give at least one end")
        return []
    if item.type.kind not in NUMBERS | TIMES or item.type.is_list:
        scope.diagnostics.add(
            annotation.at, f"{item.name} is {item.type}, which has no range", "use a number or a date"
        )
        return []
    made = Range(
        item.name,
        low=None if interval.low is None else interval.low.value,
        high=None if interval.high is None else interval.high.value,
    )
    try:
        low, high = range_ends(made, item.type)
    except BadValue as problem:
        scope.diagnostics.add(interval.at, problem.message)
        return []
    if low is not None and high is not None and low > high:
        scope.diagnostics.add(interval.at, "the range is empty", "the lower end comes first")
        return []
    return [made]


def _check(annotation: Annotation, owner: str | None, scope: _Scope) -> list[Constraint]:
    found = _target(annotation, owner, scope, 'a regular expression, such as "[a-z]+"')
    if found is None:
        return []
    item, pattern = found
    if not isinstance(pattern, Value) or not isinstance(pattern.value, str):
        scope.diagnostics.add(annotation.at, "@check takes a regular expression", 'such as "[a-z]+"')
        return []
    if item.type.kind is not Kind.STRING or item.type.is_list:
        scope.diagnostics.add(annotation.at, f"{item.name} is {item.type}, and @check is for String", "remove it")
        return []
    problem = pattern_problem(pattern.value)
    if problem:
        scope.diagnostics.add(pattern.at, f"this is no regular expression: {problem}", "RE2 has no look-around")
        return []
    return [Check(item.name, pattern.value)]


_READERS: dict[str, Callable[[Annotation, str | None, _Scope], list[Constraint]]] = {
    "key": _key,
    "unique": _unique,
    "index": _index,
    "range": _range,
    "check": _check,
}


def pattern_problem(pattern: str) -> str:
    """Why a pattern is no regular expression, or nothing."""
    for tried in (pattern, whole(pattern)):  # alone first: `a)(b` is only well-formed inside a group
        try:
            pc.match_substring_regex(pa.array([""]), tried)
        except pa.ArrowInvalid as error:
            return str(error).removeprefix("Invalid regular expression: ")
    return ""


def _check_keys(declaration: Declaration, constraints: list[Constraint], scope: _Scope) -> None:
    keys = {item for item in constraints if isinstance(item, Key)}
    if len(keys) > 1:
        scope.diagnostics.add(
            declaration.name.at, f"{declaration.name.text} has {len(keys)} keys", "write one @key(a, b)"
        )


def _check_defaults(constraints: list[Constraint], scope: _Scope, declaration: Declaration) -> None:
    places: dict[str, Span] = {item.name.text: item.name.at for item in declaration.properties}
    for item in scope.properties.values():
        if item.default is None or item.name not in places:
            continue
        ranges = tuple(c for c in constraints if isinstance(c, Range) and c.property == item.name)
        checks = tuple(c for c in constraints if isinstance(c, Check) and c.property == item.name)
        try:
            coerce(Rules(item.name, item.type, item.nullable, ranges, checks), item.default)
        except BadValue as problem:
            scope.diagnostics.add(places[item.name], f"the default does not fit: {problem.message}")
