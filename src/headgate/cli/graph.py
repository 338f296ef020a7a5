"""`headgate graph`: typed tables. What reads is here; what writes is in `graph_write`, and joins the same group."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from headgate.cli import console, graph_changes, graph_schema, graph_write
from headgate.cli.graph_input import StoreArgument, open_graph, parameters, query_text
from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from headgate.graph.read.result import QueryResult
    from headgate.graph.read.snapshot import Snapshot

app = typer.Typer()
graph = typer.Typer(help="Typed tables: schema, queries, SQL, loads and mutations.", no_args_is_help=True)
app.add_typer(graph, name="graph")

BranchOption = Annotated[str | None, typer.Option(help="Read the head of this branch.", metavar="NAME")]
CommitOption = Annotated[str | None, typer.Option(help="Read at this commit.", metavar="REF")]
TimeOption = Annotated[
    datetime | None, typer.Option("--at", help="Read the branch as it was then (UTC).", metavar="TIME")
]
ParamOption = Annotated[
    list[str] | None,
    typer.Option(
        "--param", "-p", help="A parameter; the value is JSON, or else text. May be repeated.", metavar="NAME=VALUE"
    ),
]
ParamsOption = Annotated[str | None, typer.Option(help="All parameters as one JSON object.", metavar="JSON")]


class _RunUnlessNamed(TyperGroup):
    """A group whose first word may be left out: `query STORE …` is `query run STORE …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


schema = typer.Typer(help="The schema of a graph.", no_args_is_help=True)
query = typer.Typer(help="Run a query, or check query files.", cls=_RunUnlessNamed, no_args_is_help=True)
graph.add_typer(schema, name="schema")
graph.add_typer(query, name="query")
graph_write.add_to(graph)
graph.command("changes")(graph_changes.changes)
graph_schema.add_to(schema)


@schema.command("check")
def check_schema(
    file: Annotated[Path, typer.Argument(help="A schema file (.pg).")], json: console.JsonFlag = False
) -> None:
    """Check a schema file, and tell every problem with its place."""
    from headgate.graph.schema.parse import read_schema

    found = read_schema(file)
    counts = {"nodes": len(found.nodes), "edges": len(found.edges), "interfaces": len(found.interfaces)}
    told = ", ".join(f"{what} {count}" for what, count in counts.items())
    console.show_either({"file": file, **counts}, as_json_text=json, draw=lambda: f"{file} is right: {told}")


@schema.command("show")
def show_schema(
    store: StoreArgument,
    branch: BranchOption = None,
    commit: CommitOption = None,
    at: TimeOption = None,
) -> None:
    """Print the schema of a graph, as a file would say it."""
    from headgate.graph.schema.text import schema_text

    console.say(schema_text(_snapshot(store, branch, commit, at).schema).rstrip("\n"))


@query.command("check")
def check_query(
    files: Annotated[list[Path], typer.Argument(help="Query files (.gq).")],
    schema_file: Annotated[
        Path | None, typer.Option("--schema", help="Check names and types against this schema file.", metavar="FILE")
    ] = None,
    store: Annotated[str | None, typer.Option(help="Check against the schema of this graph.", metavar="STORE")] = None,
    json: console.JsonFlag = False,
) -> None:
    """Check query files, and tell every problem with its place."""
    from headgate.graph.language.files import read_source
    from headgate.graph.query.parse import parse_queries
    from headgate.graph.query.prepare import check_queries
    from headgate.graph.schema.parse import read_schema

    if schema_file is not None and store is not None:
        raise InvalidInput(message="--schema and --store both name a schema", hint="give one of them")
    against = read_schema(schema_file) if schema_file is not None else None
    if store is not None:
        against = _snapshot(store, None, None, None).schema
    found: dict[str, list[str]] = {}
    for file in files:
        source = read_source(file)
        if against is None:
            found[str(file)] = [item.name for item in parse_queries(source.text, name=source.name)]
        else:
            found[str(file)] = [item.name for item in check_queries(source.text, against, name=source.name)]
    what = "right" if against is not None else "well-formed (name a --schema to check names and types)"
    console.show_either(
        found,
        as_json_text=json,
        draw=lambda: "\n".join(
            f"{file} is {what}: {', '.join(names) or 'no queries'}" for file, names in found.items()
        ),
    )


@query.command("run")
def run_query(
    store: StoreArgument,
    file: Annotated[Path | None, typer.Argument(help="A query file (.gq).")] = None,
    text: Annotated[str | None, typer.Option("--text", "-e", help="The query itself.", metavar="QUERY")] = None,
    name: Annotated[str | None, typer.Option(help="Which query, where there are several.", metavar="NAME")] = None,
    param: ParamOption = None,
    params: ParamsOption = None,
    branch: BranchOption = None,
    commit: CommitOption = None,
    at: TimeOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan; run nothing.")] = False,
    json: console.JsonFlag = False,
) -> None:
    """Run a read and print its rows."""
    source_name, source_text = query_text(file, text)
    snapshot = _snapshot(store, branch, commit, at)
    given = parameters(param, params)
    if explain:
        lines = snapshot.explain(source_text, given, name=name, source=source_name)
        console.show_either(lines, as_json_text=json, draw=lambda: "\n".join(lines))
        return
    _show_rows(snapshot.query(source_text, given, name=name, source=source_name), as_json_text=json)


@graph.command("sql")
def run_sql(
    store: StoreArgument,
    text: Annotated[str, typer.Argument(help="One SELECT; each type is a view.", metavar="SQL")],
    param: ParamOption = None,
    params: ParamsOption = None,
    branch: BranchOption = None,
    commit: CommitOption = None,
    at: TimeOption = None,
    json: console.JsonFlag = False,
) -> None:
    """Run SQL over the types of a graph and print its rows."""
    found = _snapshot(store, branch, commit, at).sql(text, parameters(param, params))
    _show_rows(found, as_json_text=json)


def _snapshot(store: str, branch: str | None, commit: str | None, at: datetime | None) -> Snapshot:
    from datetime import UTC

    time = at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
    return open_graph(store, mode="ro").snapshot(branch=branch, commit=commit, time=time)


def _show_rows(result: QueryResult, *, as_json_text: bool) -> None:
    rows = result.to_json_rows()
    value = {"commit": result.commit, "columns": result.columns, "rows": rows}
    console.show_either(
        value,
        as_json_text=as_json_text,
        draw=lambda: console.table(result.columns, [[row[name] for name in result.columns] for row in rows]),
    )
    if not as_json_text:
        console.note(f"{len(rows):,} row{'' if len(rows) == 1 else 's'} at {result.commit}")
