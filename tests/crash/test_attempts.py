"""Attempts killed with SIGKILL at every point they pass, retried, and audited.

Invariants 1, 3 and 6: the branch is at the input ref or at one commit on top of it, the retry ends as an undisturbed
attempt does, and nothing is left over.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.attempts import gc, lake_store
from headgate.failpoints import Failpoint
from headgate.publication import Decision, Move
from headgate.testing.audit import Expected, Harm, counted
from headgate.testing.crash import WINDOWS, WRITES, CrashHarness, Job, KillPoint
from headgate.testing.crash_jobs import JOBS, READ
from headgate.testing.place import Place

pytestmark = pytest.mark.slow

NOT_WITHOUT_CHANGES = {Failpoint.ATTEMPT_STAGING_CREATED, Failpoint.ATTEMPT_HALF_UPLOADED}
NOT_WITHOUT_UPDATE = {
    Failpoint.ATTEMPT_AFTER_SECOND_FENCE,
    Failpoint.ATTEMPT_PUBLISHED,
    Failpoint.ATTEMPT_STAGING_DELETED,
}
NOT_WHEN_READING = NOT_WITHOUT_CHANGES | NOT_WITHOUT_UPDATE | {Failpoint.ATTEMPT_STAGED, Failpoint.ATTEMPT_HEAD_READ}


def windows_of(name: str, job: Job) -> set[Failpoint]:
    """The windows this job has to pass: all but those that belong to steps it has not got."""
    if job.declaration is READ:
        return set(WINDOWS) - NOT_WHEN_READING
    if name == "unchanged":
        return set(WINDOWS) - NOT_WITHOUT_CHANGES - NOT_WITHOUT_UPDATE
    if name.startswith("unchanged"):
        return set(WINDOWS) - NOT_WITHOUT_CHANGES
    return set(WINDOWS)


@pytest.mark.parametrize("name", JOBS)
def test_an_attempt_killed_at_any_point_can_be_retried(name: str, tmp_path: Path) -> None:
    report = CrashHarness(Place(tmp_path), JOBS[name]).run(*WINDOWS, *WRITES)
    passed = {here.point for here in report.points}
    assert passed == windows_of(name, JOBS[name]) | set(WRITES)
    assert report.runs == len(report.points)
    assert report.findings == []


@pytest.mark.parametrize("name", ["changed", "unchanged, after an abandoned publication"])
def test_an_attempt_whose_retry_is_killed_at_the_same_point_can_be_retried(name: str, tmp_path: Path) -> None:
    report = CrashHarness(Place(tmp_path), JOBS[name]).run(*WINDOWS, kills=2)
    assert report.runs > 10
    assert report.findings == []


@pytest.fixture
def harness(tmp_path: Path) -> CrashHarness:
    return CrashHarness(Place(tmp_path), JOBS["changed"])


def harms(harness: CrashHarness, point: Failpoint) -> dict[str, int]:
    return counted(harness.run(point).findings)


def test_a_point_that_is_never_reached_fails_the_run(harness: CrashHarness) -> None:
    with pytest.raises(AssertionError, match="never reached: the attempt ended COMPLETED"):
        harness.kill(KillPoint(Failpoint.GRAPH_PUBLISHED), Expected(publishes=True))


def test_the_auditor_finds_a_gc_that_forgets_branches(harness: CrashHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "delete_staging_branch", lambda lake, staged: None)
    assert harms(harness, Failpoint.ATTEMPT_STAGED) == {"lost": 0, "duplicated": 0, "leaked": 1}


def test_the_auditor_finds_a_gc_that_forgets_folders(harness: CrashHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "remove_workspace", lambda folder: None)
    assert harms(harness, Failpoint.ATTEMPT_IN_BODY) == {"lost": 0, "duplicated": 0, "leaked": 1}


def test_the_auditor_finds_a_retry_that_is_fenced(harness: CrashHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.attempts import judging
    from headgate.publication import Abandonment, HeadStatus

    accepted = Abandonment(status=HeadStatus.ACCEPTED, reason="it is not")
    monkeypatch.setattr(judging, "judge_head", lambda head, **_: accepted)
    assert harms(harness, Failpoint.ATTEMPT_PUBLISHED)["lost"] > 0


def test_the_auditor_finds_a_retry_that_publishes_on_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never A -> H -> C: here the runtime merges onto the abandoned head."""

    def merge_anyway(self: lake_store.LakeStore, decision: Decision, *args: object) -> object:
        move = Move.MERGE if decision.move is Move.REPLACE else decision.move
        return update(self, Decision(move=move, expected_head=decision.expected_head, reason="broken"), *args)

    update = lake_store.LakeStore._update
    monkeypatch.setattr(lake_store.LakeStore, "_update", merge_anyway)
    harness = CrashHarness(Place(tmp_path), JOBS["changed, after an abandoned publication"])
    assert harms(harness, Failpoint.ATTEMPT_IN_BODY)["duplicated"] == 1


def test_the_auditor_finds_an_accepted_ref_that_is_gone(tmp_path: Path) -> None:
    from headgate.testing.audit import audit

    job = JOBS["changed"]
    with Place(tmp_path) as place:
        target = place.new_target(job.files)
        workflow = place.submit(job.declaration, target, job.params)
        attempt = place.poll(job.declaration, workflow)
        assert attempt is not None
        report = place.run(job.declaration, attempt)
        assert report.ok
        assert report.published is not None
        assert list(audit(place, target, workflow, Expected(publishes=True), before=target.input_ref)) == []
        place.lake.create_branch(target.repository, "back", at=target.input_ref)
        place.lake.move_head(target.repository, "main", to_branch="back", expected_head=report.published)
        found = list(audit(place, target, workflow, Expected(publishes=True), before=target.input_ref))
    assert {finding.harm for finding in found} == {Harm.LOST}
    assert str(report.published) in found[0].what
