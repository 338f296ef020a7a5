"""Each row of the failure table that this process can show, brought about for real."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.attempts.faults import Faulty, lost_before
from tests.unit.attempts.kit import READ_ONLY, WRITE, Kit, Params, Result, crash_at, declared

from headgate.attempts.lake_store import lake_opener
from headgate.errors import AccessDenied, Transient
from headgate.failpoints import Failpoint
from headgate.lake import Changes
from headgate.tasks import TaskCancelled, TaskFailed, TaskTerminalError, WorkspaceSpec
from headgate.tasks.guardrails import forbid_glob, require_file

FAILED, TERMINAL = "FAILED", "FAILED_WITH_TERMINAL_ERROR"
Body = Callable[[Path, Params], Result]


def body_that(action: Callable[[Path], Any]) -> Body:
    def body(workspace: Path, params: Params) -> Result:
        action(workspace)
        return Result(files=0)

    return body


def raising(error: BaseException) -> Body:
    def body(workspace: Path, params: Params) -> Result:
        raise error

    return body


@pytest.mark.parametrize(
    ("task_input", "told"),
    [
        ({}, "workspace: it is missing"),
        ({"workspace": {}, "params": {}}, "workspace.repository"),
        ({"params": {"nonsense": 1}}, "no such field"),
        ({"params": {"fail": "perhaps"}}, "params.fail"),
        ({"params": {}, "parms": {}}, "parms"),
    ],
    ids=["no keys", "empty block", "unknown param", "wrong type", "unknown key"],
)
def test_input_that_cannot_become_valid_is_terminal(kit: Kit, task_input: dict[str, Any], told: str) -> None:
    given = task_input if "workspace" in task_input or not task_input else {"workspace": kit.block(), **task_input}
    kit.orchestrator.submit(WRITE.name, given)
    report = kit.run(WRITE, kit.poll(WRITE))
    assert (report.status, str(report.phase)) == (TERMINAL, "input")
    assert told in str(report.error)
    assert not kit.runtime.options.workspace_root.exists()


def test_a_missing_ref_is_terminal(kit: Kit) -> None:
    report = kit.run(WRITE, kit.submit(WRITE, ref="0" * 64))
    assert (report.status, str(report.phase)) == (TERMINAL, "download")
    kit.assert_nothing_left()


def test_a_missing_repository_is_terminal(kit: Kit) -> None:
    block = {**kit.block(), "repository": "nowhere"}
    kit.orchestrator.submit(WRITE.name, {"workspace": block, "params": {}})
    report = kit.run(WRITE, kit.poll(WRITE))
    assert (report.status, str(report.phase)) == (TERMINAL, "download")
    assert "nowhere" in report.reason


def test_a_download_that_breaks_is_retried(kit: Kit) -> None:
    lake = Faulty(kit.lake, {"fetch": lost_before(Transient(message="the connection broke"))})
    report = kit.with_parts(stores={"workspace": lake_opener(lambda block: lake)}).run(WRITE)
    assert (report.status, str(report.phase)) == (FAILED, "download")
    assert kit.run(WRITE, kit.poll(WRITE)).ok


def test_a_pre_guardrail_is_terminal_and_a_post_guardrail_is_not(kit: Kit) -> None:
    before = declared(WRITE.function, workspace=WorkspaceSpec(pre=[require_file("absent.txt")]))
    report = kit.run(before)
    assert (report.status, str(report.phase)) == (TERMINAL, "pre guardrail")
    assert "absent.txt" in report.reason
    after = declared(WRITE.function, workspace=WorkspaceSpec(post=[forbid_glob("out.txt")]))
    report = kit.run(after)
    assert (report.status, str(report.phase)) == (FAILED, "post guardrail")
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_a_person_s_guardrail_may_raise_anything(kit: Kit) -> None:
    def at_least_ten(workspace: Path) -> None:
        raise LookupError("too few files")

    report = kit.run(declared(WRITE.function, workspace=WorkspaceSpec(post=[at_least_ten])))
    assert (report.status, str(report.phase)) == (FAILED, "post guardrail")
    assert "too few files" in report.reason


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("no good"), FAILED),
        (TaskFailed("not today"), FAILED),
        (TaskTerminalError("never"), TERMINAL),
        (MemoryError(), FAILED),
        (SystemExit(3), FAILED),
        (AccessDenied(message="the body's own store said no"), FAILED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_what_a_body_raises(kit: Kit, error: BaseException, status: str) -> None:
    report = kit.run(declared(raising(error)))
    assert (report.status, str(report.phase)) == (status, "body")
    assert report.output is None
    assert kit.head() == kit.input_ref
    task = kit.orchestrator.task(report.attempt.task_id)
    assert (task.status, task.reason) == (status, report.reason)
    kit.assert_nothing_left()


def test_a_body_s_traceback_goes_to_the_log_and_a_line_to_the_reason(kit: Kit) -> None:
    report = kit.run(declared(raising(ValueError("line one\nline two"))))
    assert report.reason == "body: ValueError: line one line two"
    logged = "\n".join(kit.orchestrator.logs(report.attempt.task_id))
    assert "Traceback" in logged
    assert "in body" in logged


def test_a_body_that_returns_something_else_failed(kit: Kit) -> None:
    def wrong(workspace: Path, params: Params) -> Result:
        return {"files": 1}  # type: ignore[return-value]

    report = kit.run(declared(wrong))
    assert (report.status, str(report.phase)) == (FAILED, "body")
    assert "returned dict, not Result" in report.reason


def test_a_result_too_large_is_terminal(kit: Kit) -> None:
    class Long(Result):
        text: str

    def verbose(workspace: Path, params: Params) -> Long:
        return Long(files=1, text="x" * 4_000_000)

    report = kit.run(declared(verbose))
    assert report.status == TERMINAL
    assert "write" in report.reason


def test_a_cancelled_body_reports_nothing(kit: Kit) -> None:
    report = kit.run(declared(raising(TaskCancelled())))
    assert report.status is None
    assert kit.orchestrator.task(report.attempt.task_id).status == "IN_PROGRESS"
    kit.assert_nothing_left()


def make_symlink(workspace: Path) -> None:
    (workspace / "link").symlink_to("a.txt")


def make_fifo(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")


def make_device(workspace: Path) -> None:
    os.mknod(workspace / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))


def make_non_utf8(workspace: Path) -> None:
    (Path(os.fsdecode(os.fsencode(workspace) + b"/bad\xff"))).write_text("x")


def make_newline(workspace: Path) -> None:
    (workspace / "two\nlines").write_text("x")


def make_outside(workspace: Path) -> None:
    (workspace / "elsewhere.txt").write_text("x")


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (make_symlink, "link"),
        (make_fifo, "pipe"),
        pytest.param(
            make_device, "null", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
        ),
        (make_non_utf8, "bad"),
        (make_newline, "two"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_file_that_no_lake_can_hold_fails_the_stage_by_name(
    kit: Kit, action: Callable[[Path], None], told: str
) -> None:
    """Invariant 9: the input is named, and nothing is published."""
    report = kit.run(declared(body_that(action)))
    assert (report.status, str(report.phase)) == (FAILED, "stage")
    assert told in report.reason
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_a_file_outside_the_prefix_is_refused(kit: Kit) -> None:
    report = kit.run(declared(body_that(make_outside), workspace="deep/"))
    assert (report.status, str(report.phase)) == (FAILED, "stage")
    assert "elsewhere.txt" in report.reason


def test_what_include_leaves_out_is_never_downloaded_nor_deleted(kit: Kit) -> None:
    seen = []

    def tidy(workspace: Path, params: Params) -> Result:
        seen.extend(sorted(path.name for path in workspace.rglob("*.txt")))
        (workspace / "deep/b.txt").unlink()
        return Result(files=0)

    report = kit.run(declared(tidy, workspace=WorkspaceSpec(include=["deep/**"])))
    assert report.ok, report.reason
    assert seen == ["b.txt"]
    assert kit.files() == {"a.txt": b"a"}


def test_a_file_in_the_way_of_a_folder_is_terminal(kit: Kit) -> None:
    """Two keys that a disk cannot hold at once; made by a store that can."""
    item = next(iter(kit.lake.objects(kit.repository, kit.input_ref)))

    def both(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        yield item
        yield item._replace(path="a.txt/below")

    lake = Faulty(kit.lake, {"objects": both})
    report = kit.with_parts(stores={"workspace": lake_opener(lambda block: lake)}).run(WRITE)
    assert (report.status, str(report.phase)) == (TERMINAL, "download")
    assert "a.txt" in report.reason


def test_an_empty_prefix_is_an_empty_workspace(kit: Kit) -> None:
    def fill(workspace: Path, params: Params) -> Result:
        assert [path for path in workspace.rglob("*") if path.is_file()] == []
        (workspace / "new/one.txt").write_text("1")
        return Result(files=1)

    report = kit.run(declared(fill, workspace="new/"))
    assert report.ok, report.reason
    assert kit.files()["new/one.txt"] == b"1"


def test_a_branch_that_is_gone_publishes_nothing(kit: Kit) -> None:
    kit.lake.create_branch(kit.repository, "side", at=kit.input_ref)
    kit.orchestrator.submit(WRITE.name, {"workspace": kit.block(branch="side"), "params": {}})
    attempt = kit.poll(WRITE)
    kit.lake.delete_branch(kit.repository, "side")
    report = kit.run(WRITE, attempt)
    assert (report.status, str(report.phase)) == (FAILED, "publish fence")
    assert "side" in report.reason
    kit.assert_nothing_left()


def test_a_refusal_of_rights_names_the_right(kit: Kit) -> None:
    denied = AccessDenied(message="403", hint="grant it", right="fs:CreateBranch")
    lake = Faulty(kit.lake, {"create_branch": lost_before(denied)})
    report = kit.with_parts(stores={"workspace": lake_opener(lambda block: lake)}).run(WRITE)
    assert report.status == FAILED
    assert "fs:CreateBranch" in report.reason


def test_a_read_only_task_that_changes_files_is_warned(kit: Kit) -> None:
    task = declared(WRITE.function, workspace=WorkspaceSpec(read_only=True))
    report = kit.run(task)
    assert report.ok, report.reason
    assert "out.txt" in report.warnings[0]
    assert kit.head() == kit.input_ref


def test_a_task_for_which_there_is_no_store_is_terminal(kit: Kit) -> None:
    report = kit.with_parts(stores={}).run(READ_ONLY)
    assert report.status in (FAILED, TERMINAL)
    assert "needs a workspace" in report.reason


def test_a_file_changed_while_it_is_staged_is_refused(kit: Kit) -> None:
    changed: list[Path] = []

    def change_it() -> None:
        [folder] = kit.workspaces()
        (folder / "root/out.txt").write_text("changed under our hands")
        changed.append(folder)

    from tests.unit.attempts.kit import at

    with at(Failpoint.ATTEMPT_STAGING_CREATED, change_it):
        report = kit.run(WRITE)
    assert changed
    assert (report.status, str(report.phase)) == (FAILED, "stage")
    assert "out.txt" in report.reason
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


def test_a_crash_reports_nothing_and_cleans_up_what_it_can(kit: Kit) -> None:
    with crash_at(Failpoint.ATTEMPT_STAGED):
        kit.run(WRITE)
    [task] = kit.orchestrator.tasks()
    assert task.status == "IN_PROGRESS"
    kit.assert_nothing_left()


def test_keys_that_differ_in_case_are_two_files_where_the_disk_can(kit: Kit) -> None:
    kit.lake.commit(kit.repository, "main", Changes(puts={"A.txt": b"A"}), message="a capital letter")
    report = kit.run(WRITE, kit.submit(WRITE, ref=kit.head()))
    assert report.ok, report.reason
    assert kit.files()["A.txt"] == b"A"


def test_a_read_only_task_that_leaves_a_link_is_warned_and_completes(kit: Kit) -> None:
    report = kit.run(declared(body_that(make_symlink), workspace=WorkspaceSpec(read_only=True)))
    assert report.ok, report.reason
    assert "link" in report.warnings[0]


def test_a_locked_lake_fails_the_attempt_and_the_retry_publishes(kit: Kit) -> None:
    import sqlite3

    from tests.unit.attempts.kit import at

    from headgate.lake import EmbeddedLake

    impatient = EmbeddedLake(kit.folder / "lake", busy_seconds=0.05)
    holder = sqlite3.connect(kit.folder / "lake/lake.db", isolation_level=None)
    attempt = kit.submit(WRITE)
    with at(Failpoint.ATTEMPT_AFTER_BODY, lambda: holder.execute("BEGIN IMMEDIATE")):
        report = kit.with_parts(stores={"workspace": lake_opener(lambda block: impatient)}).run(WRITE, attempt)
    holder.close()
    impatient.close()
    assert (report.status, str(report.phase)) == (FAILED, "stage")
    assert "locked by another process" in report.reason
    assert kit.run(WRITE, kit.poll(WRITE)).ok


def test_a_damaged_orchestrator_database_publishes_nothing(kit: Kit) -> None:
    """Invariant 2: an orchestrator that cannot answer fails the fence."""
    attempt = kit.submit(WRITE)
    kit.orchestrator.close()
    path = kit.folder / "orchestrator.db"
    size = path.stat().st_size
    path.write_bytes(b"damaged" * (size // 7 + 1))
    for name in ("orchestrator.db-wal", "orchestrator.db-shm"):
        (kit.folder / name).unlink(missing_ok=True)
    report = kit.run(WRITE, attempt)
    assert report.status is None
    assert "damaged" in report.reason
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()
