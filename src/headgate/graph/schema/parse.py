"""From the text of a schema to the schema: names are looked up, rules checked, and all problems told at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from headgate.graph.language.diagnostics import Diagnostics, Source, diagnosing, nearest
from headgate.graph.language.files import read_source
from headgate.graph.schema.about import read_about
from headgate.graph.schema.constraints import Body, read_body
from headgate.graph.schema.model import (
    RESERVED_COLUMNS,
    Annotations,
    Cardinality,
    Constraint,
    EdgeType,
    Index,
    Interface,
    Key,
    NodeType,
    Property,
    Range,
    Schema,
    Unique,
)
from headgate.graph.schema.syntax import Annotation, Declaration, Interval, Name, Value, read_declarations

RESERVED_VERBS = frozenset(
    {"and", "as", "asc", "contains", "delete", "desc", "distinct", "false", "in", "insert", "is", "limit", "match"}
    | {"not", "null", "optional", "or", "order", "return", "set", "starts_with", "true", "update", "where"}
)
"""Words of the query language; an edge of this name could not be traversed."""

_NAME_LENGTH = 128
_MOST_PROPERTIES = 2_000
_CONSTRAINT_ORDER = (Key, Unique, Index, Range)


def parse_schema(text: str, *, name: str = "schema") -> Schema:
    """The schema that a text declares, without ids, or `InvalidInput` with every problem."""
    source = Source(text, name)
    with diagnosing(source) as diagnostics:
        declarations = read_declarations(source, diagnostics)
        return _Resolver(diagnostics).resolve(declarations)


def read_schema(path: Path) -> Schema:
    """The schema of a `.pg` file."""
    source = read_source(path)
    return parse_schema(source.text, name=source.name)


class _Resolver:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def resolve(self, declarations: tuple[Declaration, ...]) -> Schema:
        self._check_names(declarations)
        interfaces = {d.name.text: self._interface(d) for d in declarations if d.word == "interface"}
        node_names = {d.name.text for d in declarations if d.word == "node"}
        nodes = tuple(self._node(d, interfaces) for d in declarations if d.word == "node")
        edges = tuple(self._edge(d, node_names, set(interfaces)) for d in declarations if d.word == "edge")
        return Schema(nodes, edges, tuple(interfaces.values()))

    def _check_names(self, declarations: tuple[Declaration, ...]) -> None:
        seen: dict[str, Declaration] = {}
        for declaration in declarations:
            name = declaration.name
            self._check_length(name)
            # Views in SQL are found without regard to case, and a verb is a name with a small first letter.
            folded = name.text.casefold()
            if folded in seen:
                other = seen[folded].name
                same = other.text == name.text
                what = f"{name.text} is declared twice" if same else f"{name.text} and {other.text} differ only by case"
                self._diagnostics.add(name.at, what, f"the other is on line {other.at.line}; rename one")
            seen.setdefault(folded, declaration)
            if declaration.word == "edge" and (name.text[:1].lower() + name.text[1:]) in RESERVED_VERBS:
                self._diagnostics.add(name.at, f"{name.text} is a word of the query language", "rename the edge")

    def _check_length(self, name: Name) -> None:
        if len(name.text) > _NAME_LENGTH:
            self._diagnostics.add(name.at, f"a name has at most {_NAME_LENGTH} characters", "shorten it")

    def _interface(self, declaration: Declaration) -> Interface:
        body = self._body(declaration, ())
        about = self._about(declaration, allowed=())
        return Interface(declaration.name.text, body.properties, _ordered(body.constraints, body.properties), about)

    def _node(self, declaration: Declaration, interfaces: dict[str, Interface]) -> NodeType:
        inherited: list[Interface] = []
        for name in declaration.implements:
            found = interfaces.get(name.text)
            if found is None:
                self._diagnostics.add(name.at, f"no interface is named {name.text}", nearest(name.text, interfaces))
            elif found in inherited:
                self._diagnostics.add(name.at, f"{name.text} is implemented twice", "remove one")
            else:
                inherited.append(found)
        body = self._body(declaration, inherited)
        return NodeType(
            declaration.name.text,
            body.properties,
            _ordered(body.constraints, body.properties),
            self._about(declaration, allowed=()),
            implements=tuple(item.name for item in inherited),
        )

    def _edge(self, declaration: Declaration, nodes: set[str], interfaces: set[str]) -> EdgeType:
        for end in declaration.ends:
            if end.text in interfaces:
                self._diagnostics.add(end.at, f"{end.text} is an interface", "an edge joins node types")
            elif end.text not in nodes:
                self._diagnostics.add(end.at, f"no node type is named {end.text}", nearest(end.text, nodes))
        body = self._body(declaration, (), extra=("src", "dst"))
        return EdgeType(
            declaration.name.text,
            body.properties,
            _ordered(body.constraints, body.properties),
            self._about(declaration, allowed=("card",)),
            src=declaration.ends[0].text,
            dst=declaration.ends[1].text,
            cardinality=self._cardinality(declaration.annotations),
        )

    def _body(self, declaration: Declaration, inherited: Iterable[Interface], *, extra: tuple[str, ...] = ()) -> Body:
        if len(declaration.properties) > _MOST_PROPERTIES:
            what = f"{declaration.name.text} has {len(declaration.properties):,} properties"
            self._diagnostics.add(declaration.name.at, what, f"a type has at most {_MOST_PROPERTIES:,}; split it")
            declaration = replace(declaration, properties=declaration.properties[:_MOST_PROPERTIES])
        for item in declaration.properties:
            self._check_length(item.name)
            if item.name.text.lower() in RESERVED_COLUMNS:
                self._diagnostics.add(item.name.at, f"{item.name.text} is a column every table has", "rename it")
        return read_body(declaration, inherited, extra, self._diagnostics)

    def _about(self, declaration: Declaration, *, allowed: tuple[str, ...]) -> Annotations:
        about = Annotations()
        for item in declaration.annotations:
            changed = read_about(item, about, self._diagnostics)
            if changed is not None:
                about = changed
            elif item.name not in allowed:
                known = ("rename_from", "description", "instruction", *allowed)
                self._diagnostics.add(
                    item.at,
                    f"@{item.name} says nothing about a type here",
                    f"{nearest(item.name, known)}; constraints stand in the body",
                )
        return about

    def _cardinality(self, annotations: tuple[Annotation, ...]) -> Cardinality:
        found = [item for item in annotations if item.name == "card"]
        if len(found) > 1:
            self._diagnostics.add(found[1].at, "@card is given twice", "keep one")
        if not found:
            return Cardinality()
        args = found[0].args or ()
        if len(args) != 1 or not isinstance(args[0], Interval):
            self._diagnostics.add(found[0].at, "@card takes one range", "such as @card(0..1) or @card(1..)")
            return Cardinality()
        low, high = (_count(end) for end in (args[0].low, args[0].high))
        if low is None or (args[0].high is not None and high is None):
            self._diagnostics.add(found[0].at, "@card counts edges", "use whole numbers from 0, such as @card(0..1)")
            return Cardinality()
        if high is not None and (high < low or high == 0):
            self._diagnostics.add(found[0].at, f"no node can have {low}..{high} edges", "the second number is the most")
        return Cardinality(low, high)


def _count(end: Value | None) -> int | None:
    value = end.value if end else None
    return value if isinstance(value, int) and 0 <= value < 2**31 else None


def _ordered(constraints: Iterable[Constraint], properties: tuple[Property, ...]) -> tuple[Constraint, ...]:
    """Constraints in one order, whether they stood on a property or in the body."""
    places = {name: place for place, name in enumerate([*RESERVED_COLUMNS, *(item.name for item in properties)])}

    def place(item: Constraint) -> tuple[int, list[int], str]:
        names = item.properties if isinstance(item, Key | Unique) else (item.property,)
        kind = next((at for at, cls in enumerate(_CONSTRAINT_ORDER) if isinstance(item, cls)), len(_CONSTRAINT_ORDER))
        return kind, [places.get(name, -1) for name in names], repr(item)

    return tuple(sorted(dict.fromkeys(constraints), key=place))
