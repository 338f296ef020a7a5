"""Look: what is going on here, and what produced a ref."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.errors import InvalidInput, MissingExtra, NotFound

if TYPE_CHECKING:
    from headgate.cli.upstream import Produced
    from headgate.orchestrators.machine import Machine
    from headgate.orchestrators.worker import LiveWorker

app = typer.Typer()


@app.command()
def status(json: console.JsonFlag = False) -> None:
    """Show what runs, which heads were never accepted, what was left."""
    from headgate.orchestrators.machine import Machine

    with Machine(invocation.current().settings) as machine:
        facts = _status(machine)
    console.show_either(facts, as_json_text=json, draw=lambda: "\n".join(_status_lines(facts)))


def _status(machine: Machine) -> dict[str, Any]:
    from headgate.orchestrators.worker.status import live_workers

    gone = machine.collect_garbage(dry_run=True)
    return {
        "orchestrator": machine.orchestrator.id,
        "running": [
            {"task": task.name, "workflow": task.workflow, "status": task.status, "retry": task.retry_count}
            for task in machine.running_tasks()
        ],
        "workers": live_workers(machine.settings.state),
        "heads": list(_heads(machine)),
        "left_behind": [{"kind": found.kind, "name": found.name, "reason": found.reason} for found in gone.removed],
        "abandoned_publications": len(machine.records.abandoned_publications()),
        "kept_failures": [kept.execution for kept in machine.kept.all()],
    }


def _heads(machine: Machine) -> Iterator[dict[str, str]]:
    """Every branch of every store that people see, with what is known of its head."""
    from headgate.attempts.judging import judge
    from headgate.cli.upstream import GraphSource
    from headgate.lake.interface import STAGING_PREFIX
    from headgate.publication import Replace

    for store in machine.lakes.all():
        try:
            branches = [b for b in store.lake.branches(store.repository) if not b.name.startswith(STAGING_PREFIX)]
        except NotFound:
            continue
        for branch in branches:
            head = store.lake.head(store.repository, branch.name)
            verdict = judge(head, orchestrator=machine.orchestrator, store="workspace", replace=Replace.AUTO)
            address = f"{store.store}@{branch.name}"
            yield {"branch": address, "ref": str(head.ref), "status": str(verdict.status), "reason": verdict.reason}
    for name in sorted(name for name, found in machine.settings.stores.items() if found.graph is not None):
        try:
            heads = GraphSource(name, machine.graph(name)).heads()
        except NotFound:
            continue
        except MissingExtra as error:
            yield {"branch": name, "ref": "", "status": "unread", "reason": f"{error.message}: {error.hint}"}
            continue
        for head in heads:
            verdict = judge(head, orchestrator=machine.orchestrator, store="graph", replace=Replace.AUTO)
            address = f"{name}@{head.branch}"
            yield {"branch": address, "ref": str(head.ref), "status": str(verdict.status), "reason": verdict.reason}


def _status_lines(facts: dict[str, Any]) -> Iterator[str]:
    yield f"orchestrator {facts['orchestrator']}"
    yield f"running      {len(facts['running'])}"
    for task in facts["running"]:
        yield f"  {task['task']}  {task['status']}  workflow {task['workflow']}, retry {task['retry']}"
    yield from _worker_lines(facts["workers"])
    yield "heads"
    for head in facts["heads"]:
        odd = head["status"] in ("abandoned", "undecided", "unread")
        yield f"  {head['branch']}  {head['ref'][:12]}" + (f"  {head['status']}: {head['reason']}" if odd else "")
    if facts["left_behind"]:
        yield f"left behind  {len(facts['left_behind'])}; `headgate gc` reclaims them"
    if facts["kept_failures"]:
        yield f"kept         {len(facts['kept_failures'])} failed attempts; `headgate attempts` shows them"


def _worker_lines(workers: Sequence[LiveWorker]) -> Iterator[str]:
    from headgate.clock import SYSTEM_CLOCK

    now = SYSTEM_CLOCK.now()
    yield f"workers      {len(workers)}"
    for worker in workers:
        domain = f", domain {worker.domain}" if worker.domain else ""
        busy = f"{len(worker.attempts)} of {worker.executors} executors busy"
        yield f"  pid {worker.pid}  {worker.state}  {busy}, {worker.per_minute:g} attempts a minute{domain}"
        for attempt in worker.attempts:
            told = f"    {attempt.task}  {attempt.phase or 'starting'}, {_age(attempt.age(now))} old"
            told += f"  workflow {attempt.workflow}, retry {attempt.retry_count}, attempt {attempt.execution}"
            yield told + (f": {attempt.progress}" if attempt.progress else "")


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@app.command()
def why(
    address: Annotated[str, typer.Argument(metavar="STORE@REF", help="A branch or a ref.")],
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH|TYPE:ID]", help="Only what last changed this path, or this row.")
    ] = None,
    json: console.JsonFlag = False,
) -> None:
    """Tell which attempt, inputs and code produced a ref, and walk upstream."""
    from headgate.cli.upstream import source_of, upstream
    from headgate.orchestrators.machine import Machine
    from headgate.settings import StoreAddress

    parsed = StoreAddress.parse(address, default_at="main")
    with Machine(invocation.current().settings) as machine:
        source = source_of(machine, parsed.store)
        steps = list(upstream(machine, source, source.resolve(str(parsed.at)), path))
    console.show_either(steps, as_json_text=json, draw=lambda: "\n".join(_why_lines(steps)))


def _why_lines(steps: list[Produced]) -> Iterator[str]:
    for step in steps:
        changed = f" {step.change} {step.path}" if step.path else ""
        yield f"{step.store}@{step.ref[:12]}{changed}  {step.created_at:%Y-%m-%d %H:%M:%S}  {step.message}"
        if step.task is None:
            yield f"  by {step.committer}, by hand or from elsewhere"
            continue
        yield f"  task {step.task}, workflow {step.workflow}, task id {step.task_id}, retry {step.retry_count}"
        yield f"  {step.accepted}, {step.strength} fence; code {step.code}"
        for name, ref in (step.inputs or {}).items():
            yield f"  read {name} at {ref[:12]}"


@app.command()
def budget(
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Only this task.")] = None,
    json: console.JsonFlag = False,
) -> None:
    """Show how long publishes took, and a PublishBudget to paste."""
    from headgate.orchestrators.machine import Machine

    with Machine(invocation.current().settings) as machine:
        names = [task] if task else machine.records.published_tasks()
        found = [times for name in names if (times := machine.records.publish_times(name)) is not None]
    if task and not found:
        raise InvalidInput(
            message=f"no publish of the task {task!r} has been recorded here", hint="run it, then ask again"
        )
    console.show_either(found, as_json_text=json, draw=lambda: "\n".join(_budget_lines(found)))


def _budget_lines(found: list[Any]) -> Iterator[str]:
    from headgate.attempts.budgets import budget_for

    if not found:
        yield "no publish has been recorded here yet"
    for times in found:
        chosen = budget_for(times)
        yield f"{times.task}: {times.count} publishes, p50 {times.p50:.3f} s, p99 {times.p99:.3f} s"
        yield (
            f"  PublishBudget(observed_publish_p99_seconds={chosen.observed_publish_p99_seconds:g}, "
            f"safety_margin_seconds={chosen.safety_margin_seconds:g}, "
            f"publish_timeout_seconds={chosen.publish_timeout_seconds:g})"
        )
        yield f"  the lease needs at least {chosen.derived_lease_seconds:g} s (response_seconds)"
