"""The demonstration runs to its end, keeps to its folder, and says what it skips."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import demo, demo_songs
from headgate.errors import HeadgateError
from headgate.lake import EmbeddedLake

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The whole demonstration, played once in an environment that names servers: its folder, and what it said."""
    folder = tmp_path_factory.mktemp("demo") / "shown"
    misleading = {"HEADGATE_PROFILE": "prod", "HEADGATE_STATE": str(folder.parent / "elsewhere")}
    line = [sys.executable, "-m", "headgate.cli.main", "demo", str(folder)]
    done = subprocess.run(line, env={**os.environ, **misleading}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_it_ends_with_what_was_published_and_what_to_look_at(played: tuple[Path, str]) -> None:
    _, told = played
    assert [line for line in told.splitlines() if line.startswith("[")] == [
        f"[{number}/{len(demo.STEPS)}] {step.title}" for number, step in enumerate(demo.STEPS, start=1)
    ]
    assert "\nPublished\n  songs@main" in told
    assert "\nLook next\n" in told


@pytest.mark.slow
def test_what_it_says_was_published_is_there_and_the_abandoned_commit_is_not(played: tuple[Path, str]) -> None:
    """Invariant 3: an abandoned commit is never the parent of a new one."""
    folder, told = played
    published = [line.split()[1] for line in told.splitlines() if line.startswith("  songs@main")]
    with EmbeddedLake(folder / ".headgate" / "lake") as lake:
        head = lake.head("songs", "main")
        history = [commit.ref[:12] for commit in lake.log("songs", head.ref)]
        assert history[:-1] == list(reversed(published))
        assert "features/songs.jsonl" in {item.path for item in lake.objects("songs", head.ref)}


@pytest.mark.slow
def test_the_environment_cannot_send_it_elsewhere(played: tuple[Path, str]) -> None:
    folder, _ = played
    assert [path.name for path in folder.parent.iterdir()] == ["shown"]


@pytest.mark.slow
def test_every_command_it_names_can_be_run(played: tuple[Path, str]) -> None:
    folder, told = played
    lines = told.partition("Look next")[2].splitlines()
    named = [shlex.split(line)[1:] for line in lines if line.startswith("  headgate ")]
    assert named
    for args in named:
        line = [sys.executable, "-m", "headgate.cli.main", *args]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_without_a_folder_it_takes_a_temporary_one(
    headgate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "STEPS", demo.STEPS[:1])
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    shown = headgate("demo")
    assert shown.code == 0
    [made] = tmp_path.glob("headgate-demo-*")
    assert f"in {made}" in shown.out
    assert (made / "examples" / "songs" / "tasks.py").is_file()


def test_a_step_whose_need_is_missing_is_skipped_in_one_line(headgate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    needy = demo.Step("Build features with Spark", "not_there:never", needs=(lambda: "no Java; install Java 17",))
    monkeypatch.setattr(demo, "STEPS", (demo.STEPS[0], needy))
    shown = headgate("demo", "shown")
    assert shown.code == 0
    assert "[2/2] Build features with Spark\n      skipped: no Java; install Java 17\n" in shown.out


def test_a_step_that_fails_ends_it_with_what_the_command_said(tmp_path: Path) -> None:
    with pytest.raises(HeadgateError, match=r"`headgate versoin` ended with 2: error: No such command"):
        demo.Stage(tmp_path).headgate("versoin")


def test_the_need_for_java_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    lack = demo.java()
    assert lack is not None
    assert "install Java" in lack
    assert "\n" not in lack


def test_the_need_for_an_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.cli import checks

    monkeypatch.setattr(checks, "_extras", lambda: {"graph": ["not-there"], "server": ["pydantic"]})
    assert demo.extra("graph")() == "without not-there; pip install 'headgate[graph]'"
    assert demo.extra("server")() is None


def test_a_folder_with_a_project_in_it_is_refused(headgate: Run, project: Path) -> None:
    (project / "headgate.toml").write_text("")
    again = headgate("demo", ".")
    assert again.code == 6
    assert "already has headgate.toml" in again.err


def test_the_songs_example_is_found() -> None:
    assert {"tasks.py", "catalogue.jsonl"} <= {item.name for item in demo_songs.songs().iterdir()}
