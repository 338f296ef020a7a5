"""What importing Headgate does to the process that imports it: nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import task
from headgate.lake import Changes, EmbeddedLake
from headgate.tasks import task_of

HEAVY = {
    "pyspark", "lance", "pyarrow", "pandas", "numpy", "duckdb", "obstore", "polars", "fastapi", "uvicorn",
    "conductor", "lakefs_sdk", "boto3", "pydantic", "structlog", "rich", "typer", "asyncio", "multiprocessing",
}  # fmt: skip

LOOK = """
import json, logging, signal, sys, threading, warnings
{imports}
mp = sys.modules.get("multiprocessing.context")
print(json.dumps({{
    "modules": sorted({{name.split(".")[0] for name in sys.modules}}),
    "handlers": len(logging.getLogger().handlers) + len(logging.getLogger("headgate").handlers),
    "levels": [logging.getLogger().level, logging.getLogger("headgate").level],
    "threads": threading.active_count(),
    "signals": {{s.name: str(signal.getsignal(s)) for s in signal.Signals}},
    "start_method": mp and mp._default_context._actual_context and mp._default_context._actual_context._name,
    "excepthook": sys.excepthook is sys.__excepthook__,
    "filters": len(warnings.filters),
}}))
"""


@cache
def look(imports: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(imports=imports)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


PUBLIC = (
    "import headgate",
    "import headgate.errors, headgate.publication, headgate.settings, headgate.logs, headgate.tasks",
    "import headgate; [getattr(headgate, name) for name in headgate.__all__]",
)


@pytest.fixture(scope="module")
def bare() -> dict[str, Any]:
    return look("")


def test_import_brings_in_nothing_heavy(bare: dict[str, Any]) -> None:
    assert not HEAVY & (set(look("import headgate")["modules"]) - set(bare["modules"]))


@pytest.mark.parametrize("imports", PUBLIC)
@pytest.mark.parametrize(
    "manner", ["handlers", "levels", "threads", "signals", "start_method", "excepthook", "filters"]
)
def test_import_changes_nothing_of_the_process(manner: str, imports: str, bare: dict[str, Any]) -> None:
    assert look(imports)[manner] == bare[manner]


def test_a_look_would_notice() -> None:
    rude = look(
        "import signal, threading, multiprocessing\n"
        "logging.basicConfig(); multiprocessing.set_start_method('spawn')\n"
        "signal.signal(signal.SIGTERM, lambda *a: None)\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    assert rude["handlers"] == 1
    assert rude["threads"] == 2
    assert "lambda" in rude["signals"]["SIGTERM"]
    assert rude["start_method"] == "spawn"


def test_blocking_calls_work_under_a_running_event_loop(tmp_path: Path) -> None:
    """A notebook runs a loop in the thread that calls us; so does a server."""

    class Params(BaseModel):
        limit: int

    @task(owner_email="a@example.org")
    async def counted(params: Params) -> Params:
        await asyncio.sleep(0)
        return Params(limit=params.limit + 1)

    async def caller() -> tuple[Params, int]:
        declaration = task_of(counted)
        assert declaration is not None
        with EmbeddedLake(tmp_path / "lake", create=True) as lake:
            lake.create_repository("songs")
            lake.commit("songs", "main", Changes(puts={"a": b"1"}), message="one")
            return declaration.call({"params": Params(limit=1)}), len(
                list(lake.log("songs", lake.head("songs", "main").ref))
            )

    assert asyncio.run(caller()) == (Params(limit=2), 2)
