"""The fixture `run_task` runs a task as production does, and tells what there is to assert on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from headgate import GraphSpec, GraphTransaction, ReadOnly, TaskFailed, WorkspaceSpec, task
from headgate.errors import InvalidInput, InvalidTask
from headgate.testing import Ran, TaskRunner


class Params(BaseModel):
    text: str = "new"
    fail: bool = False


class Count(BaseModel):
    files: int


@task(workspace="songs/")
def write(workspace: Path, params: Params) -> Count:
    if params.fail:
        raise TaskFailed("asked to")
    folder = workspace / "songs"
    (folder / "new.txt").write_text(params.text)
    (folder / "old.txt").unlink(missing_ok=True)
    return Count(files=len(list(folder.iterdir())))


@task(workspace=ReadOnly("/"))
def look(workspace: Path, params: Params) -> Count:
    return Count(files=sum(path.is_file() for path in workspace.rglob("*")))


@task()
def plain(params: Params) -> Count:
    return Count(files=len(params.text))


@task(graph=GraphSpec(types=["Song"]))
def on_graph(graph: GraphTransaction, params: Params) -> Count:
    if params.text:
        graph.merge("Song", [{"title": params.text, "plays": 1}])
    return Count(files=graph.read("Song").num_rows)


SCHEMA = "node Song { title: String @key  plays: I64 }"
OLD = {"type": "Song", "data": {"title": "old", "plays": 7}}


def test_a_task_tells_status_result_changes_files_and_history(run_task: TaskRunner) -> None:
    ran = run_task(write, files={"songs/old.txt": "old", "other.txt": b"\xff"}, params={"text": "hello"})
    assert ran.ok
    assert ran.status == "COMPLETED"
    assert ran.result == {"files": 1}
    assert ran.changed == {"songs/new.txt": "added", "songs/old.txt": "removed"}
    assert ran.files == {"songs/new.txt": b"hello", "other.txt": b"\xff"}
    assert ran.text("songs/new.txt") == "hello"
    assert ran.history == (ran.history[0], ran.report.published)


def test_the_next_task_goes_on_from_what_was_published(run_task: TaskRunner) -> None:
    first = run_task(write, files={"songs/a.txt": "a"}, params=Params(text="hello"))
    second = run_task(look)
    assert second.result == {"files": 2}
    assert second.history == first.history[-1:]
    third = run_task(write, files={"songs/b.txt": "b"})
    assert third.result == {"files": 3}
    assert third.history[-1] != first.history[-1]


def test_what_changes_nothing_publishes_nothing(run_task: TaskRunner) -> None:
    files = {"songs/new.txt": "new"}
    ran = run_task(write, files=files)
    assert ran.ok, ran.reason
    assert (ran.changed, len(ran.history)) == ({}, 1)


def test_a_task_that_fails_is_told_and_nothing_is_published(run_task: TaskRunner) -> None:
    ran = run_task(write, files={"songs/old.txt": "old"}, params={"fail": True})
    assert (ran.ok, ran.status, ran.result) == (False, "FAILED", None)
    assert "asked to" in ran.reason
    assert isinstance(ran.error, TaskFailed)
    assert ran.files == {"songs/old.txt": b"old"}
    assert len(ran.history) == 1


def test_params_that_do_not_fit_are_told_as_in_production(run_task: TaskRunner) -> None:
    ran = run_task(plain, params={"txt": "?"})
    assert ran.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "params.txt" in ran.reason


def test_a_task_without_a_store_runs(run_task: TaskRunner) -> None:
    assert run_task(plain, params={"text": "four"}).result == {"files": 4}


def test_files_may_come_from_a_folder(run_task: TaskRunner, tmp_path: Path) -> None:
    (tmp_path / "songs").mkdir()
    (tmp_path / "songs" / "a.txt").write_text("a")
    ran = run_task(look, files=tmp_path)
    assert ran.files == {"songs/a.txt": b"a"}


def test_what_is_no_task_and_a_graph_that_is_not_there_are_refused(run_task: TaskRunner) -> None:
    with pytest.raises(InvalidTask, match="is not a task"):
        run_task(lambda workspace: None)
    with pytest.raises(InvalidInput, match="needs a graph, and the test has none"):
        run_task(on_graph)


def test_a_task_on_a_graph_tells_its_rows_and_its_history(run_task: TaskRunner) -> None:
    ran = run_task(on_graph, schema=SCHEMA, rows=[OLD])
    assert ran.ok, ran.reason
    assert ran.result == {"files": 2}
    assert ran.changed == {"Song": "1 rows written"}
    assert {row["title"]: row["plays"] for row in ran.rows["Song"]} == {"old": 7, "new": 1}
    assert ran.history == (ran.history[0], ran.report.published)
    again = run_task(on_graph, params={"text": ""})
    assert (again.ok, again.changed, again.history) == (True, {}, ran.history[-1:])


def test_two_tests_share_nothing_that_shows(run_task: TaskRunner) -> None:
    ran: Ran = run_task(look)
    assert ran.files == {}


def test_a_workspace_spec_holds_in_tests_too(run_task: TaskRunner) -> None:
    @task(workspace=WorkspaceSpec(exclude=["*.secret"]))
    def count(workspace: Path, params: Params) -> Count:
        return Count(files=sum(path.is_file() for path in workspace.rglob("*")))

    assert run_task(count, files={"a.txt": "", "b.secret": ""}).result == {"files": 1}


def test_loading_the_plug_in_imports_nothing_heavy() -> None:
    """Every pytest run of every project that has Headgate installed pays for what this imports."""
    code = (
        "import sys, pytest; before = set(sys.modules); import headgate.testing.plugin;"
        "print(sorted(name for name in set(sys.modules) - before if '.' not in name or name.startswith('headgate')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["headgate", "headgate._version", "headgate.testing", "headgate.testing.plugin"])
