"""run, attempts, replay, why, rewind, status, budget and gc, as a person uses them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.attempts.lifecycle import run_attempt
from headgate.failpoints import Failpoint, arm
from headgate.lake import Changes, EmbeddedLake
from headgate.orchestrators.machine import Machine
from headgate.settings import load
from headgate.tasks.loading import load_named

Run = Callable[..., Any]

TASKS = """
from pathlib import Path
from pydantic import BaseModel
from headgate import GraphTransaction, ReadOnly, task

class Params(BaseModel):
    text: str = "new"
    fail: bool = False

class Result(BaseModel):
    files: int

@task(owner_email="a@b.example", workspace="/")
def write(workspace: Path, params: Params) -> Result:
    print("writing", params.text)
    (workspace / "out.txt").write_text(params.text)
    if params.fail:
        raise ValueError("as asked")
    return Result(files=1)

@task(owner_email="a@b.example", workspace="/")
def append(workspace: Path, params: Params) -> Result:
    path = workspace / "out.txt"
    path.write_text(path.read_text() + "+")
    return Result(files=1)

@task(owner_email="a@b.example", workspace=ReadOnly("/"), graph=["Text"])
def load(workspace: Path, graph: GraphTransaction, params: Params) -> Result:
    texts = [{"name": path.name, "text": path.read_text()} for path in sorted(workspace.glob("*.txt"))]
    graph.merge("Text", texts)
    return Result(files=len(texts))

@task(owner_email="a@b.example")
def plain(params: Params) -> Result:
    return Result(files=0)
