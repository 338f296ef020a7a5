"""The demonstration runs to its end, keeps to its folder, and says what it skips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import demo
from headgate.lake import EmbeddedLake

Run = Callable[..., Any]


def test_it_ends_with_what_was_published_and_what_to_look_at(headgate: Run, project: Path) -> None:
    shown = headgate("demo", "shown")
    assert shown.code == 0, shown.err
    assert shown.err == ""
    told = shown.out.splitlines()
    assert [line for line in told if line.startswith("[")] == [
        f"[{number}/{len(demo.STEPS)}] {step.title}" for number, step in enumerate(demo.STEPS, start=1)
    ]
    assert "\nPublished\n  songs@main" in shown.out
    assert "\nLook next\n" in shown.out


def test_what_it_says_was_published_is_there(headgate: Run, project: Path) -> None:
    shown = headgate("demo", "shown")
    published = [line.split()[1] for line in shown.out.splitlines() if line.startswith("  songs@main")]
    with EmbeddedLake(project / "shown" / ".headgate" / "lake") as lake:
        head = lake.head("songs", "main")
        history = [commit.ref[:12] for commit in lake.log("songs", head.ref)]
        assert history[:-1] == list(reversed(published))
        assert {item.path for item in lake.objects("songs", head.ref)} >= {"songs/Naima.json", "songs/summary.txt"}
        assert [branch.name for branch in lake.branches("songs")] == ["main"]


def test_a_stale_publish_is_refused(headgate: Run) -> None:
    assert "refused, and nothing changed" in headgate("demo", "shown").out


def test_the_environment_cannot_send_it_to_a_server(
    headgate: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_PROFILE", "prod")
    monkeypatch.setenv("HEADGATE_STATE", str(project / "elsewhere"))
    assert headgate("demo", "shown").code == 0
    assert not (project / "elsewhere").exists()


def test_without_a_folder_it_takes_a_temporary_one(
    headgate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    shown = headgate("demo")
    assert shown.code == 0
    [made] = tmp_path.glob("headgate-demo-*")
    assert f"in {made}" in shown.out


def test_a_step_whose_need_is_missing_is_skipped_in_one_line(headgate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    needy = demo.Step("Build features with Spark", "not_there:never", needs=(lambda: "no Java; install Java 17",))
    monkeypatch.setattr(demo, "STEPS", (*demo.STEPS, needy))
    shown = headgate("demo", "shown")
    assert shown.code == 0
    assert "[5/5] Build features with Spark\n      skipped: no Java; install Java 17\n" in shown.out


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


def test_a_folder_with_a_project_in_it_is_refused(headgate: Run) -> None:
    assert headgate("demo", "shown").code == 0
    again = headgate("demo", "shown")
    assert again.code == 6
    assert "already has headgate.toml" in again.err
