"""Workers in processes of their own, a Conductor and a lake: what can be done to them, and what must hold after it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.servers import Server

from headgate.errors import Transient
from headgate.ids import ULIDS
from headgate.lake.interface import MAIN, STAGING_PREFIX, Changes, Lake
from headgate.orchestrators.conductor import Client, Endpoint
from headgate.orchestrators.conductor.workflows import ServerWorkflow, start_workflow, workflow
from headgate.orchestrators.machine import Machine
from headgate.settings import Settings, load

ROOT = Path(__file__).parents[3]
TASKS = "fault_tasks"
PATIENCE = 120.0


def until(found: Callable[[], Any], what: str, *, within: float = PATIENCE, every: float = 0.05) -> Any:
    """What `found` says, once it says something; a server that does not answer says nothing."""
    pause = threading.Event()
    for _ in range(int(within / every)):
        with suppress(Transient):
            if got := found():
                return got
        pause.wait(every)
    raise AssertionError(f"it did not come to this: {what}")


@dataclass
class Worker:
    """`headgate worker` in a process."""

    process: subprocess.Popen[bytes]
    log: Path

    def told(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """Drain it, or what a test left of it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


@dataclass
class World:
    folder: Path
    api: str
    client: Client
    settings: Settings
    lake: Lake
    repository: str
    domain: str
    undo: ExitStack
    workers: list[Worker] = field(default_factory=list)

    # what can be done
    def control(self, name: str, text: str = "") -> Path:
        path = self.folder / "control" / name
        path.write_text(text)
        return path

    def lift(self, *names: str) -> None:
        for name in names:
            (self.folder / "control" / name).unlink(missing_ok=True)

    def command(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run `headgate` in the folder."""
        return subprocess.run(
            [sys.executable, "-m", "headgate.cli.main", *args],
            cwd=self.folder,
            env=self.environ(**environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def environ(self, **more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **more}

    def worker(self, *args: str, task: str = "", ready: bool = True, through: str = "", **environ: str) -> Worker:
        """Start one; `through` is an address of the server that is not its own."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        with log.open("wb") as lines:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "headgate.cli.main", "worker", f"{TASKS}{task and ':' + task}"),
                    *("--domain", self.domain, *args),
                ],
                cwd=self.folder,
                env=self.environ(**({"HEADGATE_CONDUCTOR_SERVER_URL": through} if through else {}), **environ),
                stdout=lines,
                stderr=subprocess.STDOUT,
            )
        made = Worker(process, log)
        self.workers.append(made)
        self.undo.callback(made.end)
        if ready:
            until(lambda: made.told("working on") or process.poll() is not None, "a worker that works")
            assert made.told("working on"), log.read_text()
        return made

    def start(self, *tasks: str, text: str = "x") -> str:
        """Start a workflow of these tasks, each working on what the one before it published."""
        steps, block = [], "${workflow.input.workspace}"
        for task in tasks or ("fault_first", "fault_second"):
            inputs: dict[str, Any] = {"params": {"text": text}}
            if task in ("fault_first", "fault_second"):
                inputs["workspace"] = block
                block = f"${{{task}.output.workspace}}"
            steps.append({"name": task, "taskReferenceName": task, "type": "SIMPLE", "inputParameters": inputs})
        definition = {
            "name": f"faults_{len(steps)}",
            "ownerEmail": "tests@example.com",
            "tasks": steps,
            "outputParameters": {"workspace": block},
        }
        return start_workflow(self.client, definition, {"workspace": self.block()}, domain=self.domain)

    def block(self) -> dict[str, str]:
        ref = str(self.lake.head(self.repository, MAIN).ref)
        return {"repository": self.repository, "branch": MAIN, "ref_type": "commit", "ref": ref}

    # what is seen
    def show(self, workflow_id: str) -> ServerWorkflow:
        return workflow(self.client, workflow_id)

    def over(self, workflow_id: str) -> ServerWorkflow:
        """The workflow when it is over. The server, which may take minutes to look at a lease again, is made to."""

        def look() -> ServerWorkflow | None:
            self.client.call("PUT", "workflow", "decide", workflow_id, doing="decide")
            return now if (now := self.show(workflow_id)).over else None

        return until(look, f"the end of {workflow_id}", every=0.3)

    def held(self) -> None:
        until((self.folder / "control" / "held").exists, "a body that waits")

    def check(self, workflow_id: str) -> None:
        """Each step has exactly one visible publish, whose ref is what the workflow says; gc leaves nothing."""
        over = self.over(workflow_id)
        assert over.status == "COMPLETED", over
        accepted = [task.output["workspace"]["ref"] for task in over.tasks if task.status == "COMPLETED"]
        assert over.output["workspace"]["ref"] == accepted[-1]
        began = str(over.input["workspace"]["ref"])
        history: list[str] = []
        for commit in self.lake.log(self.repository, self.lake.head(self.repository, MAIN).ref):
            if str(commit.ref) == began:
                break
            history.insert(0, str(commit.ref))
        assert history == accepted, over
        self.clean_up()

    def clean_up(self) -> None:
        """An attempt whose answer was lost may still be learning that it was accepted: what it holds is no garbage."""
        until(self._nothing_is_left, "gc leaves nothing", every=0.5)

    def _nothing_is_left(self) -> bool:
        with Machine(self.settings) as machine:
            assert machine.collect_garbage(dry_run=False).failed == []
        staging = [b.name for b in self.lake.branches(self.repository) if b.name.startswith(STAGING_PREFIX)]
        root = self.settings.workspace_root
        return not staging and not [path for path in root.iterdir() if not path.name.startswith(".")]


@contextmanager
def world(folder: Path, conductor: Server, lakefs: Server) -> Iterator[World]:
    """A folder with tasks and settings, a repository at the lakeFS, queues of its own at the Conductor."""
    repository = f"faults-{ULIDS.new().lower()}"
    (folder / "control").mkdir()
    shutil.copy(Path(__file__).parent / f"{TASKS}.py", folder)
    told: Mapping[str, Any] = {
        "conductor": {"server_url": conductor.facts["api"]},
        "lakefs": {
            "endpoint": lakefs.url,
            "access_key_id": lakefs.access_key,
            "secret_access_key": lakefs.secret_key,
            "cache_gb": 0,
        },
        "stores.songs": {"lake": "lakefs", "repository": repository},
        "workspace": {"keep_failed": "none"},
    }
    lines = ['orchestrator = "conductor"', 'owner_email = "tests@example.com"']
    for section, values in told.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    (folder / "headgate.toml").write_text("\n".join(lines) + "\n")
    settings = load(start=folder, environ={}).settings
    with ExitStack() as undo:
        client = Client(Endpoint(url=conductor.facts["api"]))
        undo.callback(client.close)
        machine = undo.enter_context(Machine(settings))
        lake = machine.lakes.store("songs").lake
        lake.create_repository(repository)
        lake.commit(repository, MAIN, Changes(puts={"a.txt": b"a"}), message="as it began")
        yield World(
            folder=folder,
            api=conductor.facts["api"],
            client=client,
            settings=settings,
            lake=lake,
            repository=repository,
            domain=ULIDS.new(),
            undo=undo,
        )
