"""Random schemas and query trees, as text-language authors could have written them."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.graph.query import syntax as q
from headgate.graph.schema.model import (
    INTEGERS,
    NUMBERS,
    Annotations,
    Cardinality,
    Check,
    Constraint,
    EdgeType,
    Index,
    Key,
    Kind,
    NodeType,
    Property,
    PropertyType,
    Range,
    Schema,
    Unique,
)
from headgate.graph.schema.parse import RESERVED_VERBS, _ordered

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
LOWER = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True).filter(
    lambda name: name not in RESERVED_VERBS and name not in ("id", "src", "dst")
)
PLAIN_TYPES = st.sampled_from([PropertyType(kind) for kind in Kind if kind not in (Kind.VECTOR, Kind.ENUM)])
ENUMS = st.lists(TEXT, min_size=1, max_size=3, unique=True).map(
    lambda values: PropertyType(Kind.ENUM, values=tuple(values))
)
VECTORS = st.integers(1, 900).map(lambda size: PropertyType(Kind.VECTOR, size=size))
LISTS = st.one_of(PLAIN_TYPES, ENUMS).map(lambda item: PropertyType(item.kind, True, item.values))
TYPES = st.one_of(PLAIN_TYPES, ENUMS, VECTORS, LISTS)
ABOUT = st.builds(Annotations, *[st.none() | TEXT] * 3)
PATTERNS = st.sampled_from(["[a-z]+", r"\d{2}", 'a"b', r"\\", "é|ß", ""])


@st.composite
def _default(draw: st.DrawFn, declared: PropertyType) -> object:
    if declared.is_list or not draw(st.booleans()):
        return None
    if declared.kind in INTEGERS:
        return draw(st.integers(0, 100))
    by_kind = {Kind.BOOL: st.booleans(), Kind.STRING: TEXT, Kind.ENUM: st.sampled_from(declared.values or ("",))}
    if declared.kind is Kind.F64:
        return draw(st.floats(allow_nan=False, allow_infinity=False, width=32))
    return draw(by_kind[declared.kind]) if declared.kind in by_kind else None


@st.composite
def _table(draw: st.DrawFn, names: list[str]) -> tuple[tuple[Property, ...], tuple[Constraint, ...]]:
    properties: list[Property] = []
    constraints: list[Constraint] = []
    for name in names:
        declared = draw(TYPES)
        made = Property(name, declared, draw(st.booleans()), draw(_default(declared)), draw(ABOUT))
        properties.append(made)
        if declared.kind in NUMBERS and not declared.is_list and made.default is None and draw(st.booleans()):
            low, high = sorted(draw(st.tuples(st.integers(-99, 99), st.integers(-99, 99))))
            constraints.append(Range(name, *draw(st.sampled_from([(low, high), (low, None), (None, high)]))))
        if declared.kind is Kind.STRING and not declared.is_list and made.default is None and draw(st.booleans()):
            constraints.append(Check(name, draw(PATTERNS)))
        if not declared.is_list and declared.kind is not Kind.BLOB and draw(st.booleans()):
            constraints.append(Index(name))
    keyable = [item.name for item in properties if item.type.is_keyable]
    required = [item.name for item in properties if item.type.is_keyable and not item.nullable]
    if required and draw(st.booleans()):
        constraints.append(Key(tuple(draw(st.lists(st.sampled_from(required), min_size=1, max_size=2, unique=True)))))
    if keyable and draw(st.booleans()):
        constraints.append(Unique(tuple(draw(st.lists(st.sampled_from(keyable), min_size=1, max_size=2, unique=True)))))
    return tuple(properties), _ordered(constraints, tuple(properties))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(LOWER, min_size=1, max_size=4, unique=True))
    nodes = []
    for name in names:
        properties, constraints = draw(_table(draw(st.lists(LOWER, max_size=4, unique=True))))
        nodes.append(NodeType(name.capitalize(), properties, constraints, draw(ABOUT)))
    edges = []
    for name in draw(st.lists(LOWER, max_size=3, unique=True)):
        properties, constraints = draw(_table(draw(st.lists(LOWER, max_size=2, unique=True))))
        ends = [draw(st.sampled_from(nodes)).name for _ in range(2)]
        low = draw(st.integers(0, 3))
        card = Cardinality(low, draw(st.none() | st.integers(max(low, 1), 9)))
        edge = EdgeType(f"E_{name}", properties, constraints, draw(ABOUT), src=ends[0], dst=ends[1], cardinality=card)
        edges.append(edge)
    return Schema(tuple(nodes), tuple(edges))


VARIABLES = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,4}", fullmatch=True).map(q.Variable)
LITERALS = st.one_of(
    TEXT, st.booleans(), st.none(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False)
).map(q.LiteralValue)
LIST_VALUES = st.lists(LITERALS, max_size=3).map(lambda values: q.ListValue(tuple(values)))
PROPERTIES = st.builds(lambda variable, name: q.PropertyOf(variable.name, name), VARIABLES, LOWER)
OPERANDS = st.one_of(VARIABLES, PROPERTIES, LOWER.map(q.Column), LITERALS, LIST_VALUES)
FIELDS = st.lists(st.builds(q.Field, LOWER, st.one_of(VARIABLES, LITERALS, LIST_VALUES)), max_size=3).map(tuple)
LEAVES = st.one_of(
    st.builds(q.Compare, OPERANDS, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), OPERANDS),
    st.builds(q.Member, OPERANDS, OPERANDS, st.booleans()),
    st.builds(q.Contains, OPERANDS, OPERANDS),
    st.builds(q.StartsWith, OPERANDS, OPERANDS),
    st.builds(q.NullTest, OPERANDS, st.booleans()),
)


def _flat(kind: type[q.And] | type[q.Or], parts: list[q.Expression]) -> q.Expression:
    return kind(tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))))


EXPRESSIONS: st.SearchStrategy[q.Expression] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: _flat(q.And, parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: _flat(q.Or, parts)),
        inner.map(q.Not),
    ),
    max_leaves=6,
)
HOPS = st.one_of(
    st.none(),
    st.integers(0, 9).map(lambda count: q.Hops(count, count)),
    st.builds(q.Hops, st.integers(0, 4), st.none() | st.integers(5, 9)),
)


def _traversal(
    src: q.Variable,
    verb: str,
    dst: q.Variable,
    hops: q.Hops | None,
    edge: q.Variable | None,
    fields: tuple[q.Field, ...],
) -> q.Traversal:
    return q.Traversal(src, verb, dst, hops, edge, fields if edge else ())


CLAUSES: st.SearchStrategy[q.Clause] = st.recursive(
    st.one_of(
        st.builds(q.Pattern, VARIABLES, LOWER, FIELDS),
        st.builds(_traversal, VARIABLES, LOWER, VARIABLES, HOPS, st.none() | VARIABLES, FIELDS),
        st.builds(q.Filter, EXPRESSIONS),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda clauses: q.Absent(tuple(clauses))),
        st.lists(inner, max_size=2).map(lambda clauses: q.Optional(tuple(clauses))),
    ),
    max_leaves=4,
)
RESULTS = st.one_of(
    PROPERTIES,
    VARIABLES,
    st.builds(q.Aggregate, LOWER, st.none() | PROPERTIES | VARIABLES, st.booleans()),
)
READS = st.builds(
    q.Read,
    st.lists(CLAUSES, max_size=3).map(tuple),
    st.lists(st.builds(q.Item, RESULTS, st.none() | LOWER), max_size=3).map(tuple),
    st.booleans(),
    st.lists(st.builds(q.Sort, st.one_of(PROPERTIES, LOWER.map(q.Column)), st.booleans()), max_size=2).map(tuple),
    st.none() | st.integers(0, 10**6) | VARIABLES,
)
WHERE = st.one_of(EXPRESSIONS, st.just(q.Everything()))
STATEMENTS = st.one_of(
    st.builds(q.Insert, LOWER, FIELDS), st.builds(q.Update, LOWER, FIELDS, WHERE), st.builds(q.Delete, LOWER, WHERE)
)
MUTATIONS = st.lists(STATEMENTS, min_size=1, max_size=3).map(lambda made: q.Mutation(tuple(made)))
PARAMETERS = st.lists(
    st.builds(lambda v, t, n: q.Parameter(v.name, t, n), VARIABLES, TYPES, st.booleans()), max_size=3
).map(tuple)
QUERIES = st.lists(
    st.builds(q.Query, LOWER, PARAMETERS, st.one_of(READS, MUTATIONS)), max_size=2, unique_by=lambda query: query.name
).map(tuple)
