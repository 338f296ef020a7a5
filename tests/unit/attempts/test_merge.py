"""headgate_merge: a branch merged into another one by an attempt, as safely as any other publication."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.attempts.kit import Kit, at, crash_at

from headgate.attempts.report import AttemptReport
from headgate.errors import Conflict, MergeConflict, PublishFenceError
from headgate.failpoints import Failpoint
from headgate.lake import Changes
from headgate.publication import Move
from headgate.shipped import headgate_merge
from headgate.tasks import task_of
from headgate.tasks.protocols import PolledAttempt

MERGE = task_of(headgate_merge)


@pytest.fixture
def branched(kit: Kit) -> Kit:
    """A branch `feature` with one more file, and one that is changed."""
    kit.lake.create_branch(kit.repository, "feature", at=kit.input_ref)
    puts: Any = {"f.txt": b"f", "a.txt": b"a of feature"}
    kit.lake.commit(kit.repository, "feature", Changes(puts=puts), message="on feature")
    return kit


def merge(kit: Kit, attempt: PolledAttempt | None = None, **params: Any) -> AttemptReport:
    return kit.run(MERGE, attempt or kit.submit(MERGE, source="feature", **params))


def test_a_branch_is_merged_in_one_commit_of_this_attempt(branched: Kit) -> None:
    report = merge(branched)
    assert report.ok, report.reason
    assert branched.history() == [branched.input_ref, report.published]
    assert branched.files() == {"a.txt": b"a of feature", "deep/b.txt": b"b", "f.txt": b"f"}
    assert sorted(report.changes) == ["added f.txt", "changed a.txt"]
    head = branched.lake.head(branched.repository, "feature").ref
    assert report.result == {"source": "feature", "source_ref": head}
    branched.assert_nothing_left()


def test_what_the_target_has_already_is_no_publication(branched: Kit) -> None:
    first = merge(branched)
    again = branched.run(MERGE, branched.submit(MERGE, first.published, source="feature"))
    assert again.ok, again.reason
    assert again.published == first.published == branched.head()
    assert again.decision is not None
    assert again.decision.move is Move.COMPLETE
    branched.assert_nothing_left()


def test_both_sides_are_kept(branched: Kit) -> None:
    ours = branched.somebody_commits()
    report = branched.run(MERGE, branched.submit(MERGE, ours, source="feature"))
    assert report.ok, report.reason
    assert set(branched.files()) == {"a.txt", "deep/b.txt", "f.txt", "person.txt"}


def test_a_conflict_publishes_nothing_and_names_the_paths(branched: Kit) -> None:
    puts: Any = {"a.txt": b"a of main"}
    ours = branched.lake.commit(branched.repository, "main", Changes(puts=puts), message="on main")
    report = branched.run(MERGE, branched.submit(MERGE, ours, source="feature"))
    assert (report.status, branched.head()) == ("FAILED", ours)
    assert isinstance(report.error, MergeConflict)
    assert report.error.paths == ("a.txt",)
    branched.assert_nothing_left()


def test_a_head_that_moved_is_fenced(branched: Kit) -> None:
    with at(Failpoint.ATTEMPT_STAGED, lambda: branched.somebody_commits()):
        report = merge(branched)
    assert isinstance(report.error, PublishFenceError)
    assert "f.txt" not in branched.files()


def test_a_source_that_moves_meanwhile_is_merged_by_the_retry(branched: Kit) -> None:
    puts: Any = {"late.txt": b"late"}
    late = at(
        Failpoint.ATTEMPT_STAGING_CREATED,
        lambda: branched.lake.commit(branched.repository, "feature", Changes(puts=puts), message="late"),
    )
    with late:
        first = merge(branched)
    assert isinstance(first.error, Conflict)
    assert branched.head() == branched.input_ref
    second = branched.run(MERGE, branched.poll(MERGE))
    assert second.ok, second.reason
    assert "late.txt" in branched.files()


def test_an_abandoned_merge_is_replaced_by_the_retry(branched: Kit) -> None:
    """Invariant 3: an abandoned commit is never the parent of a new one."""
    attempt = branched.submit(MERGE, source="feature")
    with crash_at(Failpoint.ATTEMPT_PUBLISHED):
        merge(branched, attempt)
    abandoned = branched.head()
    branched.orchestrator.retry(attempt.id.task_id, reason="its worker died")
    report = branched.run(MERGE, branched.poll(MERGE))
    assert report.ok, report.reason
    assert report.decision is not None
    assert report.decision.move is Move.REPLACE
    assert abandoned not in branched.history()
    assert branched.history() == [branched.input_ref, report.published]


@pytest.mark.parametrize("source", ["main", "headgate-staging-x", "no-such-branch"])
def test_a_branch_that_cannot_be_merged_is_terminal(branched: Kit, source: str) -> None:
    report = branched.run(MERGE, branched.submit(MERGE, source=source))
    assert report.status == "FAILED_WITH_TERMINAL_ERROR"
    assert source in report.reason