"""


@pytest.fixture
def lake(project: Path) -> Iterator[EmbeddedLake]:
    (project / "headgate.toml").write_text('[stores.songs]\nlake = "embedded"\n[stores.texts]\ngraph = "./texts"\n')
    (project / "by_hand.py").write_text(TASKS)
    with EmbeddedLake(project / ".headgate/lake", create=True) as lake:
        lake.create_repository("songs")
        lake.commit("songs", "main", Changes(puts={"a.txt": b"a"}), message="as it began")
        yield lake
    arm(None)
    sys.modules.pop("by_hand", None)


def head(lake: EmbeddedLake) -> str:
    return lake.head("songs", "main").ref


def text_of(lake: EmbeddedLake, path: str = "out.txt") -> str:
    with lake.open("songs", lake.head("songs", "main").ref, path) as stream:
        return stream.read().decode()


def killed_after_publish(project: Path) -> str:
    """The workflow of an attempt whose worker died between its publish and its completion."""

    class Killed(BaseException):
        pass

    def die(point: Failpoint) -> None:
        if point is Failpoint.ATTEMPT_PUBLISHED:
            raise Killed

    [declaration] = load_named("by_hand", ["write"])
    with Machine(load(start=project).settings) as machine:
        store = machine.lakes.store("songs")
        ref = store.lake.head("songs", "main").ref
        block = {"repository": "songs", "branch": "main", "ref_type": "commit", "ref": ref}
        task = machine.engine.submit("write", {"workspace": block, "params": {"text": "abandoned"}})
        polled = machine.engine.poll("write")
        assert polled is not None
        arm(die)
        with pytest.raises(Killed):
            run_attempt(machine.runtime(), declaration, polled)
        arm(None)
        return task.workflow


def test_run_publishes_and_prints_the_time_of_each_step(headgate: Run, lake: EmbeddedLake) -> None:
    shown = headgate("run", "by_hand:write", "--on", "songs@main", "--params", '{"text": "hello"}')
    assert shown.code == 0, shown.err
    assert text_of(lake) == "hello"
    assert f"write: COMPLETED -> {head(lake)} (1 changed, merge" in shown.out
    for step in ("download", "body", "first attempt fence", "stage", "publish fence", "publish", "complete", "cleanup"):
        assert step in shown.err
    assert " ms" in shown.err


def test_run_takes_a_chain_in_which_each_reads_what_the_one_before_published(headgate: Run, lake: EmbeddedLake) -> None:
    params = json.dumps({"write": {"text": "one"}})
    shown = headgate("run", "by_hand:write,append", "--on", "songs@main", "--params", params, "--json")
    assert shown.code == 0, shown.err
    reports = json.loads(shown.out)
    assert [report["status"] for report in reports] == ["COMPLETED", "COMPLETED"]
    assert text_of(lake) == "one+"
    assert reports[1]["published"] == head(lake)


def test_a_dry_run_shows_the_input_and_does_nothing(headgate: Run, lake: EmbeddedLake) -> None:
    before = head(lake)
    shown = headgate("run", "by_hand:write", "--on", "songs@main", "--dry-run")
    assert json.loads(shown.out)["input"]["workspace"]["ref"] == before
    assert head(lake) == before
    assert headgate("attempts").out.startswith("no attempt")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["by_hand:write"], "--on STORE@BRANCH"),
        (["by_hand:write", "--on", "nowhere@main"], "no store is called 'nowhere'"),
        (["by_hand:write", "--on", "songs@absent"], "absent"),
        (["by_hand:wriet", "--on", "songs@main"], "no task 'wriet'"),
        (["by_hand", "--on", "songs@main"], "names no task"),
        (["absent_module:write", "--on", "songs@main"], "absent_module"),
        (["by_hand:write", "--on", "songs@main", "--params", "{"], "no JSON"),
        (["by_hand:write", "--on", "songs@main", "--params", "[]"], "no JSON object"),
        (["by_hand:write", "--on", "songs@main", "--params", '{"txet": 1}'], "no such field"),
        (["by_hand:plain", "--on", "songs@main"], "leave --on out"),
        (["by_hand:write", "--on", "songs@main", "--on", "songs@main"], "two stores are named for the workspace"),
        (["by_hand:load", "--on", "songs@main"], "need a graph"),
        (["by_hand:write", "--retry", "nothing"], "no workflow 'nothing'"),
    ],
)
def test_what_run_cannot_do_is_told(headgate: Run, lake: EmbeddedLake, args: list[str], told: str) -> None:
    before = head(lake)
    shown = headgate("run", *args)
    assert shown.code == 4, shown.err
    assert told in shown.err
    assert head(lake) == before


def test_a_task_reads_a_lake_and_publishes_a_graph(headgate: Run, lake: EmbeddedLake, project: Path) -> None:
    (project / "texts.pg").write_text("node Text {\n  name: String @key\n  text: String\n}\n")
    assert headgate("graph", "init", "texts", "--schema", "texts.pg").code == 0
    before = head(lake)
    shown = headgate("run", "by_hand:load", "--on", "songs@main", "--on", "texts@main", "--json")
    assert shown.code == 0, shown.err
    [report] = json.loads(shown.out)
    assert head(lake) == report["output"]["workspace"]["ref"] == before
    assert json.loads(headgate("log", "texts", "--json").out)[0]["ref"] == report["published"]
    [row] = json.loads(headgate("graph", "sql", "texts", "select name, text from Text", "--json").out)["rows"]
    assert row == {"name": "a.txt", "text": "a"}


def test_a_task_without_a_store_runs(headgate: Run, lake: EmbeddedLake) -> None:
    assert headgate("run", "by_hand:plain").code == 0


def test_a_failed_run_is_kept_listed_shown_and_replayed(headgate: Run, lake: EmbeddedLake) -> None:
    before = head(lake)
    failing = '{"text": "half", "fail": true}'
    shown = headgate("run", "by_hand:write", "--on", "songs@main", "--params", failing)
    assert shown.code == 1
    assert "error: body: ValueError: as asked" in shown.err
    [record] = json.loads(headgate("attempts", "--json").out)
    assert (record["status"], record["phase"]) == ("FAILED", "body")
    assert "ValueError: as asked" in headgate("attempts").out
    told = headgate("attempts", record["execution"]).out
    assert "writing half" in told
    assert "Traceback" in told
    replayed = headgate("replay", record["execution"][:20])
    assert replayed.code == 1
    assert "as asked" in replayed.err
    assert head(lake) == before
    assert len(json.loads(headgate("attempts", "--json").out)) == 1


def test_a_replay_shows_the_difference_and_publishes_nothing(headgate: Run, lake: EmbeddedLake) -> None:
    headgate("run", "by_hand:write", "--on", "songs@main")
    before = head(lake)
    [record] = json.loads(headgate("attempts", "--json").out)
    shown = headgate("replay", record["execution"])
    assert shown.code == 0, shown.err
    assert "added out.txt" in shown.out
    assert head(lake) == before


def test_replay_opens_the_debugger_on_request(
    headgate: Run, lake: EmbeddedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr("pdb.post_mortem", opened.append)
    headgate("run", "by_hand:write", "--on", "songs@main", "--params", '{"fail": true}')
    [record] = json.loads(headgate("attempts", "--json").out)
    headgate("replay", record["execution"], "--pdb")
    assert len(opened) == 1


def test_new_work_never_builds_on_an_abandoned_publication(headgate: Run, lake: EmbeddedLake, project: Path) -> None:
    """Invariant 3: an abandoned commit is never the parent of a new one; its own retry replaces it."""
    input_ref = head(lake)
    workflow = killed_after_publish(project)
    abandoned = head(lake)
    refused = headgate("run", "by_hand:write", "--on", "songs@main")
    assert refused.code == 5
    assert workflow in refused.err
    assert "undecided" in headgate("status").out
    retried = headgate("run", "by_hand:write", "--retry", workflow, "--json")
    assert retried.code == 0, retried.err
    [report] = json.loads(retried.out)
    assert report["move"] == "replace"
    refs = [commit.ref for commit in lake.log("songs", lake.head("songs", "main").ref)]
    assert refs[:2] == [report["published"], input_ref]
    assert abandoned not in refs
    assert headgate("run", "by_hand:write", "--retry", workflow).code == 4


def test_why_walks_upstream(headgate: Run, lake: EmbeddedLake) -> None:
    begun = head(lake)
    headgate("run", "by_hand:write,append", "--on", "songs@main", "--params", '{"write": {}}')
    steps = json.loads(headgate("why", "songs@main", "--json").out)
    assert [step["task"] for step in steps] == ["append", "write", None]
    assert steps[0]["accepted"] == "accepted"
    assert steps[1]["inputs"] == {"workspace:songs": begun}
    assert steps[2]["ref"] == begun
    by_path = headgate("why", "songs@main", "a.txt").out
    assert "added a.txt" in by_path
    assert "by hand or from elsewhere" in by_path
    assert headgate("why", "songs@main", "absent.txt").code == 4


def test_rewind_moves_a_head_back_and_says_who_and_why(headgate: Run, lake: EmbeddedLake, project: Path) -> None:
    begun = head(lake)
    headgate("run", "by_hand:write", "--on", "songs@main")
    published = head(lake)
    line = ["rewind", "songs@main", "--to", begun[:12], "--why", "a bad day"]
    assert headgate(*line).code == 4
    assert "would move" in headgate(*line, "--dry-run").out
    assert head(lake) == published
    shown = headgate(*line, "--yes")
    assert shown.code == 0, shown.err
    assert head(lake) == begun
    with Machine(load(start=project).settings) as machine:
        [record] = machine.records.rewinds()
    assert (record.from_ref, record.to_ref, record.why) == (published, begun, "a bad day")
    assert record.who
    assert "at" in headgate(*line, "--yes").err


def test_rewind_refuses_while_an_attempt_runs_and_what_is_no_step_back(
    headgate: Run, lake: EmbeddedLake, project: Path
) -> None:
    begun = head(lake)
    killed_after_publish(project)
    refused = headgate("rewind", "songs@main", "--to", begun, "--why", "x", "--yes")
    assert refused.code == 5
    assert "works on songs@main" in refused.err
    with Machine(load(start=project).settings) as machine:
        machine.engine.cancel(machine.engine.tasks()[-1].workflow, reason="gone")
    lake.create_branch("songs", "side", at=lake.head("songs", "main").ref)
    side = lake.commit("songs", "side", Changes(puts={"s.txt": b"s"}), message="side")
    assert "not in the history" in headgate("rewind", "songs@main", "--to", side, "--why", "x", "--yes").err
    assert headgate("rewind", "songs@main", "--to", begun, "--why", "never accepted", "--yes").code == 0
    assert head(lake) == begun


def test_budget_prints_what_was_observed_and_a_budget_to_paste(headgate: Run, lake: EmbeddedLake) -> None:
    assert "no publish" in headgate("budget").out
    assert headgate("budget", "write").code == 4
    headgate("run", "by_hand:write", "--on", "songs@main")
    shown = headgate("budget", "write").out
    assert "1 publishes, p50" in shown
    budget = shown.splitlines()[1].strip()
    from headgate.tasks import PublishBudget

    assert isinstance(eval(budget, {"PublishBudget": PublishBudget}), PublishBudget)
    [times] = json.loads(headgate("budget", "--json").out)
    assert (times["task"], times["count"]) == ("write", 1)


def test_gc_shows_and_reclaims_what_was_left(headgate: Run, lake: EmbeddedLake, project: Path) -> None:
    assert headgate("gc").out.strip() == "nothing to reclaim"
    from headgate.attempts.names import StagingName
    from headgate.ids import ULIDS

    with Machine(load(start=project).settings) as machine:
        machine.engine.submit("write", {})
        polled = machine.engine.poll("write")
        assert polled is not None
        name = str(StagingName.of(polled, ULIDS.new()))
        machine.engine.fail(polled.id, reason="over", terminal=True)
    lake.create_branch("songs", name, at=lake.head("songs", "main").ref)
    assert f"would remove staging branch songs@{name}" in headgate("gc", "--dry-run").out
    assert [branch.name for branch in lake.branches("songs")] == [name, "main"]
    assert json.loads(headgate("gc", "--json").out)["removed"][0]["name"] == f"songs@{name}"
    assert [branch.name for branch in lake.branches("songs")] == ["main"]


def test_gc_ends_with_a_code_when_it_meets_what_it_cannot_read(
    headgate: Run, lake: EmbeddedLake, project: Path
) -> None:
    folder = project / ".headgate/workspaces/01SOMETHING"
    folder.mkdir(parents=True)
    (folder / ".headgate-attempt.json").write_text("not JSON")
    shown = headgate("gc")
    assert shown.code == 1
    assert "damaged" in shown.out
    assert folder.exists()


def test_status_shows_heads_and_what_is_kept(headgate: Run, lake: EmbeddedLake) -> None:
    headgate("run", "by_hand:write", "--on", "songs@main", "--params", '{"fail": true}')
    facts = json.loads(headgate("status", "--json").out)
    assert facts["heads"][0]["branch"] == "songs@main"
    assert facts["running"] == []
    assert len(facts["kept_failures"]) == 1
    assert "songs@main" in headgate("status").out


def test_an_interrupted_run_ends_its_workflow_and_leaves_nothing(
    headgate: Run, lake: EmbeddedLake, project: Path
) -> None:
    def interrupt(point: Failpoint) -> None:
        if point is Failpoint.ATTEMPT_STAGED:
            raise KeyboardInterrupt

    before = head(lake)
    arm(interrupt)
    assert headgate("run", "by_hand:write", "--on", "songs@main").code == 130
    arm(None)
    with Machine(load(start=project).settings) as machine:
        [task] = machine.engine.tasks()
    assert (task.status, task.workflow_status) == ("CANCELED", "TERMINATED")
    assert head(lake) == before
    assert [branch.name for branch in lake.branches("songs")] == ["main"]
    assert headgate("run", "by_hand:write", "--on", "songs@main").code == 0
