"""What the commands of `headgate graph` are given: a graph, a query, its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import invocation
from headgate.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from headgate.graph import Graph
    from headgate.graph.graph import Mode

StoreArgument = Annotated[
    str, typer.Argument(help="The graph: a store of the settings, a folder or s3://…", metavar="STORE")
]


def graph_uri(store: str) -> str:
    """The address of a graph that is named in the settings, or is an address itself."""
    settings = invocation.current().settings
    if store not in settings.stores:
        return store
    found = settings.store(store)
    if found.graph is None:
        raise Unsupported(message=f"the store {store!r} is a lake", hint="name a graph")
    return str(found.graph)


def is_graph(store: str) -> bool:
    """Whether a graph is named: by the settings, or by its address."""
    named = invocation.current().settings.stores.get(store)
    return named.kind == "graph" if named else "://" in store or Path(store).is_dir()


def open_graph(store: str, *, mode: Mode) -> Graph:
    from datetime import timedelta

    from headgate import graph as graphs

    kept = timedelta(days=invocation.current().settings.graph.publish_ids_days)
    return graphs.open(graph_uri(store), mode, publish_ids_kept=kept)


def query_text(file: Path | None, text: str | None) -> tuple[str, str]:
    from headgate.graph.language.files import read_source

    if (file is None) == (text is None):
        raise InvalidInput(message="a query is a FILE or a --text", hint="give one of them")
    if text is not None:
        return "--text", text
    assert file is not None
    source = read_source(file)
    return source.name, source.text


def parameters(pairs: list[str] | None, text: str | None) -> dict[str, Any]:
    """Parameters of the command line: one JSON object, and single ones that go before it."""
    import json

    given: dict[str, Any] = {}
    if text is not None:
        try:
            given = json.loads(text)
        except ValueError as error:
            raise InvalidInput(message=f"--params is not JSON: {error}", hint='write {"name": value}') from error
        if not isinstance(given, dict):
            raise InvalidInput(message="--params is no JSON object", hint='write {"name": value}')
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(message=f"--param {pair} has no value", hint="write --param NAME=VALUE")
        try:
            given[name.removeprefix("$")] = json.loads(value)
        except ValueError:
            given[name.removeprefix("$")] = value
    return given
