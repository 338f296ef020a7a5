"""A schema as text: reading it again gives the same schema."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headgate.graph.language.grammar import quote
from headgate.graph.schema.model import (
    Annotations,
    Check,
    Constraint,
    EdgeType,
    Index,
    Interface,
    Key,
    Kind,
    NodeType,
    Property,
    PropertyType,
    Range,
    Schema,
    Unique,
)

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def schema_text(schema: Schema) -> str:
    """The whole schema, interfaces first."""
    blocks = [
        *(_interface(item) for item in schema.interfaces),
        *(_node(item) for item in schema.nodes),
        *(_edge(item) for item in schema.edges),
    ]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def type_text(declared: PropertyType) -> str:
    """A type as the language writes it."""
    if declared.is_list:
        return f"[{type_text(declared.element)}]"
    if declared.kind is Kind.ENUM:
        members = (value if _PLAIN_NAME.fullmatch(value) else quote(value) for value in declared.values)
        return f"enum({', '.join(members)})"
    return str(declared)


def _interface(item: Interface) -> str:
    return f"interface {item.name}{_about(item.annotations)} {_body(item.properties, item.constraints)}"


def _node(item: NodeType) -> str:
    implements = f" implements {', '.join(item.implements)}" if item.implements else ""
    return f"node {item.name}{implements}{_about(item.annotations)} {_body(item.properties, item.constraints)}"


def _edge(item: EdgeType) -> str:
    high = "" if item.cardinality.max is None else item.cardinality.max
    card = "" if item.cardinality.is_open else f" @card({item.cardinality.min}..{high})"
    head = f"edge {item.name}: {item.src} -> {item.dst}{card}{_about(item.annotations)}"
    return f"{head} {_body(item.properties, item.constraints)}" if item.properties or item.constraints else head


def _body(properties: Iterable[Property], constraints: Iterable[Constraint]) -> str:
    constraints = tuple(constraints)
    lines = [_property(item, constraints) for item in properties]
    names = {item.name for item in properties}
    # An annotation after a property would belong to it, so these always name their properties.
    lines += [
        f"@{c.kind}({', '.join(c.properties)})"
        for c in constraints
        if isinstance(c, Key | Unique) and (len(c.properties) > 1 or c.properties[0] not in names)
    ]
    return "{\n" + "".join(f"  {line}\n" for line in lines) + "}" if lines else "{}"


def _property(item: Property, constraints: tuple[Constraint, ...]) -> str:
    parts = [f"{item.name}: {type_text(item.type)}{'?' if item.nullable else ''}"]
    parts += [text for text in (_on_property(item.name, c) for c in constraints) if text]
    if item.default is not None:
        parts.append(f"@default({literal_text(item.default)})")
    return " ".join(parts) + _about(item.annotations)


def _on_property(name: str, item: Constraint) -> str:
    if isinstance(item, Key | Unique):
        return f"@{item.kind}" if item.properties == (name,) else ""
    if item.property != name:
        return ""
    if isinstance(item, Range):
        low, high = ("" if end is None else literal_text(end) for end in (item.low, item.high))
        return f"@range({low}..{high})"
    if isinstance(item, Check):
        return f"@check({quote(item.pattern)})"
    assert isinstance(item, Index)
    return "@index"


def literal_text(value: str | bool | int | float) -> str:
    """A literal of either language."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return str(value)
    text = repr(value)
    return text if "e" in text or "." in text else f"{text}.0"


def _about(annotations: Annotations) -> str:
    told = {
        "rename_from": annotations.rename_from,
        "description": annotations.description,
        "instruction": annotations.instruction,
    }
    return "".join(f" @{name}({quote(text)})" for name, text in told.items() if text is not None)
