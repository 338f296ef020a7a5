"""The schema text as it stands, before anything is looked up: declarations with their places."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from lark import Lark, Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from headgate.graph.language.diagnostics import Diagnostics, Source, Span
from headgate.graph.language.grammar import literal_of, load_grammar, parse_text, span_of


@dataclass(frozen=True)
class Name:
    text: str
    at: Span


@dataclass(frozen=True)
class Value:
    """A literal: text, whole number or number."""

    value: str | int | float
    at: Span


@dataclass(frozen=True)
class Interval:
    low: Value | None
    high: Value | None
    at: Span


Argument = Name | Value | Interval


@dataclass(frozen=True)
class Annotation:
    name: str
    args: tuple[Argument, ...] | None
    """None where there are no parentheses at all."""
    at: Span


@dataclass(frozen=True)
class TypeText:
    name: str
    args: tuple[Name | Value, ...] | None
    at: Span
    is_list: bool = False
    nested: bool = False


@dataclass(frozen=True)
class PropertyText:
    name: Name
    type: TypeText
    nullable: bool
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True)
class Declaration:
    word: str
    """`node`, `edge` or `interface`."""
    name: Name
    annotations: tuple[Annotation, ...] = ()
    properties: tuple[PropertyText, ...] = ()
    constraints: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    ends: tuple[Name, ...] = field(default=())


@v_args(inline=True)
class TypeBuild(Transformer_NonRecursive[Token, Any]):
    """The types of properties and of query parameters."""

    def list_type(self, declared: TypeText) -> TypeText:
        return TypeText(declared.name, declared.args, declared.at, is_list=True, nested=declared.is_list)

    def sized_type(self, name: Token, args: Any) -> TypeText:
        return TypeText(str(name), args or (), span_of(name))

    def plain_type(self, name: Token) -> TypeText:
        return TypeText(str(name), None, span_of(name))

    def type_args(self, *args: Token) -> tuple[Name | Value, ...]:
        return tuple(_name(token) if token.type == "NAME" else _value(token) for token in args)


@v_args(inline=True)
class _Build(TypeBuild):
    def start(self, *declarations: Declaration) -> tuple[Declaration, ...]:
        return declarations

    def node(self, name: Token, implements: Any, annotations: Any, body: Any) -> Declaration:
        properties, constraints = body
        return Declaration("node", _name(name), annotations, properties, constraints, implements or ())

    def interface(self, name: Token, annotations: Any, body: Any) -> Declaration:
        return Declaration("interface", _name(name), annotations, *body)

    def edge(self, name: Token, src: Token, dst: Token, annotations: Any, body: Any) -> Declaration:
        properties, constraints = body or ((), ())
        return Declaration("edge", _name(name), annotations, properties, constraints, (), (_name(src), _name(dst)))

    def names(self, *names: Token) -> tuple[Name, ...]:
        return tuple(_name(token) for token in names)

    def body(self, *members: Any) -> tuple[Any, Any]:
        properties = tuple(member for member in members if isinstance(member, PropertyText))
        return properties, tuple(member for member in members if isinstance(member, Annotation))

    def property(self, name: Token, declared: TypeText, optional: Token | None, annotations: Any) -> PropertyText:
        return PropertyText(_name(name), declared, optional is not None, annotations)

    def annotations(self, *annotations: Annotation) -> tuple[Annotation, ...]:
        return annotations

    @v_args(meta=True, inline=True)
    def annotation(self, meta: Meta, name: Token, *args: Any) -> Annotation:
        given = args[0] if args and args[0] is not None else None
        if given is None and (meta.end_pos - meta.start_pos) > len(name):
            given = ()
        return Annotation(str(name)[1:], given, span_of(meta))

    def args(self, *args: Argument) -> tuple[Argument, ...]:
        return args

    def arg(self, value: Any) -> Argument:
        return _name(value) if isinstance(value, Token) else value

    @v_args(meta=True, inline=True)
    def range(self, meta: Meta, low: Value | None, _dots: Token, high: Value | None) -> Interval:
        return Interval(low, high, span_of(meta))

    def literal(self, token: Token) -> Value:
        return _value(token)


def _name(token: Token) -> Name:
    return Name(str(token), span_of(token))


def _value(token: Token) -> Value:
    return Value(literal_of(token), span_of(token))


@cache
def _parser() -> Lark:
    return load_grammar("headgate.graph.schema")


def read_declarations(source: Source, diagnostics: Diagnostics) -> tuple[Declaration, ...]:
    """The declarations of a schema text in their order, or `InvalidInput` where it is not one."""
    declarations: tuple[Declaration, ...] = parse_text(_parser(), _Build(), source, diagnostics)
    return declarations
