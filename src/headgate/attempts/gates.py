"""Reclaiming on lakeFS: gates that dead replacers left shut, old gate records, branches of probes that did not end.

A gate is released when this orchestrator says that its owner's task id is over; releasing is safe in any case, so that
an owner nobody knows does not keep a gate shut. Records go only below a later one that is closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from headgate.attempts.gc import UNKNOWN_AFTER, Found, Reclaimed
from headgate.clock import Clock
from headgate.errors import HeadgateError
from headgate.lake.lakefs import LakeFSLake
from headgate.lake.lakefs.gate import Gate, targets
from headgate.lake.lakefs.installing import FENCE_PREFIX
from headgate.lake.lakefs.proof import PROBE_PREFIX
from headgate.publication import TaskState
from headgate.tasks.protocols import Orchestrator

_ULID_LENGTH = 26


def reclaim_gates(
    lake: LakeFSLake,
    repositories: Iterable[str],
    orchestrator: Orchestrator,
    *,
    clock: Clock,
    unknown_after: timedelta = UNKNOWN_AFTER,
    dry_run: bool = False,
) -> Reclaimed:
    """Release and tidy the gates of every target, and delete the branches that probes and installs left."""
    report = Reclaimed()
    for repository in repositories:
        try:
            found = targets(lake.api, repository)
        except HeadgateError as error:
            report.failed.append(Found(kind="gates", name=repository, reason=str(error)))
            continue
        for target in found:
            gate = Gate(lake.api, repository, target)
            try:
                _release(gate, orchestrator, report, dry_run=dry_run)
                if not dry_run and (gone := gate.collect()):
                    reason = f"{gone} records of moves that are over"
                    report.removed.append(Found(kind="gate records", name=f"{repository}@{target}", reason=reason))
            except HeadgateError as error:
                report.failed.append(Found(kind="gate", name=f"{repository}@{target}", reason=str(error)))
        _reclaim_helpers(lake, repository, report, clock=clock, unknown_after=unknown_after, dry_run=dry_run)
    return report


def _release(gate: Gate, orchestrator: Orchestrator, report: Reclaimed, *, dry_run: bool) -> None:
    state = gate.state()
    record = gate.record(state.epoch) if state.shut else None
    if record is None:
        return
    name, owner = f"{gate.repository}@{gate.target}", record.owner
    if owner.orchestrator and owner.orchestrator != orchestrator.id:
        left = f"it belongs to another orchestrator, {owner.orchestrator}"
        report.left.append(Found(kind="gate", name=name, reason=left))
        return
    known = owner.orchestrator == orchestrator.id
    fate = orchestrator.fate(owner.workflow, owner.task_id, store="workspace").state if known else TaskState.NOT_FOUND
    if fate is TaskState.RUNNING:
        report.left.append(Found(kind="gate", name=name, reason=f"task {owner.task_id} is not over"))
        return
    if not dry_run:
        gate.release(record)
    report.removed.append(Found(kind="gate", name=name, reason=f"its owner is over: task {owner.task_id or 'unknown'}"))


def _reclaim_helpers(
    lake: LakeFSLake, repository: str, report: Reclaimed, *, clock: Clock, unknown_after: timedelta, dry_run: bool
) -> None:
    from ulid import ULID

    for prefix in (PROBE_PREFIX, FENCE_PREFIX):
        for branch in list(lake.branches(repository, prefix=prefix)):
            shown = f"{repository}@{branch.name}"
            try:
                age = clock.now() - ULID.from_str(branch.name[len(prefix) :][:_ULID_LENGTH].upper()).datetime
            except ValueError:
                continue
            if age < unknown_after:
                report.left.append(Found(kind="branch", name=shown, reason="it may still be in use"))
                continue
            if not dry_run:
                lake.delete_branch(repository, branch.name)
            report.removed.append(Found(kind="branch", name=shown, reason="what made it did not live to delete it"))
