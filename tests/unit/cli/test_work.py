"""`check` and `extract`: a module of the current folder, all its problems at once, TaskDefs as text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ROOT = Path(__file__).parents[3]

GOOD = '''\
from pathlib import Path
from headgate import ReadOnly, TaskControls, TimeoutPolicy, task
from headgate.tasks import GraphTransaction
from pydantic import BaseModel

class P(BaseModel):
    limit: int = 3

class R(BaseModel):
    count: int

@task(owner_email="songs@example.org", workspace="songs/", graph=ReadOnly(["Song"]))
def ingest(workspace: Path, graph: GraphTransaction, params: P) -> R:
    """Take songs in."""
    return R(count=1)

@task()
def unowned(params: P) -> R:
    return R(count=1)
'''

BAD = """\
from headgate import TaskControls, TimeoutPolicy, WorkspaceSpec, task
from pathlib import Path
from pydantic import BaseModel

class P(BaseModel): ...
class R(BaseModel): ...

@task(workspace=WorkspaceSpec(prefix="a/../b"))
def one(workspace: Path, params: P) -> R: ...

@task(owner_email="nobody", controls=TaskControls(timeout=TimeoutPolicy(response_seconds=0)))
def two(params: P): ...
"""


@pytest.fixture
def work(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (project / "good.py").write_text(GOOD)
    (project / "bad.py").write_text(BAD)
    yield project
    for name in set(sys.modules) - before:
        if name in ("good", "bad", "short"):
            del sys.modules[name]


def test_check_shows_a_table(headgate: Run, work: Path) -> None:
    shown = headgate("check", "good")
    assert shown.code == 0, shown.err
    header, _, ingest, unowned = shown.out.splitlines()
    assert header.split()[:3] == ["task", "writes", "reads"]
    assert "workspace songs/" in ingest
    assert "graph Song" in ingest
    assert "good.py:12" in ingest
    assert unowned.split()[0] == "unowned"


def test_check_for_programs(headgate: Run, work: Path) -> None:
    facts = json.loads(headgate("check", "good", "--json").out)
    assert [fact["name"] for fact in facts] == ["ingest", "unowned"]
    assert facts[0]["arguments"] == ["workspace", "graph", "params"]
    assert facts[0]["controls"]["retry"]["count"] == 3


def test_check_tells_all_problems_with_their_lines(headgate: Run, work: Path) -> None:
    shown = headgate("check", "bad")
    assert shown.code == 3
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert lines[0] == "error: the module bad has 4 problems"
    at = [line.strip().removeprefix(f"{work / 'bad.py'}:").partition(":")[0] for line in lines[1:5]]
    assert at == ["8", "11", "11", "11"]
    assert "Traceback" not in shown.err


def test_check_of_several_modules(headgate: Run, work: Path) -> None:
    (work / "short.py").write_text(GOOD.replace("def unowned", "def other"))
    shown = headgate("check", "good", "short")
    assert shown.code == 3
    assert "two tasks are named ingest" in shown.err
    assert f"{work / 'good.py'}:12" in shown.err


def test_check_warns_and_goes_on(headgate: Run, work: Path) -> None:
    controls = 'controls=TaskControls(timeout=TimeoutPolicy(response_seconds=30)), workspace="songs/"'
    (work / "short.py").write_text(GOOD.replace('workspace="songs/"', controls))
    shown = headgate("check", "short")
    assert shown.code == 0
    assert shown.err.startswith(f"warning: {work / 'short.py'}:12: task ingest: response_seconds is 30")


@pytest.mark.parametrize(
    ("module", "code", "told"),
    [("nowhere", 4, "there is no module nowhere"), ("good.py", 4, "hint: write good"), ("json", 3, "declares no task")],
)
def test_a_module_that_cannot_be_checked(headgate: Run, work: Path, module: str, code: int, told: str) -> None:
    shown = headgate("check", module)
    assert shown.code == code
    assert told in shown.err


def test_extract_writes_task_defs(headgate: Run, work: Path) -> None:
    shown = headgate("extract", "good", "-o", "tasks.json")
    assert shown.code == 3
    assert "unowned has no owner" in shown.err
    assert "set owner_email in headgate.toml" in shown.err
    assert not (work / "tasks.json").exists()


def test_the_owner_of_the_settings_is_used_where_a_task_names_none(headgate: Run, work: Path) -> None:
    (work / "headgate.toml").write_text('owner_email = "team@example.org"\n')
    shown = headgate("extract", "good", "-o", "tasks.json")
    assert shown.code == 0, shown.err
    defs = json.loads((work / "tasks.json").read_text())
    assert [(made["name"], made["ownerEmail"]) for made in defs] == [
        ("ingest", "songs@example.org"),
        ("unowned", "team@example.org"),
    ]
    assert json.loads(headgate("extract", "good").out) == defs
    assert headgate("extract", "good", "-o", "tasks.json", "--check").code == 0


def test_a_stale_file_is_told_with_the_command(headgate: Run, work: Path) -> None:
    (work / "headgate.toml").write_text('owner_email = "team@example.org"\n')
    (work / "tasks.json").write_text("[]\n")
    shown = headgate("extract", "good", "-o", "tasks.json", "--check")
    assert shown.code == 4
    assert "hint: run headgate extract good -o tasks.json" in shown.err
    assert (work / "tasks.json").read_text() == "[]\n"
    assert headgate("extract", "good", "--check").code == 4


def test_a_file_that_cannot_be_written(headgate: Run, work: Path) -> None:
    (work / "headgate.toml").write_text('owner_email = "team@example.org"\n')
    shown = headgate("extract", "good", "-o", "no/such/folder.json")
    assert shown.code == 4
    assert "no/such/folder.json cannot be written" in shown.err


def test_the_songs_are_checked_from_the_root_without_a_path_setting() -> None:
    program = "from headgate.cli.main import run; raise SystemExit(run(['check', 'examples.songs.tasks']))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "examples/songs/tasks.py:" in done.stdout
