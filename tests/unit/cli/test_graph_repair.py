"""`headgate repair` and `headgate log --actor` on a graph, and how long publish ids are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.graph.recovery.test_faults_everywhere import left_by_a_dead_writer

import headgate.graph as hg
from headgate.failpoints import Failpoint

Run = Callable[..., Any]
SCHEMA = "node Person { name: String @key  age: I32? }\nnode Note { text: String }"


@pytest.fixture
def music(project: Path) -> str:
    (project / "headgate.toml").write_text('[stores.music]\ngraph = "./graph"\n')
    hg.init(project / "graph", SCHEMA).close()
    return "music"


def left_behind(project: Path, monkeypatch: pytest.MonkeyPatch, point: Failpoint) -> Path:
    left_by_a_dead_writer(str(project / "graph"), point, monkeypatch)
    (found,) = (project / "graph" / "__recovery").rglob("*.json")
    return found


def name_of(project: Path, sidecar: Path) -> str:
    return sidecar.relative_to(project / "graph").as_posix()


def test_a_graph_without_unfinished_writes(music: str, headgate: Run) -> None:
    assert "no write is unfinished" in headgate("repair", music).out


def test_a_pending_write_is_told_and_not_set_aside(
    music: str, project: Path, headgate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = left_behind(project, monkeypatch, Failpoint.GRAPH_TABLES_COMMITTED)
    (told,) = json.loads(headgate("repair", music, "--json").out)["sidecars"]
    assert (told["state"], told["actor"], told["writer"]) == ("pending", "victim", "mutate")
    refused = headgate("repair", music, "--set-aside", name_of(project, sidecar), "--yes")
    assert refused.code != 0
    assert "can be read" in refused.err
    assert sidecar.exists()


def test_a_sidecar_that_cannot_be_read_is_set_aside_on_request(
    music: str, project: Path, headgate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = left_behind(project, monkeypatch, Failpoint.GRAPH_TABLES_COMMITTED)
    sidecar.write_text("{")
    add = ["graph", "mutate", music, "--text", 'query n() { insert Person { name: "next" } }']
    refused = headgate(*add)
    assert refused.code != 0
    assert f"--set-aside {name_of(project, sidecar)}" in refused.err
    assert json.loads(headgate("repair", music, "--json").out)["sidecars"][0]["state"] == "unreadable"
    assert headgate("graph", "sql", music, 'select count(*) from "Person"').code == 0
    assert headgate("repair", music, "--set-aside", name_of(project, sidecar), "--yes").code == 0
    assert not sidecar.exists()
    (kept,) = (project / "graph" / "__aside").rglob("*.json.*")
    assert kept.read_text() == "{"
    assert headgate(*add).code == 0
    found = headgate("graph", "sql", music, 'select name from "Person"', "--json")
    assert json.loads(found.out)["rows"] == [{"name": "next"}]


def test_a_sidecar_that_is_not_there(music: str, headgate: Run) -> None:
    assert headgate("repair", music, "--set-aside", "__recovery/main/none.json", "--yes").code != 0


@pytest.mark.parametrize(
    ("point", "kind"),
    [(Failpoint.GRAPH_TABLES_COMMITTED, "roll_forward"), (Failpoint.GRAPH_SIDECAR_CREATED, "roll_back")],
)
def test_log_lists_recoveries(
    music: str, project: Path, headgate: Run, monkeypatch: pytest.MonkeyPatch, point: Failpoint, kind: str
) -> None:
    left_behind(project, monkeypatch, point)
    hg.open(project / "graph").close()
    (commit,) = json.loads(headgate("log", music, "--actor", "headgate:recovery", "--json").out)
    assert commit["metadata"]["recovery_kind"] == kind
    assert commit["metadata"]["recovery_for_actor"] == "victim"


def test_how_long_a_publish_id_is_known_is_a_setting(music: str, project: Path, headgate: Run) -> None:
    (project / "rows.jsonl").write_text('{"type": "Note", "data": {"text": "a"}}\n')
    load = ["graph", "load", music, "rows.jsonl", "--publish-id", "once"]

    def rows() -> int:
        found = headgate("graph", "sql", music, 'select count(*) as n from "Note"', "--json")
        return int(json.loads(found.out)["rows"][0]["n"])

    for _ in range(2):
        assert headgate(*load).code == 0
    assert rows() == 1
    text = (project / "headgate.toml").read_text()
    (project / "headgate.toml").write_text(text + "[graph]\npublish_ids_days = 1e-9\n")
    assert headgate(*load).code == 0
    assert rows() == 2
