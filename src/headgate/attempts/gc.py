"""Reclaiming what dead workers left: local workspaces, and staging branches whose attempts are over.

Nothing is guessed. A workspace goes when its marker's lock can be had, so that its worker is gone. A branch goes when
this orchestrator, whose id the name carries, says that its task id is over. A task id that the orchestrator does not
know is not over, unless the branch is older than a long time. What is left alone is told, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headgate.attempts.lake_store import Staged, delete_staging_branch
from headgate.attempts.names import PREFIX, StagingName, parse
from headgate.attempts.workspace import UNFINISHED, Marker, locked, remove_tree, remove_workspace
from headgate.clock import Clock
from headgate.errors import HeadgateError
from headgate.lake.interface import Branch, Lake
from headgate.publication import TaskState
from headgate.tasks.protocols import Orchestrator

UNKNOWN_AFTER = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True)
class Found:
    """One thing gc looked at. `reason` says why it goes, or why it stays."""

    kind: str
    name: str
    reason: str


@dataclass(kw_only=True)
class Reclaimed:
    """What goes (or would), what stays, and what could not be dealt with."""

    removed: list[Found] = field(default_factory=list)
    left: list[Found] = field(default_factory=list)
    failed: list[Found] = field(default_factory=list)


def reclaim_workspaces(
    root: Path, *, clock: Clock, unknown_after: timedelta = UNKNOWN_AFTER, dry_run: bool = False
) -> Reclaimed:
    """Remove the local workspaces whose workers are gone."""
    report = Reclaimed()
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        try:
            if folder.name.startswith(UNFINISHED):
                _reclaim_unfinished(folder, report, clock=clock, unknown_after=unknown_after, dry_run=dry_run)
            elif not folder.name.startswith(".") and folder.is_dir():
                _reclaim_workspace(folder, report, dry_run=dry_run)
        except (HeadgateError, OSError) as error:
            report.failed.append(Found(kind="workspace", name=str(folder), reason=str(error)))
    return report


def _reclaim_workspace(folder: Path, report: Reclaimed, *, dry_run: bool) -> None:
    if not any(folder.iterdir()):
        # Only a remover takes a marker out, and it does so last.
        if not dry_run:
            folder.rmdir()
        report.removed.append(Found(kind="workspace", name=str(folder), reason="it is empty: its removal was cut off"))
        return
    marker = Marker.read(folder)
    with locked(folder) as free:
        if not free:
            report.left.append(Found(kind="workspace", name=str(folder), reason=f"its worker lives: pid {marker.pid}"))
            return
        if not dry_run:
            remove_workspace(folder)
    gone = f"its worker is gone: pid {marker.pid}, task {marker.task}"
    report.removed.append(Found(kind="workspace", name=str(folder), reason=gone))


def _reclaim_unfinished(
    folder: Path, report: Reclaimed, *, clock: Clock, unknown_after: timedelta, dry_run: bool
) -> None:
    """A folder that was never finished may be about to be: only its age can tell."""
    age = clock.now() - datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    if age < unknown_after:
        report.left.append(Found(kind="workspace", name=str(folder), reason="it is being made"))
        return
    if not dry_run:
        remove_tree(folder)
    report.removed.append(Found(kind="workspace", name=str(folder), reason=f"never finished, {_told(age)} old"))


def reclaim_branches(
    lake: Lake,
    repositories: Iterable[str],
    orchestrator: Orchestrator,
    *,
    clock: Clock,
    unknown_after: timedelta = UNKNOWN_AFTER,
    dry_run: bool = False,
) -> Reclaimed:
    """Delete the staging branches of this orchestrator's attempts that are over."""
    report = Reclaimed()
    for repository in repositories:
        for branch in list(lake.branches(repository, prefix=PREFIX)):
            shown = f"{repository}@{branch.name}"
            try:
                over, reason = _is_over(branch, orchestrator, clock=clock, unknown_after=unknown_after)
                if over and not dry_run:
                    delete_staging_branch(lake, Staged(repository=repository, branch=branch.name, commit=branch.ref))
            except HeadgateError as error:
                report.failed.append(Found(kind="staging branch", name=shown, reason=str(error)))
                continue
            (report.removed if over else report.left).append(Found(kind="staging branch", name=shown, reason=reason))
    return report


def _is_over(branch: Branch, orchestrator: Orchestrator, *, clock: Clock, unknown_after: timedelta) -> tuple[bool, str]:
    name = parse(branch.name)
    if name is None:
        return False, "its name is not one of ours"
    if name.orchestrator != orchestrator.id:
        return False, f"it belongs to another orchestrator, {name.orchestrator}"
    state = orchestrator.fate(name.workflow, name.task_id, store="workspace").state
    if state is TaskState.RUNNING:
        return False, f"task {name.task_id} is not over"
    if state is not TaskState.NOT_FOUND:
        return True, f"task {name.task_id} is {state}"
    age = _age(name, clock)
    if age is None or age < unknown_after:
        return False, f"the orchestrator does not know task {name.task_id}, which does not mean that it is over"
    return True, f"the orchestrator does not know task {name.task_id}, and the branch is {_told(age)} old"


def _age(name: StagingName, clock: Clock) -> timedelta | None:
    """From the execution id, which holds its time of making; a branch without commits has no time of its own."""
    from ulid import ULID

    try:
        return clock.now() - ULID.from_str(name.execution).datetime
    except ValueError:
        return None


def _told(age: timedelta) -> str:
    hours = age.total_seconds() / 3600
    return f"{hours:.0f} hours" if hours < 72 else f"{age.days} days"
