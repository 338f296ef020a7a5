"""The project that `headgate init` writes works as it is."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.cli.project import FILES

Run = Callable[..., Any]


@pytest.fixture
def written(headgate: Run, project: Path) -> Path:
    assert headgate("init", "new").code == 0
    return project / "new"


def test_it_writes_what_it_says(headgate: Run, project: Path) -> None:
    shown = headgate("init", "new")
    assert {path.name for path in (project / "new").iterdir()} == set(FILES)
    assert all(f"wrote new/{name}" in shown.out for name in FILES)


def test_its_own_test_passes(written: Path) -> None:
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    line += ["-p", "headgate.testing.plugin"]  # as its entry point does where plug-ins load by themselves
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(line, cwd=written, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_its_settings_load_under_each_profile(written: Path, headgate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written)
    assert headgate("doctor").code == 0
    stores = json.loads(headgate("config", "--json", "--profile", "prod").out)["settings"]
    assert {row["value"] for row in stores if row["setting"] == "stores.songs.lake"} == {"lakefs"}


def test_the_commands_of_its_readme_run(written: Path, headgate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the commands put the folder on it
    lines = [shlex.split(line, comments=True) for line in (written / "README.md").read_text().splitlines()]
    commands = [line[1:] for line in lines if line[:1] == ["headgate"]]
    assert len(commands) > 5
    shown = {command[0]: headgate(*command) for command in commands}
    sys.modules.pop("tasks", None)
    assert {name: result.err for name, result in shown.items() if result.code != 0} == {}
    assert "summarise" in shown["log"].out
    assert "ingest" in shown["why"].out


def test_its_workflow_names_its_tasks(written: Path) -> None:
    code = "import tasks; from headgate.tasks import tasks_in; print([t.name for t in tasks_in(tasks)])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(written), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=written, env=env, capture_output=True, text=True, check=True
    )
    workflow = json.loads((written / "workflow.json").read_text())
    assert done.stdout.strip() == str([task["name"] for task in workflow["tasks"]])


def test_its_code_is_clean(written: Path) -> None:
    tools = Path(sys.executable).parent
    for line in (["ruff", "check", "--isolated", "--select", "E,F,B,UP"], ["ruff", "format", "--isolated", "--check"]):
        config = ["--line-length", "120", "."]
        done = subprocess.run(
            [tools / line[0], *line[1:], *config], cwd=written, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_nothing_is_overwritten_and_nothing_written_where_a_file_is_in_the_way(headgate: Run, project: Path) -> None:
    (project / "new").mkdir()
    (project / "new" / "tasks.py").write_text("mine")
    shown = headgate("init", "new")
    assert shown.code == 6
    assert "new already has tasks.py" in shown.err
    assert [path.name for path in (project / "new").iterdir()] == ["tasks.py"]


def test_a_file_where_the_folder_should_be_is_refused(headgate: Run, project: Path) -> None:
    (project / "new").write_text("")
    assert headgate("init", "new").code == 4
    below = headgate("init", "new/below")
    assert below.code == 4
    assert "Not a directory" in below.err


def test_a_dry_run_writes_nothing(headgate: Run, project: Path) -> None:
    shown = headgate("init", "new", "--dry-run")
    assert "would write new/tasks.py" in shown.out
    assert not (project / "new").exists()
