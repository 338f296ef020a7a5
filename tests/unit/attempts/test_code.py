"""Which version of the code ran, as the commit says it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headgate.attempts.code import CodeVersion, _version_of, code_version


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def module(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    path = tmp_path / "tasks.py"
    path.write_text("x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return path


def test_a_clean_tree_is_its_commit(module: Path) -> None:
    assert code_version(str(module)) == CodeVersion(git(module.parent, "rev-parse", "HEAD"), dirty=False)


def test_a_changed_tree_is_said_to_be(module: Path) -> None:
    module.write_text("x = 2\n")
    assert code_version(str(module)).dirty is True


def test_it_is_asked_once_since_imported_code_does_not_change(module: Path) -> None:
    first = code_version(str(module))
    module.write_text("x = 2\n")
    assert code_version(str(module)) is first


def test_code_under_no_version_control_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "plain"
    folder.mkdir()
    assert code_version(str(folder / "tasks.py")) == CodeVersion()
    assert code_version("<string>") is not None
    _version_of.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert code_version(str(folder / "tasks.py")) == CodeVersion()
