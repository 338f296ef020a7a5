"""The commands of `headgate graph` that write: init, load, mutate; and export, which writes files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.cli.graph_input import StoreArgument, graph_uri, open_graph, parameters, query_text
from headgate.errors import AlreadyExists, InvalidInput

BranchOption = Annotated[str, typer.Option(help="Write to this branch.", metavar="NAME")]
ActorOption = Annotated[str, typer.Option(help="Who writes, for the log.", metavar="NAME", envvar="HEADGATE_ACTOR")]
MessageOption = Annotated[str, typer.Option("--message", "-m", help="Why, for the log.", metavar="TEXT")]
PublishIdOption = Annotated[
    str, typer.Option(help="A second write with this id changes nothing and answers with the first.", metavar="ID")
]
IfCommitOption = Annotated[str, typer.Option(help="Write only if this is the head.", metavar="REF")]


def init(
    store: StoreArgument,
    schema: Annotated[Path, typer.Option(help="The schema file (.pg).", metavar="FILE")],
    actor: ActorOption = "",
    message: MessageOption = "",
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Create an empty graph with a schema."""
    from headgate import graph as graphs
    from headgate.graph.language.files import read_source
    from headgate.graph.schema.parse import parse_schema

    source = read_source(schema)
    types = [table.name for table in parse_schema(source.text, name=source.name).tables()]
    if dry_run:
        console.show_either(
            {"store": store, "types": types, "dry_run": True},
            as_json_text=json,
            draw=lambda: f"would create {store} with {', '.join(types) or 'no types'}",
        )
        return
    with graphs.init(graph_uri(store), source.text, actor=actor, message=message) as made:
        done = {"store": made.uri, "commit": made.head().id, "types": types}
    console.show_either(done, as_json_text=json, draw=lambda: f"created {done['store']} at {done['commit']}")


def load(
    store: StoreArgument,
    data: Annotated[
        list[str],
        typer.Argument(
            help="Files: JSONL, CSV, Parquet or Arrow. With Spark also URLs, and table:NAME of a catalog.",
            metavar="DATA…",
        ),
    ],
    mode: Annotated[str, typer.Option(help="append, merge or overwrite.", metavar="MODE")] = "append",
    type_name: Annotated[
        str | None, typer.Option("--type", help="The type of rows that do not say theirs.", metavar="TYPE")
    ] = None,
    rejects: Annotated[
        Path | None, typer.Option(help="Write every rejected row's place and reason here.", metavar="FILE")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="auto, local or spark: what loads. It says which it chose and why.", metavar="ENGINE")
    ] = "auto",
    branch: BranchOption = "main",
    actor: ActorOption = "",
    message: MessageOption = "",
    publish_id: PublishIdOption = "",
    if_commit: IfCommitOption = "",
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Load files as one commit: all their rows, or none with the reason for each bad one."""
    from headgate.spark.choice import choose_engine

    settings = invocation.current().settings.spark
    choice = choose_engine("local" if dry_run else engine, data, settings)
    with open_graph(store, mode="ro" if dry_run else "rw") as opened:
        if dry_run:
            rows = opened.check_load(*data, mode=mode, type_name=type_name, branch=branch, rejects=rejects)
            console.show_either(
                {"rows": rows, "dry_run": True}, as_json_text=json, draw=lambda: f"would load {_counted(rows)}"
            )
            return
        console.note(f"engine {choice.engine}: {choice.why}")
        options: dict[str, Any] = {
            "mode": mode,
            "type_name": type_name,
            "branch": branch,
            "actor": actor,
            "message": message,
            "publish_id": publish_id,
            "if_commit": if_commit,
            "rejects": rejects,
        }
        if choice.engine == "local":
            done: Any = opened.load(*data, **options)
        else:
            done = _load_by_spark(opened, data, options, settings)
    told = {**console.as_json(done), "engine": choice.engine, "why": choice.why}
    console.show_either(
        told,
        as_json_text=json,
        draw=lambda: (
            f"loaded before, at {done.commit}" if done.repeated else f"loaded {_counted(done.rows)} at {done.commit}"
        ),
    )


def _load_by_spark(opened: Any, data: list[str], options: dict[str, Any], settings: Any) -> Any:
    from headgate.spark import SparkSessions
    from headgate.spark.load import spark_load

    sessions = SparkSessions(settings)
    try:
        session = sessions.session(jobs="headgate graph load")
        with console.progress() as bars:
            bar = bars.add_task("load", total=None)

            def report(what: str, done: int, total: int) -> None:
                bars.update(bar, description=what[:40], completed=done, total=total)

            done = spark_load(session, opened, *data, report=report, **options)
    finally:
        sessions.close()
    if not done.repeated:
        rows = [(name, f"{count:,}") for name, count in done.rows.items()]
        console.stderr().print(console.table(["type", "rows"], rows))
        console.note(", ".join(f"{name} {value:.1f} s" for name, value in done.seconds.items()))
    return done


def mutate(
    store: StoreArgument,
    file: Annotated[Path | None, typer.Argument(help="A query file (.gq).")] = None,
    text: Annotated[str | None, typer.Option("--text", "-e", help="The query itself.", metavar="QUERY")] = None,
    name: Annotated[str, typer.Option(help="Which query, where there are several.", metavar="NAME")] = "",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="A parameter; JSON, or else text.", metavar="NAME=VALUE"),
    ] = None,
    params: Annotated[str | None, typer.Option(help="All parameters as one JSON object.", metavar="JSON")] = None,
    branch: BranchOption = "main",
    actor: ActorOption = "",
    message: MessageOption = "",
    publish_id: PublishIdOption = "",
    if_commit: IfCommitOption = "",
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Run a mutation query as one commit."""
    _, source = query_text(file, text)
    given = parameters(param, params)
    with open_graph(store, mode="ro" if dry_run else "rw") as opened:
        if dry_run:
            affected = opened.check_mutation(source, given, name=name, branch=branch)
            console.show_either(
                {"affected": affected, "dry_run": True}, as_json_text=json, draw=lambda: f"would have {_done(affected)}"
            )
            return
        done = opened.mutate(
            source,
            given,
            name=name,
            branch=branch,
            actor=actor,
            message=message,
            publish_id=publish_id,
            if_commit=if_commit,
        )

    def told() -> str:
        if done.repeated:
            return f"done before, at {done.commit}"
        return f"{_done(done.affected)} at {done.commit}" if done.changed else f"nothing changed at {done.commit}"

    console.show_either(done, as_json_text=json, draw=told)


