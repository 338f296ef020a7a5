"""gc takes what is provably over, and nothing else."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest
from tests.unit.attempts.faults import Faulty, lost_before
from tests.unit.attempts.kit import WRITE, Kit, at, run_in_child

from headgate.attempts.gc import Reclaimed, reclaim_branches, reclaim_workspaces
from headgate.attempts.names import StagingName
from headgate.attempts.workspace import MARKER
from headgate.clock import SYSTEM_CLOCK
from headgate.errors import Transient
from headgate.failpoints import Failpoint
from headgate.ids import ULIDS
from headgate.orchestrators.local import LocalOrchestrator
from headgate.tasks.protocols import PolledAttempt


def leftover(kit: Kit, attempt: PolledAttempt | None = None, execution: str | None = None) -> str:
    """A staging branch that its worker did not live to delete."""
    name = str(StagingName.of(attempt or kit.submit(WRITE), execution or ULIDS.new()))
    kit.lake.create_branch(kit.repository, name, at=kit.input_ref)
    return name


def branches(kit: Kit, *, dry_run: bool = False, unknown_after: timedelta = timedelta(hours=24)) -> Reclaimed:
    return reclaim_branches(
        kit.lake,
        [kit.repository],
        kit.orchestrator,
        clock=SYSTEM_CLOCK,
        unknown_after=unknown_after,
        dry_run=dry_run,
    )


def test_a_branch_of_a_task_that_runs_stays(kit: Kit) -> None:
    name = leftover(kit)
    report = branches(kit)
    assert report.removed == []
    assert "is not over" in report.left[0].reason
    assert kit.staging_branches() == [name]


def test_a_branch_of_a_task_that_is_over_goes(kit: Kit) -> None:
    attempt = kit.submit(WRITE)
    name = leftover(kit, attempt)
    kit.orchestrator.fail(attempt.id, reason="no", terminal=True)
    assert [found.name for found in branches(kit, dry_run=True).removed] == [f"{kit.repository}@{name}"]
    assert kit.staging_branches() == [name]
    branches(kit)
    assert kit.staging_branches() == []
    assert kit.head() == kit.input_ref


def test_a_branch_of_another_orchestrator_stays(kit: Kit) -> None:
    other = LocalOrchestrator(kit.folder / "other.db")
    other.submit(WRITE.name, {})
    attempt = other.poll(WRITE.name)
    assert attempt is not None
    leftover(kit, attempt)
    other.fail(attempt.id, reason="over", terminal=True)
    other.close()
    report = branches(kit)
    assert report.removed == []
    assert "another orchestrator" in report.left[0].reason


def test_a_branch_nobody_knows_stays_until_it_is_old(kit: Kit) -> None:
    attempt = kit.submit(WRITE)
    name = leftover(kit, attempt)
    with kit.orchestrator._db.write() as rows:
        rows.execute("DELETE FROM tasks")
    report = branches(kit)
    assert report.removed == []
    assert "does not mean that it is over" in report.left[0].reason
    old = branches(kit, unknown_after=timedelta(0))
    assert [found.name for found in old.removed] == [f"{kit.repository}@{name}"]


def test_a_branch_with_an_execution_of_unknown_age_stays(kit: Kit) -> None:
    leftover(kit, execution="not-a-ulid")
    with kit.orchestrator._db.write() as rows:
        rows.execute("DELETE FROM tasks")
    assert branches(kit, unknown_after=timedelta(0)).removed == []


def test_a_branch_whose_name_we_cannot_read_stays(kit: Kit) -> None:
    kit.lake.create_branch(kit.repository, "headgate-staging-by-hand", at=kit.input_ref)
    kit.lake.create_branch(kit.repository, "feature", at=kit.input_ref)
    report = branches(kit)
    assert report.removed == []
    assert len(report.left) == 1


def test_an_orchestrator_that_does_not_answer_keeps_every_branch(kit: Kit) -> None:
    name = leftover(kit)
    silent = Faulty(kit.orchestrator, {"fate": lost_before(Transient(message="down"))})
    report = reclaim_branches(kit.lake, [kit.repository], silent, clock=SYSTEM_CLOCK)
    assert len(report.failed) == 1
    assert kit.staging_branches() == [name]


def workspaces(kit: Kit, *, dry_run: bool = False, unknown_after: timedelta = timedelta(hours=24)) -> Reclaimed:
    root = kit.runtime.options.workspace_root
    return reclaim_workspaces(root, clock=SYSTEM_CLOCK, unknown_after=unknown_after, dry_run=dry_run)


def test_invariant_7_a_workspace_whose_worker_lives_stays(kit: Kit) -> None:
    found: list[Reclaimed] = []
    with at(Failpoint.ATTEMPT_STAGED, lambda: found.append(workspaces(kit))):
        report = kit.run(WRITE)
    assert report.ok, report.reason
    assert found[0].removed == []
    assert "its worker lives" in found[0].left[0].reason


def test_a_workspace_whose_worker_was_killed_goes(kit: Kit) -> None:
    code = "with at(Failpoint.ATTEMPT_STAGED, die):\n    kit.run(WRITE)"
    assert run_in_child(code, kit.folder) == -signal.SIGKILL
    [folder] = kit.workspaces()
    assert [found.name for found in workspaces(kit, dry_run=True).removed] == [str(folder)]
    assert kit.workspaces() == [folder]
    workspaces(kit)
    assert kit.workspaces() == []


@pytest.mark.parametrize("text", ["not JSON", ""])
def test_a_workspace_with_a_damaged_marker_is_told_and_kept(kit: Kit, text: str) -> None:
    folder = kit.runtime.options.workspace_root / "01SOMETHING"
    (folder / "root").mkdir(parents=True)
    (folder / MARKER).write_text(text)
    report = workspaces(kit)
    assert report.removed == []
    assert "damaged" in report.failed[0].reason
    assert folder.exists()


def test_a_workspace_whose_removal_was_cut_off_goes(kit: Kit) -> None:
    """The marker is removed last: without it there is nothing else."""
    folder = kit.runtime.options.workspace_root / "01SOMETHING"
    folder.mkdir(parents=True)
    assert [found.name for found in workspaces(kit, dry_run=True).removed] == [str(folder)]
    assert folder.exists()
    workspaces(kit)
    assert not folder.exists()


def test_a_folder_with_files_and_no_marker_is_told_and_kept(kit: Kit) -> None:
    folder = kit.runtime.options.workspace_root / "mine"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("a person's")
    assert "no workspace" in workspaces(kit).failed[0].reason
    assert folder.exists()


def test_an_unfinished_workspace_goes_when_it_is_old(kit: Kit) -> None:
    folder = kit.runtime.options.workspace_root / ".new-01SOMETHING"
    folder.mkdir(parents=True)
    assert workspaces(kit).removed == []
    assert [found.name for found in workspaces(kit, unknown_after=timedelta(0)).removed] == [str(folder)]
    assert not folder.exists()
