"""Look: what is going on here, and what produced a ref."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, invocation
from headgate.errors import HeadgateError, InvalidInput, NotFound

if TYPE_CHECKING:
    from headgate.lake.interface import Lake, LakeCommit
    from headgate.lake.stores import OpenStore
    from headgate.orchestrators.machine import Machine
    from headgate.orchestrators.worker import LiveWorker
    from headgate.publication import Ref

app = typer.Typer()

_MOST_STEPS = 50
"""How far upstream `why` walks; a cycle is impossible, a very long chain is not."""


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
    """Every branch of every lake that people see, with what is known of its head."""
    from headgate.attempts.judging import judge
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


def _status_lines(facts: dict[str, Any]) -> Iterator[str]:
    yield f"orchestrator {facts['orchestrator']}"
    yield f"running      {len(facts['running'])}"
    for task in facts["running"]:
        yield f"  {task['task']}  {task['status']}  workflow {task['workflow']}, retry {task['retry']}"
    yield from _worker_lines(facts["workers"])
    yield "heads"
    for head in facts["heads"]:
        odd = head["status"] in ("abandoned", "undecided")
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


@dataclass(frozen=True, kw_only=True)
class Produced:
    """One step upstream: a commit, and what is known of who made it."""

    store: str
    ref: str
    created_at: datetime
    message: str
    committer: str
    path: str | None = None
    change: str | None = None
    task: str | None = None
    workflow: str | None = None
    task_id: str | None = None
    retry_count: int | None = None
    accepted: str | None = None
    strength: str | None = None
    code: str | None = None
    inputs: dict[str, str] | None = None


@app.command()
def why(
    address: Annotated[str, typer.Argument(metavar="STORE@REF", help="A branch or a ref.")],
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="Only what last changed this path.")] = None,
    json: console.JsonFlag = False,
) -> None:
    """Tell which attempt, inputs and code produced a ref, and walk upstream."""
    from headgate.orchestrators.machine import Machine
    from headgate.settings import StoreAddress

    parsed = StoreAddress.parse(address, default_at="main")
    with Machine(invocation.current().settings) as machine:
        store = machine.lakes.store(parsed.store)
        ref = store.lake.resolve(store.repository, str(parsed.at))
        steps = list(_upstream(machine, store, ref, path))
    console.show_either(steps, as_json_text=json, draw=lambda: "\n".join(_why_lines(steps)))


def _upstream(machine: Machine, store: OpenStore, ref: Ref, path: str | None) -> Iterator[Produced]:
    from headgate.publication import CommitMetadata, Ref

    waiting: list[tuple[OpenStore, Ref, str | None]] = [(store, ref, path)]
    seen: set[tuple[str, str]] = set()
    while waiting and len(seen) < _MOST_STEPS:
        at, start, wanted = waiting.pop(0)
        commit, change = (
            _last_change(at.lake, at.repository, start, wanted)
            if wanted
            else (
                at.lake.commit_at(at.repository, start),
                None,
            )
        )
        if (at.repository, commit.ref) in seen:
            continue
        seen.add((at.repository, commit.ref))
        made_by = CommitMetadata.from_map(commit.metadata)
        yield _produced(machine, at, commit, wanted, change)
        for name, input_ref in (made_by.inputs if made_by else {}).items():
            kind, _, source = name.partition(":")
            if kind == "workspace":
                try:
                    waiting.append((machine.lakes.of_repository(source), Ref(input_ref), None))
                except HeadgateError:
                    continue


def _last_change(lake: Lake, repository: str, ref: Ref, path: str) -> tuple[LakeCommit, str]:
    """The newest commit of the first-parent history that changed `path`, and how."""
    for commit in lake.log(repository, ref):
        if not commit.parents:
            break
        for change in lake.diff(repository, commit.parents[0], commit.ref, prefix=path):
            return commit, str(change.kind)
    raise NotFound(
        message=f"nothing in the history of {ref} has changed {path!r}",
        hint="`headgate lake ls` lists the paths of a ref",
        kind="path",
        name=path,
    )


def _produced(machine: Machine, store: OpenStore, commit: LakeCommit, path: str | None, change: str | None) -> Produced:
    from headgate.attempts.judging import judge
    from headgate.publication import CommitMetadata, Head, Replace

    made_by = CommitMetadata.from_map(commit.metadata)
    known: dict[str, Any] = {}
    if made_by is not None:
        head = Head(branch="", ref=commit.ref, parents=commit.parents, metadata=commit.metadata)
        verdict = judge(head, orchestrator=machine.orchestrator, store="workspace", replace=Replace.AUTO)
        dirty = {True: " (changed since)", False: "", None: ""}[made_by.code_dirty]
        known = {
            "task": made_by.task_name or made_by.reference_task,
            "workflow": made_by.workflow,
            "task_id": made_by.task_id,
            "retry_count": made_by.retry_count,
            "accepted": str(verdict.status),
            "strength": str(made_by.strength),
            "code": f"{made_by.code_module} at {made_by.code_commit or 'no commit'}{dirty}",
            "inputs": dict(made_by.inputs),
        }
    return Produced(
        store=store.store,
        ref=str(commit.ref),
        created_at=commit.created_at,
        message=commit.message,
        committer=commit.committer,
        path=path,
        change=change,
        **known,
    )


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
