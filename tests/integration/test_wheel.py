"""The built wheel works in an empty environment, without this repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*line: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line without the variables that would lead back to this repository."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "HEADGATE"))
    }
    done = subprocess.run([str(part) for part in line], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", out, ROOT, cwd=out)
    [built] = out.glob("headgate-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of a fresh environment that has the wheel, its dependencies and pytest."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    constraints = ROOT / "constraints.txt"
    run(folder / "bin" / "pip", "install", "--quiet", "-c", constraints, wheel, "pytest", cwd=folder)
    return folder / "bin"


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} <= {
        "headgate",
        *{n.split("/")[0] for n in names if ".dist-info/" in n},
    }
    assert "headgate/py.typed" in names
    assert {"headgate/cli/templates/tasks.py.in", "headgate/_examples/songs/tasks.py"} <= set(names)
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_demonstration_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    shown = run(installed / "headgate", "demo", tmp_path / "demo", cwd=tmp_path).stdout
    assert "Published\n  songs@main" in shown


def test_a_new_projects_test_passes(installed: Path, tmp_path: Path) -> None:
    run(installed / "headgate", "init", "project", cwd=tmp_path)
    assert "2 passed" in run(installed / "pytest", "-q", cwd=tmp_path / "project").stdout
    run(installed / "headgate", "doctor", cwd=tmp_path / "project")


def test_the_light_core_is_light(installed: Path, tmp_path: Path) -> None:
    listed = run(installed / "pip", "list", "--format=freeze", cwd=tmp_path).stdout.lower()
    for heavy in ("pyspark", "pylance", "pyarrow", "pandas", "numpy", "duckdb", "fastapi"):
        assert f"{heavy}==" not in listed
