"""The commands of `headgate graph schema` that compare a file with a graph's schema: plan and apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console
from headgate.cli.graph_input import StoreArgument, open_graph
from headgate.cli.graph_write import ActorOption, BranchOption, IfCommitOption, MessageOption, PublishIdOption

if TYPE_CHECKING:
    from headgate.graph.evolve.apply import PlannedSchema
    from headgate.graph.schema.change import Step

SchemaArgument = Annotated[Path, typer.Argument(help="The schema file (.pg) to get to.", metavar="FILE")]
DataLossFlag = Annotated[
    bool,
    typer.Option(
        "--allow-data-loss", help="Drops are hard: what they drop can no longer be read at earlier commits either."
    ),
]


def plan(
    store: StoreArgument,
    file: SchemaArgument,
    branch: BranchOption = "main",
    allow_data_loss: DataLossFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Show the steps from a graph's schema to a file's, or everything that stands in the way."""
    with open_graph(store, mode="ro") as opened:
        name, text = _source(file)
        planned = opened.plan_schema(text, branch=branch, name=name, allow_data_loss=allow_data_loss)
    value = {"changes": not planned.plan.changes_nothing, "steps": _steps(planned.plan.steps), **_obstacles(planned)}
    console.show_either(value, as_json_text=json, draw=lambda: _told(planned.plan.steps))
    planned.check()


def apply(
    store: StoreArgument,
    file: SchemaArgument,
    branch: BranchOption = "main",
    allow_data_loss: DataLossFlag = False,
    actor: ActorOption = "",
    message: MessageOption = "",
    publish_id: PublishIdOption = "",
    if_commit: IfCommitOption = "",
    dry_run: console.DryRunFlag = False,
    yes: console.YesFlag = False,
    json: console.JsonFlag = False,
) -> None:
    """Bring a graph to the schema of a file, as one commit with its tables."""
    if dry_run:
        plan(store, file, branch=branch, allow_data_loss=allow_data_loss, json=json)
        return
    name, text = _source(file)
    with open_graph(store, mode="rw") as opened:
        planned = opened.plan_schema(text, branch=branch, name=name, allow_data_loss=allow_data_loss)
        planned.check()
        hard = [step.told for step in planned.plan.steps if step.hard]
        if hard:
            console.confirm(f"{'; '.join(hard)}. Go on?", yes=yes)
        done = opened.apply_schema(
            text,
            branch=branch,
            name=name,
            allow_data_loss=allow_data_loss,
            actor=actor,
            message=message,
            publish_id=publish_id,
            if_commit=if_commit,
        )
    value = {"commit": done.commit, "changed": done.changed, "steps": _steps(done.steps)}
    console.show_either(
        value,
        as_json_text=json,
        draw=lambda: f"{_told(done.steps)}\n{'changed' if done.changed else 'unchanged'} at {done.commit}",
    )


def _source(file: Path) -> tuple[str, str]:
    from headgate.graph.language.files import read_source

    source = read_source(file)
    return source.name, source.text


def _steps(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [{"kind": step.kind, "where": step.where, "told": step.told, "hard": step.hard} for step in steps]


def _obstacles(planned: PlannedSchema) -> dict[str, Any]:
    return {
        "refusals": [
            {"code": item.code, "where": item.where, "reason": item.reason, "fix": item.fix}
            for item in planned.plan.refusals
        ],
        "rows": [{"type": row.type, "id": row.id, "reason": row.message} for row in planned.rejected],
    }


def _told(steps: tuple[Step, ...]) -> str:
    return "\n".join(step.told for step in steps) or "nothing to change"


def add_to(schema: typer.Typer) -> None:
    schema.command("plan")(plan)
    schema.command("apply")(apply)
