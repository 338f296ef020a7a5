"""Invariant 4: an answer that is lost is revoked, read back by the publish id, and only then decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.attempts.faults import Faulty, lost_after, lost_before
from tests.unit.attempts.kit import LOOK, WRITE, Kit, crash_at

from headgate.attempts.lake_store import lake_opener
from headgate.attempts.report import AttemptReport
from headgate.errors import OutcomeUnknown, Transient
from headgate.failpoints import Failpoint
from headgate.publication import Move
from headgate.tasks.declaration import TaskDeclaration

LOST = OutcomeUnknown(message="the connection broke while the answer was awaited")
BROKEN = Transient(message="the lake does not answer")

# What brings the head into the state in which each kind of update is made, and the call that makes it.
UPDATES = [
    pytest.param(WRITE, False, Move.MERGE, "merge", id="merge"),
    pytest.param(WRITE, True, Move.REPLACE, "move_head", id="replace"),
    pytest.param(LOOK, True, Move.RELOCATE, "move_head", id="relocate"),
]


def run_with_faults(
    kit: Kit, task: TaskDeclaration, *, replacing: bool, faults: dict[str, Callable[..., Any]]
) -> tuple[AttemptReport, Faulty]:
    if replacing:
        with crash_at(Failpoint.ATTEMPT_PUBLISHED):
            kit.run(WRITE, text="abandoned")
        kit.orchestrator.cancel(kit.orchestrator.tasks()[-1].workflow, reason="gone")
    lake = Faulty(kit.lake, faults)
    return kit.with_parts(stores={"workspace": lake_opener(lambda block: lake)}).run(task), lake


@pytest.mark.parametrize(("task", "replacing", "move", "call"), UPDATES)
@pytest.mark.parametrize("error", [LOST, RuntimeError("a fault nobody foresaw")], ids=["lost", "unforeseen"])
def test_what_took_effect_is_found_and_completed(
    kit: Kit, task: TaskDeclaration, replacing: bool, move: Move, call: str, error: Exception
) -> None:
    report, lake = run_with_faults(kit, task, replacing=replacing, faults={call: lost_after(error)})
    assert report.ok, report.reason
    assert report.decision is not None
    assert report.decision.move is move
    assert report.published == kit.head()
    assert kit.history() == ([kit.input_ref] if task is LOOK else [kit.input_ref, report.published])
    assert lake.calls.count(call) == 1
    assert lake.calls.index("revoke", lake.calls.index(call)) < lake.calls.index("head", lake.calls.index(call))
    kit.assert_nothing_left()


@pytest.mark.parametrize(("task", "replacing", "move", "call"), UPDATES)
def test_what_took_no_effect_is_revoked_and_failed(
    kit: Kit, task: TaskDeclaration, replacing: bool, move: Move, call: str
) -> None:
    report, lake = run_with_faults(kit, task, replacing=replacing, faults={call: lost_before(LOST)})
    assert report.status == "FAILED"
    assert "revoked" in report.reason
    assert lake.calls.count(call) == 1
    retried = kit.run(task, kit.poll(task))
    assert retried.ok, retried.reason
    assert kit.history() == ([kit.input_ref] if task is LOOK else [kit.input_ref, retried.published])


@pytest.mark.parametrize(("task", "replacing", "move", "call"), UPDATES)
def test_what_cannot_be_revoked_or_read_is_never_a_success(
    kit: Kit, task: TaskDeclaration, replacing: bool, move: Move, call: str
) -> None:
    """Invariant 2: if we cannot tell, no success is reported; the retry finds out from the branch."""
    broken = lost_before(BROKEN)
    faults = {call: lost_after(LOST), "revoke": broken, "log": broken}
    if move is Move.RELOCATE:  # its no-op needs the revoke before; it is read back by the head alone
        faults = {call: lost_before(LOST), "head": _only_the_first_answers()}
    report, _ = run_with_faults(kit, task, replacing=replacing, faults=faults)
    assert report.status == "FAILED"
    assert isinstance(report.error, OutcomeUnknown)
    assert report.output is None
    retried = kit.run(task, kit.poll(task))
    assert retried.ok, retried.reason
    assert kit.history() == ([kit.input_ref] if task is LOOK else [kit.input_ref, retried.published])


def test_a_publish_that_arrives_after_it_was_given_up_finds_its_branch_gone(kit: Kit) -> None:
    late: list[Callable[[], Any]] = []

    def on_its_way(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        late.append(lambda: call(*args, **kwargs))
        raise LOST

    report, _ = run_with_faults(kit, WRITE, replacing=False, faults={"merge": on_its_way})
    assert report.status == "FAILED"
    from headgate.errors import NotFound

    with pytest.raises(NotFound):
        late[0]()
    assert kit.head() == kit.input_ref


def test_a_staging_branch_whose_making_was_not_answered_is_cleaned_up(kit: Kit) -> None:
    report, _ = run_with_faults(kit, WRITE, replacing=False, faults={"create_branch": lost_after(BROKEN)})
    assert report.status == "FAILED"
    assert report.phase == "stage"
    kit.assert_nothing_left()


@pytest.mark.parametrize("call", ["create_branch", "commit", "head", "merge", "objects", "revoke"])
def test_a_lake_that_is_down_fails_the_attempt_and_leaves_nothing(kit: Kit, call: str) -> None:
    task = LOOK if call == "revoke" else WRITE
    report, _ = run_with_faults(kit, task, replacing=False, faults={call: lost_before(BROKEN)})
    assert report.status == "FAILED"
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_a_cleanup_that_fails_changes_no_result(kit: Kit) -> None:
    """Invariant 7: the branch stays for `gc`, and the result is what was decided."""
    report, _ = run_with_faults(kit, WRITE, replacing=False, faults={"delete_branch": lost_before(BROKEN)})
    assert report.ok, report.reason
    assert len(kit.staging_branches()) == 1
    assert kit.workspaces() == []


def _only_the_first_answers() -> Callable[..., Any]:
    asked = []

    def fault(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        asked.append(True)
        if len(asked) > 1:
            raise BROKEN
        return call(*args, **kwargs)

    return fault
