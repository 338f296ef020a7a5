"""From query text to a checked read or mutation, and the one of several that is meant."""

from __future__ import annotations

from headgate.errors import InvalidInput, NotFound
from headgate.graph.language.diagnostics import Source, diagnosing, nearest
from headgate.graph.query import syntax as q
from headgate.graph.query.check_mutation import mutation_of
from headgate.graph.query.check_read import read_of
from headgate.graph.query.mutation import CheckedMutation
from headgate.graph.query.parse import parse_queries
from headgate.graph.query.read import CheckedRead
from headgate.graph.schema.model import Schema

Checked = CheckedRead | CheckedMutation


def check_queries(text: str, schema: Schema, *, name: str = "query") -> tuple[Checked, ...]:
    """Every query of a text held against a schema, or `InvalidInput` with the problems of all of them."""
    with diagnosing(Source(text, name)) as diagnostics:
        return tuple(
            read_of(query, schema, diagnostics)
            if isinstance(query.body, q.Read)
            else mutation_of(query, schema, diagnostics)
            for query in parse_queries(text, name=name)
        )


def prepare_read(text: str, schema: Schema, *, query: str | None = None, name: str = "query") -> CheckedRead:
    """The read of a text: the one of that name, or the only one there is."""
    with diagnosing(Source(text, name)) as diagnostics:
        return read_of(choose(text, query, name=name), schema, diagnostics)


def prepare_mutation(text: str, schema: Schema, *, query: str | None = None, name: str = "query") -> CheckedMutation:
    """The mutation of a text: the one of that name, or the only one there is."""
    with diagnosing(Source(text, name)) as diagnostics:
        return mutation_of(choose(text, query, name=name), schema, diagnostics)


def choose(text: str, query: str | None, *, name: str = "query") -> q.Query:
    """The query of that name, or the only one of the text."""
    queries = parse_queries(text, name=name)
    names = [item.name for item in queries]
    if query is not None:
        for item in queries:
            if item.name == query:
                return item
        raise NotFound(message=f"{name} has no query {query}", hint=nearest(query, names), kind="query", name=query)
    if len(queries) != 1:
        hint = f"name one of {', '.join(names)}" if names else "write query name() { … }"
        raise InvalidInput(message=f"{name} holds {len(queries)} queries", hint=hint)
    return queries[0]
