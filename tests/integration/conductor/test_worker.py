"""`headgate worker`, `register`, `run` and `status` on a real Conductor: how a worker starts, works and ends."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

import pytest
from tests.integration.conductor.world import TASKS, World, until
from tools.servers import Server
from tools.servers.running import free_port

from headgate.lake.interface import MAIN
from headgate.orchestrators.conductor.taskdefs import Standing, register, server_task_def
from headgate.orchestrators.conductor.workflows import end_workflow, task_log
from headgate.orchestrators.worker import live_workers

pytestmark = pytest.mark.real


def test_a_first_signal_drains_with_the_lease_kept(here: World) -> None:
    """The body outlives its lease three times over, and is accepted."""
    worker = here.worker()
    here.control("hold")
    workflow = here.start("fault_first")
    here.held()
    worker.signal(signal.SIGTERM)
    until(lambda: worker.told("draining"), "draining")
    began = until(lambda: task_of(here, workflow), "a task")["updateTime"]
    until(lambda: task_of(here, workflow)["updateTime"] > began + 3500, "a lease that was extended")
    here.lift("hold")
    assert worker.wait() == 0
    assert worker.told("drained")
    here.check(workflow)
    assert here.show(workflow).tasks[0].retry_count == 0


def task_of(here: World, workflow: str) -> dict[str, int]:
    found: dict[str, int] = here.client.call("GET", "workflow", workflow, doing="look")["tasks"][-1]
    return found


def test_a_drained_worker_takes_nothing_more(here: World) -> None:
    worker = here.worker()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    workflow = here.start("fault_plain")
    assert [task.status for task in here.show(workflow).tasks] == ["SCHEDULED"]
    end_workflow(here.client, workflow, reason="no longer needed")


def test_a_second_signal_ends_bodies_and_reports_them_at_once(here: World) -> None:
    worker = here.worker()
    here.control("hold")
    workflow = here.start("fault_first")
    here.held()
    worker.signal(signal.SIGTERM)
    until(lambda: worker.told("draining"), "draining")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 1
    failed = until(lambda: [t for t in here.show(workflow).tasks if t.status == "FAILED"], "a failed task")
    assert failed[0].reason == "body: the worker was told to stop"
    here.lift("hold")
    here.worker()
    here.check(workflow)


def test_a_body_that_outlasts_the_grace_is_ended_and_reported(here: World) -> None:
    source = here.folder / f"{TASKS}.py"
    source.write_text(source.read_text().replace("shutdown_grace_seconds=8", "shutdown_grace_seconds=1"))
    worker = here.worker()
    here.control("hold")
    workflow = here.start("fault_first")
    here.held()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 1
    assert here.show(workflow).tasks[0].status == "FAILED"
    here.lift("hold")
    here.worker()
    here.check(workflow)


def test_the_grace_is_printed_for_the_platform(here: World) -> None:
    done = here.command("worker", TASKS, "--print-grace")
    # Grace, publish and completion of the longest task; a task without a store has the default budget.
    assert (done.returncode, done.stdout) == (0, "76\n")


def test_a_workflow_that_is_ended_reaches_the_body(here: World) -> None:
    here.worker()
    here.control("hold")
    workflow = here.start("fault_long")
    here.held()
    end_workflow(here.client, workflow, reason="no longer needed")
    until(lambda: not live_workers(here.settings.state)[0].attempts, "a body that ended", within=30)
    assert here.show(workflow).tasks[0].status == "CANCELED"


def test_lines_and_tracebacks_are_in_the_log_of_the_task_and_reasons_are_short(here: World) -> None:
    here.worker()
    workflow = here.start("fault_plain", text="raise")
    over = here.over(workflow)
    assert over.status == "FAILED"
    first = over.tasks[0]
    assert first.reason == "body: ValueError: no such song"
    told = until(lambda: "\n".join(task_log(here.client, first.id)), "a log")
    assert "working on it text=raise" in told
    assert 'raise ValueError("no such song")' in told


def test_a_server_that_is_down_at_the_start_is_waited_for(here: World) -> None:
    port = free_port()
    worker = here.worker(through=f"http://127.0.0.1:{port}/api", ready=False)
    until(lambda: worker.told(f"waiting for Conductor: no Conductor answers at http://127.0.0.1:{port}/api"), "a word")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_task_def_that_differs_is_told_with_its_fields_and_left_alone(here: World) -> None:
    kept = server_task_def(here.client, "fault_plain")
    assert kept is not None
    register(here.client, {**kept, "retryCount": 7, "description": "by hand"}, Standing.CHANGED)
    try:
        worker = here.worker(task="fault_plain")
        assert worker.told("the TaskDef fault_plain at the server differs from the code in description, retryCount")
        now = server_task_def(here.client, "fault_plain")
        assert now is not None
        assert now["retryCount"] == 7
    finally:
        register(here.client, kept, Standing.CHANGED)


def test_register_shows_the_difference_and_refuses_params_that_break_running_workflows(here: World) -> None:
    assert "fault_plain: the server has it as it is" in here.command("register", TASKS).stdout
    source = here.folder / f"{TASKS}.py"
    text = source.read_text()
    name = "fault_breaking"
    before = text.replace("def fault_plain(", f"def {name}(")
    (here.folder / "other_tasks.py").write_text(before)
    dry = here.command("register", "other_tasks", "--dry-run")
    assert f"{name}: would be registered" in dry.stdout
    assert server_task_def(here.client, name) is None
    assert here.command("register", "other_tasks").returncode == 0
    (here.folder / "other_tasks.py").write_text(before.replace('text: str = ""', "text: int"))
    refused = here.command("register", "other_tasks")
    assert refused.returncode == 6
    assert "input.params.text was string and has to be integer now" in refused.stderr
    forced = here.command("register", "other_tasks", "--force")
    assert forced.returncode == 0
    kept = server_task_def(here.client, name)
    assert kept is not None
    assert kept["inputSchema"]["data"]["$defs"]["Params"]["properties"]["text"]["type"] == "integer"
    # The tasks that share these params are as they were for the tests that come after.
    assert here.command("register", TASKS, "--force").returncode == 0


def test_run_starts_a_workflow_file_on_the_server_and_follows_it(here: World) -> None:
    here.worker()
    step = {
        "name": "fault_first",
        "taskReferenceName": "only",
        "type": "SIMPLE",
        "inputParameters": {"workspace": "${workflow.input.workspace}", "params": {"text": "${workflow.input.text}"}},
    }
    output = {"workspace": "${only.output.workspace}"}
    file = here.folder / "flow.json"
    file.write_text(json.dumps({"name": "from_a_file", "tasks": [step], "outputParameters": output}))
    args = ("run", "flow.json", "--on", f"songs@{MAIN}", "--domain", here.domain)
    done = here.command(*args, "--input", '{"text": "hello"}', "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == "COMPLETED"
    assert told["output"]["workspace"]["ref"] == str(here.lake.head(here.repository, MAIN).ref)
    assert "only: COMPLETED" in done.stderr
    missing = here.command(*args)
    assert missing.returncode == 4
    assert "the input has no 'text'" in missing.stderr
    file.write_text(file.read_text().replace("fault_first", "fault_frist"))
    unknown = here.command(*args, "--input", '{"text": "hello"}')
    assert unknown.returncode == 4
    assert "the server has no task 'fault_frist'" in unknown.stderr


def test_status_shows_live_workers_and_what_they_do(here: World) -> None:
    here.worker("-j", "2")
    here.control("hold")
    workflow = here.start("fault_first")
    here.held()
    shown = until(lambda: out if " body, " in (out := here.command("status").stdout) else None, "a body")
    assert "1 of 2 executors busy" in shown
    assert f"workflow {workflow}" in shown
    [worker] = json.loads(here.command("status", "--json").stdout)["workers"]
    assert (worker["state"], worker["attempts"][0]["phase"]) == ("working", "body")
    here.lift("hold")
    here.check(workflow)


def test_metrics_and_health_are_answered_by_the_supervisor(here: World) -> None:
    port = free_port()
    here.worker(HEADGATE_TELEMETRY_ADDRESS=f"127.0.0.1:{port}")
    workflow = here.start("fault_plain")
    here.over(workflow)

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
            text: str = answer.read().decode()
            return text

    assert get("livez") == get("readyz") == "ok\n"
    wanted = 'headgate_attempts_total{outcome="completed",task="fault_plain"} 1.0'
    until(lambda: wanted in get("metrics"), "a counted attempt")


def test_a_poller_that_crashes_takes_no_running_work_with_it(here: World, tmp_path: Path, conductor: Server) -> None:
    """Another server answers the polls with nonsense while a body runs; then the right one again."""
    from tools.servers.proxy import Fault, FaultProxy

    with FaultProxy(conductor.url) as proxy:
        worker = here.worker(through=f"{proxy.url}/api")
        here.control("hold")
        workflow = here.start("fault_first")
        here.held()
        nonsense = proxy.next("GET", "/poll/", Fault.ANSWER, times=10_000, status=200)
        other = here.start("fault_plain")
        here.lift("hold")
        until(lambda: here.show(workflow).over, "the end of what ran")
        until(lambda: worker.told("in a way that was not foreseen"), "a poller that crashed")
        nonsense.lift()
        assert here.over(other).status == "COMPLETED"
        here.check(workflow)
