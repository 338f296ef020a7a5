"""An attempt from input ref to published ref, when nothing goes wrong."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.unit.attempts.kit import LOOK, READ_ONLY, WRITE, Kit, Params, Result, at, declared

from headgate.attempts.lake_store import lake_opener
from headgate.failpoints import Failpoint
from headgate.lake.progress import Meter
from headgate.publication import CommitMetadata, Move, Strength


def test_a_changed_workspace_is_published(kit: Kit) -> None:
    """Invariant 3: the visible history is the input ref, then what was published."""
    report = kit.run(WRITE)
    assert report.ok, report.reason
    assert kit.history() == [kit.input_ref, report.published]
    assert kit.files() == {"a.txt": b"a", "deep/b.txt": b"b", "out.txt": b"new"}
    assert report.output == {"workspace": kit.block(report.published), "result": {"files": 3}}
    assert report.decision is not None
    assert (report.decision.move, report.strength, report.changes) == (Move.MERGE, Strength.HARD, ("added out.txt",))
    task = kit.orchestrator.task(report.attempt.task_id)
    assert (task.status, task.output) == ("COMPLETED", report.output)
    kit.assert_nothing_left()


def test_an_unchanged_workspace_completes_with_the_input_ref(kit: Kit) -> None:
    report = kit.run(LOOK)
    assert report.ok, report.reason
    assert report.published == kit.input_ref == kit.head()
    assert report.decision is not None
    assert report.decision.move is Move.COMPLETE
    kit.assert_nothing_left()


def test_a_read_only_task_asks_no_head(kit: Kit) -> None:
    kit.somebody_commits()
    report = kit.run(READ_ONLY)
    assert report.ok, report.reason
    assert report.output is not None
    assert report.output["workspace"]["ref"] == kit.input_ref
    assert report.decision is None
    kit.assert_nothing_left()


def test_a_watcher_sees_every_file_that_is_moved(kit: Kit) -> None:
    moved: dict[str, Meter] = {}

    def watch(what: str) -> AbstractContextManager[Meter]:
        return nullcontext(moved.setdefault(what, Meter()))

    report = kit.with_parts(stores={"workspace": lake_opener(lambda block: kit.lake, watch=watch)}).run(WRITE)
    assert report.ok, report.reason
    told = {what: (meter.transferred.files, meter.transferred.bytes) for what, meter in moved.items()}
    assert told == {"download": (2, 2), "upload": (1, 3)}


def test_a_task_without_a_store_completes(kit: Kit) -> None:
    def plain(params: Params) -> Result:
        return Result(files=len(params.text))

    report = kit.run(declared(plain, workspace=None))
    assert report.output == {"result": {"files": 3}}
    kit.assert_nothing_left()


def test_the_commit_says_who_made_it_from_what(kit: Kit) -> None:
    report = kit.run(WRITE)
    metadata = CommitMetadata.from_map(kit.lake.head(kit.repository, "main").metadata)
    assert metadata is not None
    assert metadata.publish_id == report.execution
    assert metadata.expected_head == kit.input_ref
    assert metadata.orchestrator == kit.orchestrator.id
    assert (metadata.workflow, metadata.task_id) == (report.attempt.workflow, report.attempt.task_id)
    assert metadata.inputs == {f"workspace:{kit.repository}": kit.input_ref}
    assert metadata.strength is Strength.HARD
    assert metadata.task_name == WRITE.name
    assert metadata.code_module == "tests.unit.attempts.kit"


def test_every_step_is_timed_in_order(kit: Kit) -> None:
    report = kit.run(WRITE)
    assert [step for step, _ in report.phases] == [
        "input",
        "workspace",
        "download",
        "pre guardrail",
        "body",
        "post guardrail",
        "first attempt fence",
        "stage",
        "publish fence",
        "second attempt fence",
        "publish",
        "complete",
        "cleanup",
    ]


def test_deleted_and_changed_files_are_published(kit: Kit) -> None:
    def tidy(workspace: Path, params: Params) -> Result:
        (workspace / "a.txt").unlink()
        (workspace / "deep/b.txt").write_text("B")
        return Result(files=1)

    report = kit.run(declared(tidy))
    assert report.changes == ("removed a.txt", "changed deep/b.txt")
    assert kit.files() == {"deep/b.txt": b"B"}


def test_an_async_body_gets_a_loop_of_its_own(kit: Kit) -> None:
    import asyncio

    async def later(workspace: Path, params: Params) -> Result:
        await asyncio.sleep(0)
        (workspace / "out.txt").write_text("async")
        return Result(files=1)

    assert kit.run(declared(later)).ok
    assert kit.files()["out.txt"] == b"async"


def test_an_attempt_is_recorded_with_its_phases_and_its_publish(kit: Kit) -> None:
    report = kit.run(WRITE)
    [record] = kit.records.attempts()
    assert (record.execution, record.status, record.move) == (report.execution, "COMPLETED", "merge")
    assert record.phases == list(report.phases)
    assert record.output == report.output
    times = kit.records.publish_times(WRITE.name)
    assert times is not None
    assert times.count == 1
    assert kit.records.abandoned_publications() == []


def test_old_records_are_forgotten(kit: Kit) -> None:
    for text in ("one", "two", "three"):
        newest = kit.run(WRITE, kit.submit(WRITE, ref=kit.head(), text=text))
    kit.records.prune(keep=1)
    assert [record.execution for record in kit.records.attempts()] == [newest.execution]
    times = kit.records.publish_times(WRITE.name)
    assert times is not None
    assert times.count == 1


def test_a_branch_of_the_runtime_is_no_target(kit: Kit) -> None:
    kit.orchestrator.submit(WRITE.name, {"workspace": kit.block(branch="headgate-staging-x"), "params": {}})
    report = kit.run(WRITE, kit.poll(WRITE))
    assert report.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "belongs to the runtime" in report.reason


def test_no_lease_is_kept_while_cleaning_up(kit: Kit) -> None:
    """A long cleanup of an attempt that is over would be told as one that somebody took away."""
    beating: list[bool] = []

    def look() -> None:
        beating.append("headgate-heartbeat" in {thread.name for thread in threading.enumerate()})

    with at(Failpoint.ATTEMPT_IN_BODY, look):
        assert kit.run(WRITE).ok
    with at(Failpoint.ATTEMPT_STAGING_DELETED, look):
        assert kit.run(WRITE, kit.submit(WRITE, kit.head(), text="more")).ok
    assert beating == [True, False]
