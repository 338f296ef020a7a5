"""run with a workflow file, --resume, --print, and workflows, as a person uses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.lake import EmbeddedLake
from headgate.orchestrators.machine import Machine
from headgate.settings import load

Run = Callable[..., Any]

TASKS = """
from pathlib import Path
from pydantic import BaseModel
from headgate import RetryPolicy, TaskContext, TaskControls, TaskTerminalError, task

class Params(BaseModel):
    text: str = "x"

class Result(BaseModel):
    length: int

@task(owner_email="a@b.example", workspace="/", controls=TaskControls(retry=RetryPolicy(count=1, delay_seconds=0)))
def add(workspace: Path, params: Params, context: TaskContext) -> Result:
    path = workspace / "out.txt"
    text = (path.read_text() if path.exists() else "") + params.text
    path.write_text(text)
    context.progress(1, 1, "added")
    if params.text == "terminal":
        raise TaskTerminalError("as asked")
    return Result(length=len(text))

@task(owner_email="a@b.example")
def plain(params: Params) -> Result:
    print("looking at", params.text)
    return Result(length=len(params.text))
"""


def add(reference: str, workspace: str, text: str) -> dict[str, Any]:
    return {
        "name": "add",
        "taskReferenceName": reference,
        "inputParameters": {"workspace": workspace, "params": {"text": text}},
    }


WORKFLOW = {
    "name": "adding",
    "tasks": [
        add("first", "${workflow.input.workspace}", "${workflow.input.text}"),
        add("second", "${first.output.workspace}", "-${first.output.result.length}"),
        {"name": "plain", "taskReferenceName": "look", "inputParameters": {"params": {}}},
        add("third", "${second.output.workspace}", "!"),
    ],
    "outputParameters": {"length": "${third.output.result.length}", "workspace": "${third.output.workspace}"},
}

KILLED_AT = """
import os, signal, sys
from headgate.cli.main import run
from headgate.failpoints import arm
left = int(sys.argv[1])
def count(point):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
arm(count)
sys.exit(run(sys.argv[2:]))
"""


@pytest.fixture
def lake(project: Path) -> Iterator[EmbeddedLake]:
    (project / "headgate.toml").write_text('[stores.songs]\nlake = "embedded"\n')
    (project / "adding.py").write_text(TASKS)
    (project / "adding.json").write_text(json.dumps(WORKFLOW, indent=2))
    with EmbeddedLake(project / ".headgate/lake", create=True) as lake:
        lake.create_repository("songs")
        yield lake
    sys.modules.pop("adding", None)


def text_of(lake: EmbeddedLake) -> str:
    with lake.open("songs", lake.head("songs", "main").ref, "out.txt") as stream:
        return stream.read().decode()


RUN = ("run", "adding.json", "--tasks", "adding", "--on", "songs@main", "--input", '{"text": "abc"}')


def test_a_workflow_file_runs_to_its_end(headgate: Run, lake: EmbeddedLake) -> None:
    shown = headgate(*RUN, "--json")
    assert shown.code == 0, shown.err
    ran = json.loads(shown.out)
    assert ran["status"] == "COMPLETED"
    assert ran["output"]["length"] == 6
    assert ran["output"]["workspace"]["ref"] == lake.head("songs", "main").ref
    assert text_of(lake) == "abc-3!"
    assert [task["published"] is not None for task in ran["tasks"]] == [True, True, False, True]


def test_the_tree_shows_each_task_and_what_it_published(headgate: Run, lake: EmbeddedLake) -> None:
    shown = headgate(*RUN)
    assert shown.code == 0, shown.err
    assert f"third COMPLETED -> {lake.head('songs', 'main').ref}" in shown.out
    assert "adding: COMPLETED, workflow" in shown.out
    assert "looking at" in shown.err
    listed = json.loads(headgate("workflows", "--json").out)
    [workflow] = listed
    assert (workflow["name"], workflow["status"]) == ("adding", "COMPLETED")
    one = headgate("workflows", workflow["id"])
    assert "second COMPLETED" in one.out
    assert '"length": 6' in one.out
    assert "adding" in headgate("workflows").out


def test_a_workflow_that_fails_says_why_and_has_the_task_s_exit_code(headgate: Run, lake: EmbeddedLake) -> None:
    shown = headgate(*RUN[:-1], '{"text": "terminal"}')
    assert shown.code != 0
    assert "error: first: body: as asked" in shown.err
    assert "first FAILED_WITH_TERMINAL_ERROR" in shown.out


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("run",), "nothing is named to run"),
        (("run", "adding.json"), "add --tasks MODULE"),
        (("run", "gone.json", "--tasks", "adding"), "gone.json cannot be read"),
        (("run", "adding.json", "--tasks", "adding"), "the input has no 'workspace'"),
        ((*RUN[:-1], '{"text": "x", "more": 1}'), "input.more: the workflow takes no such input"),
        ((*RUN[:-1], "[]"), "--input is no JSON object"),
        (("run", "--resume", "gone"), "no workflow 'gone'"),
        (("workflows", "gone"), "no workflow 'gone'"),
        (("workflows", "--cancel"), "no workflow is named"),
    ],
)
def test_bad_input_is_told(headgate: Run, lake: EmbeddedLake, args: tuple[str, ...], told: str) -> None:
    shown = headgate(*args)
    assert shown.code not in (0, 1)
    assert told in shown.err


def plain(reference: str, text: str, name: str = "plain") -> dict[str, Any]:
    return {"name": name, "taskReferenceName": reference, "inputParameters": {"params": {"text": text}}}


@pytest.mark.parametrize(
    ("tasks", "told", "code"),
    [
        ([plain("a", "x", name="plane")], "there is no task 'plane' here; did you mean 'plain'?", 4),
        ([plain("a", "${b.output.x}"), plain("b", "${a.output.x}")], "${b.output.x} names a task that has not run", 4),
        ([plain("a", "${a.output.x}")], "${a.output.x} names a task that has not run by then", 4),
        ([plain("a", "${c.output.x}")], "${c.output.x} names no task", 4),
        ([plain("a", "x"), plain("a", "y")], "two tasks have the reference 'a'", 4),
        ([plain("a", "${workflow.input.gone}")], "the input has no 'gone'", 4),
        # Read when the workflow runs: the task itself says what it cannot take.
        (
            [plain("a", "x"), plain("b", "${a.output.result.nothing}")],
            "params.text: Input should be a valid string, not None",
            4,
        ),
    ],
    ids=["unknown_task", "cycle", "itself", "no_such_reference", "twice", "missing_input", "unresolved"],
)
def test_a_workflow_that_cannot_work_is_told_by_name(
    headgate: Run, lake: EmbeddedLake, project: Path, tasks: list[dict[str, Any]], told: str, code: int
) -> None:
    (project / "bad.json").write_text(json.dumps({"name": "bad", "tasks": tasks}, indent=2))
    shown = headgate("run", "bad.json", "--tasks", "adding")
    assert (shown.code, told in shown.err) == (code, True), shown.err
    assert "Traceback" not in shown.err


def test_a_failed_workflow_of_several_modules_is_retried_by_its_id_alone(
    headgate: Run, lake: EmbeddedLake, project: Path
) -> None:
    (project / "flaky.py").write_text(
        "from pathlib import Path\nfrom pydantic import BaseModel\nfrom headgate import TaskTerminalError, task\n"
        "class Nothing(BaseModel):\n    pass\n"
        "@task(owner_email='a@b.example')\n"
        "def flaky(params: Nothing) -> Nothing:\n"
        f"    if not Path({str(project / 'mended')!r}).exists():\n        raise TaskTerminalError('not yet')\n"
        "    return params\n"
    )
    raw = {
        "name": "two_modules",
        "tasks": [
            add("first", "${workflow.input.workspace}", "a"),
            {"name": "flaky", "taskReferenceName": "flaky", "inputParameters": {"params": {}}},
            add("second", "${first.output.workspace}", "b"),
        ],
        "outputParameters": {"length": "${second.output.result.length}"},
    }
    (project / "two.json").write_text(json.dumps(raw))
    line = ("run", "two.json", "--tasks", "adding", "--tasks", "flaky", "--on", "songs@main", "--json")
    failed = headgate(*line)
    assert failed.code == 1, failed.err
    workflow = json.loads(failed.out)["workflow"]
    assert "would retry flaky" in headgate("run", "--retry", workflow, "--dry-run").out
    (project / "mended").touch()
    again = headgate("run", "--retry", workflow, "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["output"] == {"length": 2}
    assert [task["retry_count"] for task in json.loads(again.out)["tasks"]] == [0, 0, 1, 0]
    over = headgate("run", "--retry", workflow)
    assert (over.code, "is COMPLETED, and only failed or dead work is retried" in over.err) == (4, True)


def test_what_is_not_supported_is_named_with_its_line(headgate: Run, lake: EmbeddedLake, project: Path) -> None:
    unsupported = {"name": "w", "tasks": [{**WORKFLOW["tasks"][0], "name": "gone"}, {"type": "HTTP"}]}  # type: ignore[dict-item]
    (project / "w.json").write_text(json.dumps(unsupported, indent=1))
    shown = headgate("run", "w.json", "--tasks", "adding")
    assert "w.json:5: there is no task 'gone' here" in shown.err
    assert "the task type HTTP is not supported" in shown.err


def test_a_dry_run_shows_what_it_writes_and_starts_nothing(headgate: Run, lake: EmbeddedLake) -> None:
    shown = headgate(*RUN, "--dry-run")
    assert json.loads(shown.out)["writes"] == ["workspace songs@main"]
    assert json.loads(headgate("workflows", "--json").out) == []


def test_print_shows_the_definition_of_a_chain_which_is_a_workflow(
    headgate: Run, lake: EmbeddedLake, project: Path
) -> None:
    shown = headgate("run", "adding:add,plain,add", "--on", "songs@main", "--print")
    definition = json.loads(shown.out)
    assert [task["taskReferenceName"] for task in definition["tasks"]] == ["add", "plain", "add_2"]
    assert definition["tasks"][2]["inputParameters"]["workspace"] == "${add.output.workspace}"
    (project / "chain.json").write_text(shown.out)
    params = {"params": {"add": {"text": "1"}, "plain": {}, "add_2": {"text": "2"}}}
    ran = headgate("run", "chain.json", "--tasks", "adding", "--on", "songs@main", "--input", json.dumps(params))
    assert ran.code == 0, ran.err
    assert text_of(lake) == "12"


def killed(project: Path, at: int, *args: str) -> int:
    """Run the command, and SIGKILL it at its n-th failpoint; its exit code, or what killed it."""
    program = [sys.executable, "-c", KILLED_AT, str(at), *args]
    done = subprocess.run(program, cwd=project, env=os.environ, capture_output=True, text=True, check=False)
    return done.returncode


def test_a_killed_workflow_holds_its_branch_and_is_resumed(headgate: Run, lake: EmbeddedLake, project: Path) -> None:
    assert killed(project, 12, *RUN) == -9
    again = headgate(*RUN)
    assert again.code != 0
    [workflow] = json.loads(headgate("workflows", "--json").out)
    assert workflow["status"] == "RUNNING"
    resumed = headgate("run", "--resume", workflow["id"], "--json")
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out)["epoch"] == 2
    assert text_of(lake) == "abc-3!"
    over = headgate("run", "--resume", workflow["id"])
    assert "only a running one is resumed" in over.err
    assert headgate("run", "--resume").out == "no workflow runs here\n"


def test_a_workflow_can_be_ended_by_hand(headgate: Run, lake: EmbeddedLake, project: Path) -> None:
    assert killed(project, 12, *RUN) == -9
    [workflow] = json.loads(headgate("workflows", "--json").out)
    assert "would end" in headgate("workflows", workflow["id"], "--cancel", "--dry-run").out
    assert headgate("workflows", workflow["id"], "--cancel").code == 0
    assert "TERMINATED already" in headgate("workflows", workflow["id"], "--cancel").err
    assert headgate(*RUN).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("step", [7, 11, 17, 23])
def test_killed_again_and_again_a_workflow_publishes_each_step_once(
    lake: EmbeddedLake, project: Path, step: int
) -> None:
    """Invariants 1 to 3: whatever instant it is killed at, the history is the one of a run nobody disturbed."""
    kills, args = 0, RUN
    while (code := killed(project, step + kills, *args)) != 0:
        assert code == -9
        kills += 1
        with Machine(load(start=project).settings) as machine:
            args = ("run", "--resume") if machine.engine.workflows() else RUN
    assert kills > 0
    with Machine(load(start=project).settings) as machine:
        [workflow] = machine.engine.workflows()
        assert workflow.status == "COMPLETED"
        accepted = [task for task in machine.engine.tasks(workflow=workflow.id) if task.status == "COMPLETED"]
        refs = [task.output["workspace"]["ref"] for task in accepted if task.output and "workspace" in task.output]
    history = [commit.ref for commit in lake.log("songs", lake.head("songs", "main").ref)]
    assert history[:3] == list(reversed(refs))
    assert len(history) == 4
    assert text_of(lake) == "abc-3!"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("run", "--resume"), "--resume and --retry are for workflows of this machine"),
        (("run", "--retry", "x"), "--resume and --retry are for workflows of this machine"),
        (("run", "empty.json"), "holds no workflow"),
        (("run", "adding.json", "-j", "1"), "add --tasks MODULE"),
    ],
)
def test_what_a_server_s_workflow_cannot_have_is_told(
    headgate: Run, lake: EmbeddedLake, project: Path, args: tuple[str, ...], told: str
) -> None:
    (project / "empty.json").write_text("{}")
    with (project / "headgate.toml").open("a") as settings:
        settings.write('[profile.there]\norchestrator = "conductor"\n')
    shown = headgate("--profile", "there", *args)
    assert (shown.code, told in shown.err) == (4, True), shown.err
