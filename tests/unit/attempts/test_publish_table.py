"""Every row of the publish table, on a real lake, under both replacement rules.

The head is brought into each state by what would bring it there: an attempt that dies after its publish, one that is
accepted, one that still runs, a person, another orchestrator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.attempts.kit import LOOK, WRITE, Kit, Params, Result, crash_at, declared

from headgate.errors import PublishFenceError
from headgate.failpoints import Failpoint
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import CommitMetadata, Move, Ref, Replace
from headgate.tasks.declaration import TaskDeclaration

AUTO, ANY = Replace.AUTO, Replace.ANY


def at_the_input_ref(kit: Kit) -> None:
    pass


def abandoned(kit: Kit) -> None:
    """Published by an attempt that died before it could complete; its task id is over."""
    with crash_at(Failpoint.ATTEMPT_PUBLISHED):
        kit.run(WRITE, text="abandoned")
    kit.orchestrator.cancel(kit.orchestrator.tasks()[-1].workflow, reason="gone")


def undecided(kit: Kit) -> None:
    """The same, but its task id is still in progress: its completion may yet arrive."""
    with crash_at(Failpoint.ATTEMPT_PUBLISHED):
        kit.run(WRITE, text="undecided")


def accepted(kit: Kit) -> None:
    assert kit.run(WRITE, text="accepted").ok


def by_a_person(kit: Kit) -> None:
    kit.somebody_commits()


def of_another_orchestrator(kit: Kit) -> None:
    other = LocalOrchestrator(kit.folder / "other.db")
    theirs = kit.with_parts(orchestrator=other)
    theirs.orchestrator = other
    with crash_at(Failpoint.ATTEMPT_PUBLISHED):
        theirs.run(WRITE, text="elsewhere")
    other.close()


def unknown_to_the_orchestrator(kit: Kit) -> None:
    undecided(kit)
    kit.orchestrator.close()
    with kit.orchestrator._db.write() as rows:
        rows.execute("DELETE FROM tasks")


def two_further(kit: Kit) -> None:
    kit.somebody_commits("one")
    kit.somebody_commits("two")


def a_merge_commit(kit: Kit) -> None:
    kit.lake.create_branch(kit.repository, "side", at=kit.input_ref)
    kit.somebody_commits(branch="side")
    kit.lake.merge(kit.repository, "side", "main", expected_head=kit.input_ref, message="merged", squash=False)


MERGE, REPLACE, COMPLETE, RELOCATE, FENCED = Move.MERGE, Move.REPLACE, Move.COMPLETE, Move.RELOCATE, Move.FENCED
CHILD_IS_REPLACED = {(WRITE.name, ANY): REPLACE, (LOOK.name, ANY): RELOCATE}
NEVER = {(WRITE.name, AUTO): FENCED, (LOOK.name, AUTO): FENCED, (WRITE.name, ANY): FENCED, (LOOK.name, ANY): FENCED}
TABLE: dict[Callable[[Kit], None], dict[tuple[str, Replace], Move]] = {
    at_the_input_ref: {
        (WRITE.name, AUTO): MERGE,
        (WRITE.name, ANY): MERGE,
        (LOOK.name, AUTO): COMPLETE,
        (LOOK.name, ANY): COMPLETE,
    },
    abandoned: {(WRITE.name, AUTO): REPLACE, (LOOK.name, AUTO): RELOCATE, **CHILD_IS_REPLACED},
    undecided: {**NEVER, **CHILD_IS_REPLACED},
    accepted: {**NEVER, **CHILD_IS_REPLACED},
    by_a_person: {**NEVER, **CHILD_IS_REPLACED},
    of_another_orchestrator: {**NEVER, **CHILD_IS_REPLACED},
    unknown_to_the_orchestrator: {**NEVER, **CHILD_IS_REPLACED},
    two_further: NEVER,
    a_merge_commit: NEVER,
}
ROWS = [
    pytest.param(state, task, replace, move, id=f"{state.__name__}-{task.function.__name__}-{replace}")
    for state, moves in TABLE.items()
    for (name, replace), move in moves.items()
    for task in (WRITE, LOOK)
    if task.name == name
]


def test_the_table_has_every_row() -> None:
    assert len(ROWS) == len(TABLE) * 4


@pytest.mark.parametrize(("state", "task", "replace", "move"), ROWS)
def test_publish_table(
    kit: Kit, state: Callable[[Kit], None], task: TaskDeclaration, replace: Replace, move: Move
) -> None:
    """Invariants 2 and 3: a publish only where the fence holds, and only ever on top of the input ref."""
    state(kit)
    before = kit.head()
    kit = kit.with_options(replace=replace)
    report = kit.run(task, text="ours") if task is WRITE else kit.run(task)
    if move is FENCED:
        assert report.status == "FAILED"
        assert isinstance(report.error, PublishFenceError)
        assert kit.head() == before
        assert report.output is None
    else:
        assert report.ok, report.reason
        assert report.decision is not None
        assert report.decision.move is move
        published = [] if task is LOOK else [report.published]
        assert kit.history() == [kit.input_ref, *published]
        assert report.published == kit.head()
    kit.assert_nothing_left()


def test_a_replacement_s_files_come_from_the_input_ref(kit: Kit) -> None:
    """Invariant 3: nothing of the abandoned publication is in what replaces it."""

    def other(workspace: Path, params: Params) -> Result:
        (workspace / "second.txt").write_text("2")
        return Result(files=0)

    abandoned(kit)
    assert "out.txt" in kit.files()
    report = kit.run(declared(other))
    assert kit.files() == {"a.txt": b"a", "deep/b.txt": b"b", "second.txt": b"2"}
    metadata = CommitMetadata.from_map(kit.lake.head(kit.repository, "main").metadata)
    assert metadata is not None
    assert metadata.publish_id == report.execution


def test_the_refusal_names_everything_a_person_needs(kit: Kit) -> None:
    person = kit.somebody_commits()
    report = kit.run(WRITE)
    assert isinstance(report.error, PublishFenceError)
    assert (report.error.input_ref, report.error.head) == (kit.input_ref, person)
    assert report.error.head_parent == kit.input_ref
    assert "a person or another system" in report.error.message
    assert "headgate rewind" in report.error.hint


def test_a_retry_of_a_fenced_attempt_decides_again(kit: Kit) -> None:
    """An older task id that still ran is over at the retry, and its publication is replaced then."""
    undecided(kit)
    [first] = kit.orchestrator.tasks(running=True)
    attempt = kit.submit(WRITE, text="ours")
    assert isinstance(kit.run(WRITE, attempt).error, PublishFenceError)
    kit.orchestrator.cancel(first.workflow, reason="its worker is dead")
    report = kit.run(WRITE, kit.poll(WRITE, attempt.id.workflow))
    assert report.ok, report.reason
    assert kit.history() == [kit.input_ref, report.published]


def test_a_completed_ref_stays_accepted_when_its_workflow_fails_later(kit: Kit) -> None:
    accepted(kit)
    kept = kit.head()
    with kit.orchestrator._db.write() as rows:
        rows.execute("UPDATE workflows SET status = 'FAILED'")
    assert isinstance(kit.run(WRITE, text="ours").error, PublishFenceError)
    assert kit.head() == kept


def test_the_settings_rule_is_over_the_task_s(kit: Kit) -> None:
    from headgate.tasks import WorkspaceSpec

    kit.somebody_commits()
    any_child = declared(WRITE.function, workspace=WorkspaceSpec(replace="any"))
    report = kit.run(any_child, text="ours")
    assert report.ok, report.reason
    assert kit.history() == [kit.input_ref, Ref(str(report.published))]
