"""The settings that attempts on this machine obey, each with its effect."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.attempts.kept import KeepFailed
from headgate.attempts.names import StagingName
from headgate.attempts.workspace import MARKER
from headgate.errors import InvalidInput, NotFound
from headgate.lake import EmbeddedLake
from headgate.orchestrators.machine import Machine
from headgate.publication import Replace
from headgate.settings import load


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Any]:
    opened: list[Machine] = []

    def make(**variables: str) -> Machine:
        (tmp_path / "headgate.toml").write_text('[stores.songs]\nlake = "embedded"\n')
        environ = {f"HEADGATE_{name.upper()}": value for name, value in variables.items()}
        loaded = load(start=tmp_path, environ=environ, home=tmp_path)
        assert loaded.warnings == ()
        opened.append(Machine(loaded.settings))
        return opened[-1]

    yield make
    for one in opened:
        one.__exit__()


def test_workspaces_are_made_where_the_settings_say(machine: Any, tmp_path: Path) -> None:
    assert machine().options.workspace_root == tmp_path / ".headgate/workspaces"
    assert machine(workspace_root="elsewhere").options.workspace_root == tmp_path / "elsewhere"


def test_how_much_is_kept_of_failed_attempts_is_a_setting(machine: Any) -> None:
    assert machine().options.keep.mode is KeepFailed.LAST
    chosen = machine(workspace_keep_failed="all", workspace_keep_failed_mb="3", workspace_keep_failed_days="0.5")
    limits = chosen.options.keep
    assert (limits.mode, limits.max_bytes, limits.max_age) == (KeepFailed.ALL, 3 * 1024**2, timedelta(hours=12))


def test_the_rule_for_replacing_is_a_setting(machine: Any) -> None:
    assert machine().runtime().options.replace is Replace.AUTO
    assert machine(replace="any").runtime().options.replace is Replace.ANY


def test_how_long_an_unknown_branch_is_left_alone_is_a_setting(machine: Any, tmp_path: Path) -> None:
    with EmbeddedLake(tmp_path / ".headgate/lake", create=True) as lake:
        ref = lake.create_repository("songs")
        here = machine()
        here.engine.submit("t", {})
        polled = here.engine.poll("t")
        # The execution id holds its time: this one is of the year 2016.
        lake.create_branch("songs", str(StagingName.of(polled, "01AN4Z07BY79KA1307SR9X4MV3")), at=ref)
        with here.engine._db.write() as rows:
            rows.execute("DELETE FROM tasks")
        assert len(here.collect_garbage(dry_run=True).removed) == 1
        patient = machine(gc_unknown_after_hours="1000000")
        assert patient.collect_garbage(dry_run=True).removed == []


def test_a_repository_is_found_by_its_store(machine: Any, tmp_path: Path) -> None:
    with EmbeddedLake(tmp_path / ".headgate/lake", create=True):
        here = machine()
        assert here.lakes.of_repository("songs").store == "songs"
        assert here.lakes.of_repository("another").lake is here.lakes.store("songs").lake


def test_a_repository_that_could_be_in_two_places_is_refused(machine: Any, tmp_path: Path) -> None:
    machine()
    (tmp_path / "headgate.toml").write_text(
        '[stores.one]\nlake = "embedded"\nroot = "one"\nrepository = "r"\n'
        '[stores.two]\nlake = "embedded"\nroot = "two"\nrepository = "r"\n[stores.tables]\ngraph = "t"\n'
    )
    for name in ("one", "two"):
        EmbeddedLake(tmp_path / name, create=True).close()
    with Machine(load(start=tmp_path, environ={}, home=tmp_path).settings) as here:
        with pytest.raises(InvalidInput, match="several stores: one, two"):
            here.lakes.of_repository("r")
        with pytest.raises(NotFound, match="'elsewhere'"):
            here.lakes.of_repository("elsewhere")
        with pytest.raises(InvalidInput, match="is a graph"):
            here.lakes.store("tables")


def test_gc_prunes_what_is_kept_too_long(machine: Any, tmp_path: Path) -> None:
    EmbeddedLake(tmp_path / ".headgate/lake", create=True).close()
    here = machine()
    folder = here.settings.workspace_root / ".failed/01OLD"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text('{"task": "t", "ended_at": "2020-01-01T00:00:00+00:00"}')
    here.collect_garbage(dry_run=True)
    assert folder.exists()
    here.collect_garbage(dry_run=False)
    assert not folder.exists()
    assert not (folder / MARKER).exists()
