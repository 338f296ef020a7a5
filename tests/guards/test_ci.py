"""The CI script runs every stage, fails if any does, and ends in a closing line of pytest. `make` is a stub here: it
plays stages that a working repository cannot be made to show."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSED = {
    "check": "echo '5 passed in 0.50s'",
    "test": "echo '3.00s call     tests/a.py::slow'; echo '0.10s setup    tests/a.py::fast'; "
    "echo '==== 7 passed, 1 skipped in 9.00s ===='",
    "test-real": "echo '4.00s call     tests/b.py::slower'; echo '==== 2 passed in 4.00s ===='",
}


def _ci(folder: Path, stages: dict[str, str]) -> tuple[int, list[str]]:
    cases = "\n".join(f"  {name}) {script} ;;" for name, script in stages.items())
    tools = {"make": f'echo "$1" >>"{folder}/stages"\ncase "$1" in\n{cases}\nesac\n'}
    tools |= dict.fromkeys(("git", "java", "go", "mvn", "chromium"), "")  # all there: nothing is installed
    for name, script in tools.items():
        tool = folder / name
        tool.write_text(f"#!/usr/bin/env bash\n{script}")
        tool.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    assert (folder / "stages").read_text().split() == ["check", "test", "test-real"]
    return done.returncode, done.stdout.splitlines()


def test_ci_that_passes_shows_the_slowest_tests_and_ends_in_the_closing_line(tmp_path: Path) -> None:
    code, lines = _ci(tmp_path, PASSED)
    assert code == 0
    assert lines[-1] == "==== 7 passed, 1 skipped in 9.00s ===="
    slowest = lines[lines.index("### the slowest tests") + 1 :]
    assert [line.split()[0] for line in slowest[:3]] == ["4.00s", "3.00s", "0.10s"]


@pytest.mark.parametrize("stage", PASSED)
def test_ci_in_which_a_stage_fails_ends_in_that_stages_closing_line_and_is_not_0(stage: str, tmp_path: Path) -> None:
    closing = "==== 1 failed, 3 passed in 2.00s ===="
    code, lines = _ci(tmp_path, PASSED | {stage: f"echo '{closing}'; exit 2"})
    assert code != 0
    assert lines[-1] == closing
    assert f"FAILED: make {stage}" in lines


def test_ci_in_which_lint_fails_does_not_end_in_a_line_that_looks_like_a_success(tmp_path: Path) -> None:
    code, lines = _ci(tmp_path, PASSED | {"check": "echo 'E501 too long'; exit 2"})
    assert code != 0
    assert lines[-1] == "make check failed outside its tests"


def test_ci_without_real_tests_says_so_and_still_shows_the_tests_that_ran(tmp_path: Path) -> None:
    code, lines = _ci(tmp_path, PASSED | {"test-real": "echo '==== 30 deselected in 1.00s ===='"})
    assert code == 0
    assert "make test-real: no test ran" in lines
    assert lines[-1] == "==== 7 passed, 1 skipped in 9.00s ===="
