"""`headgate optimize`, `cleanup`, `verify` and `repair` on a graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import graph as graphs
from headgate.cli.graph_upkeep import duration
from headgate.errors import InvalidInput

Run = Callable[..., Any]


@pytest.fixture
def store(project: Path) -> str:
    (project / "headgate.toml").write_text('[stores.music]\ngraph = "./graph"\n')
    with graphs.init(project / "graph", "node Song { title: String @key }") as graph:
        for number in range(5):
            graph.mutate("query q($t: String) { insert Song { title: $t } }", {"t": f"s{number}"})
    return "music"


def test_optimize_tells_what_it_did(store: str, headgate: Run) -> None:
    assert headgate("optimize", store, "--dry-run").out == "would compact main:Song\n"
    assert headgate("optimize", store).out == "compacted main:Song\n"
    assert headgate("optimize", store, "--dry-run").out == "nothing to gain\n"
    assert headgate("optimize", store).out == "nothing to gain\n"
    assert json.loads(headgate("optimize", store, "--json").out)["busy"] == []
    assert headgate("optimize", store, "--branch", "nowhere").code == 4


def test_cleanup_asks_tells_and_can_only_look(store: str, headgate: Run) -> None:
    now = ("--keep", "1", "--older-than", "0", "--grace", "0")
    looked = headgate("cleanup", store, *now, "--dry-run")
    assert "would remove 5 versions of Song" in looked.out
    assert headgate("cleanup", store, *now).code != 0, "it asks first"
    done = headgate("cleanup", store, *now, "--yes")
    assert (done.code, "removed 5 versions of Song" in done.out) == (0, True)
    assert "nothing to remove" in headgate("cleanup", store, *now, "--yes").out
    assert json.loads(headgate("cleanup", store, *now, "--dry-run", "--json").out)["versions"] == {}
    assert len(json.loads(headgate("log", store, "--json").out)) >= 6


@pytest.mark.parametrize(
    "wrong", [("--keep", "0"), ("--older-than", "soon"), ("--older-than", "7"), ("--grace", "-1s")]
)
def test_wrong_input_is_told(store: str, headgate: Run, wrong: tuple[str, str]) -> None:
    shown = headgate("cleanup", store, *wrong, "--yes")
    assert shown.code in (2, 4)
    assert len(list(Path("graph").rglob("*.manifest"))) > 5


def test_lengths_of_time() -> None:
    assert [duration("x", text).total_seconds() for text in ("0", "90s", "30m", "12h", "7d", "2w")] == [
        0, 90, 1800, 43200, 604800, 1209600
    ]  # fmt: skip
    with pytest.raises(InvalidInput):
        duration("x", "1.5h")


def test_verify_tells_that_all_is_whole_or_what_is_wrong(project: Path, store: str, headgate: Run) -> None:
    whole = headgate("verify", store)
    assert (whole.code, whole.out) == (0, "1 branches, 6 commits, 6 versions, 5 rows: all whole\n")
    assert headgate("verify", str(project / "graph")).code == 0
    for path in (project / "graph" / "tables").glob("*/data/*"):
        path.unlink()
    hurt = headgate("verify", store)
    assert (hurt.code, "file: main:Song" in hurt.out) == (8, True)
    assert json.loads(headgate("verify", store, "--json").out)["damage"][0]["what"] == "file"


def test_repair_explains_drift_and_brings_it_back_on_request(project: Path, store: str, headgate: Run) -> None:
    with graphs.open(project / "graph") as graph:
        at = graph.base().snapshot("Song")
        graph.store.tables.commit(at, graph.store.tables.stage(at, remove=[0]))
    shown = headgate("repair", store).out
    assert "main:Song shows version 6 with 5 rows, and the table is at version 7 with 4" in shown
    assert headgate("repair", store, "--confirm", "--yes").out == "main:Song is back at what version 6 shows\n"
    assert headgate("repair", store, "--confirm", "--yes").out == "music: nothing has drifted\n"
