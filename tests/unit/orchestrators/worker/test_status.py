"""A worker is seen while it lives, and by nobody after."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headgate.orchestrators.worker.status import FOLDER, LiveAttempt, LiveWorker, live_workers, status_file

ATTEMPT = LiveAttempt(
    task="render",
    workflow="w",
    task_id="t",
    execution="e",
    retry_count=1,
    phase="body",
    began_at="2026-01-01T00:00:00+00:00",
    progress="3 of 10",
)
WORKER = LiveWorker(
    id="one",
    pid=os.getpid(),
    state="working",
    server="http://127.0.0.1:8080/api",
    domain=None,
    tasks=("render",),
    executors=2,
    started_at="2026-01-01T00:00:00+00:00",
    ended=7,
    per_minute=1.5,
    attempts=(ATTEMPT,),
)


def test_a_worker_is_seen_while_it_lives(tmp_path: Path) -> None:
    assert live_workers(tmp_path) == []
    with status_file(tmp_path, "one") as status:
        status.write(WORKER)
        assert live_workers(tmp_path) == [WORKER]
    assert live_workers(tmp_path) == []
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_what_a_killed_worker_left_is_no_worker_and_is_removed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tests.unit.orchestrators.worker.test_status import *\n"
        "with status_file(Path(sys.argv[1]), 'one') as status:\n"
        "    status.write(WORKER); assert live_workers(Path(sys.argv[1])); os._exit(9)\n"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=False)
    assert done.returncode == 9
    assert (tmp_path / FOLDER / "one.json").exists()
    assert live_workers(tmp_path) == []
    assert list((tmp_path / FOLDER).iterdir()) == []
