"""The mutation of a query text, checked against a schema; texts that come again are not read again."""

from __future__ import annotations

from functools import lru_cache

from headgate.errors import InvalidInput
from headgate.graph.language.diagnostics import Source
from headgate.graph.query import syntax as q
from headgate.graph.query.check_mutation import check_mutation
from headgate.graph.query.mutation import CheckedMutation
from headgate.graph.query.parse import parse_queries
from headgate.graph.schema.model import Schema


class _Same:
    """A schema, known by being the same object: parsed schemas are kept, and comparing them would cost more."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema

    def __hash__(self) -> int:
        return id(self.schema)


def mutation(text: str, schema: Schema, *, name: str = "") -> CheckedMutation:
    """The mutation of this name in a text; the only query needs no name."""
    return _checked(text, name, _Same(schema))


@lru_cache(maxsize=256)
def _checked(text: str, name: str, schema: _Same) -> CheckedMutation:
    found = pick(parse_queries(text), name)
    if not isinstance(found.body, q.Mutation):
        raise InvalidInput(
            message=f"{found.name} reads and changes nothing", hint="use query for it, or name a mutation"
        )
    return check_mutation(found, schema.schema, source=Source(text, found.name))


def pick(queries: tuple[q.Query, ...], name: str = "") -> q.Query:
    """The query of a name, or the only one."""
    names = ", ".join(query.name for query in queries)
    if not queries:
        raise InvalidInput(message="the text holds no query", hint="write query name() { … }")
    if name:
        for query in queries:
            if query.name == name:
                return query
        raise InvalidInput(message=f"the text holds no query {name}", hint=f"it holds: {names}")
    if len(queries) > 1:
        raise InvalidInput(message=f"the text holds {len(queries)} queries", hint=f"name one of: {names}")
    return queries[0]