def export(
    store: StoreArgument,
    into: Annotated[Path, typer.Argument(help="A folder, made anew; or a .jsonl file.", metavar="INTO")],
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type. May be repeated.", metavar="TYPE")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="jsonl, parquet or csv.", metavar="FORMAT")] = "",
    branch: Annotated[str | None, typer.Option(help="The head of this branch.", metavar="NAME")] = None,
    commit: Annotated[str | None, typer.Option(help="At this commit.", metavar="REF")] = None,
    dry_run: console.DryRunFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Write a graph's rows to files that `load` reads again."""
    from headgate.graph.load.export import export_rows

    chosen = form or ("jsonl" if into.suffix == ".jsonl" else "parquet")
    if into.exists():
        raise AlreadyExists(message=f"{into} is there already", kind="file", name=str(into), hint="choose another")
    if into.suffix == ".jsonl" and chosen != "jsonl":
        raise InvalidInput(message=f"{into} is no name for {chosen}", hint="name a folder")
    with open_graph(store, mode="ro") as opened:
        rows = export_rows(opened.base(branch=branch, commit=commit), into, chosen, types, write=not dry_run)
    what = "would write" if dry_run else "wrote"
    console.show_either(
        {"into": str(into), "rows": rows}, as_json_text=json, draw=lambda: f"{what} {_counted(rows)} to {into}"
    )


def add_to(group: typer.Typer) -> None:
    """Put the commands on `headgate graph`."""
    for command in (init, load, mutate, export):
        group.command(command.__name__)(command)


def _counted(rows: dict[str, int]) -> str:
    told = [f"{count:,} {name}" for name, count in rows.items() if count]
    return ", ".join(told) if told else "no rows"


def _done(affected: Any) -> str:
    told = {"inserted": affected.inserted, "updated": affected.updated, "deleted": affected.deleted}
    return ", ".join(f"{what} {count:,}" for what, count in told.items() if count) or "changed nothing"
