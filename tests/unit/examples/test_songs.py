"""The tasks of the songs example, called as the plain functions they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from examples.songs import tasks as songs

import headgate.graph
from headgate.errors import GuardrailFailed
from headgate.tasks import TaskContext, TaskTerminalError, task_of, tasks_in
from headgate.tasks.context import Progress
from headgate.tasks.loading import load_tasks
from headgate.tasks.taskdef import render, task_defs

ROOT = Path(__file__).parents[3]


def ingest(workspace: Path, **params: Any) -> songs.Ingested:
    return songs.ingest(workspace, songs.IngestParams(**params), TaskContext())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_module_declares_what_the_workflow_runs() -> None:
    names = ["ingest", "features", "features_on_spark", "load_graph", "most_energetic"]
    assert [declared.name for declared in load_tasks("examples.songs.tasks")] == names
    assert [declared.warnings for declared in tasks_in(songs)] == [()] * 5
    assert [made["name"] for made in task_defs(tasks_in(songs))] == sorted(names)
    assert {declared.name: declared.writes for declared in tasks_in(songs)} == {
        "ingest": "workspace",
        "features": "workspace",
        "features_on_spark": "workspace",
        "load_graph": "graph",
        "most_energetic": None,
    }


def test_the_task_defs_beside_it_are_what_it_declares() -> None:
    stored = (ROOT / "examples/songs/taskdefs.json").read_text()
    assert stored == render(task_defs(tasks_in(songs))), (
        "run: headgate extract examples.songs.tasks -o examples/songs/taskdefs.json"
    )


def test_ingest_writes_one_file_a_song(tmp_path: Path) -> None:
    seen: list[Progress] = []
    done = songs.ingest(tmp_path, songs.IngestParams(), TaskContext(on_progress=seen.append))
    assert done.songs == 24 == len(contents(tmp_path)) == len(seen)
    assert done.model_dump()["hours"] == pytest.approx(done.seconds / 3600, abs=0.001)
    assert json.loads((tmp_path / "songs/song-000001.json").read_text())["sampleRate"] == 44100


def test_a_genre_nobody_plays_is_terminal(tmp_path: Path) -> None:
    assert ingest(tmp_path, genres=["jazz"]).songs == 4
    with pytest.raises(TaskTerminalError, match="no song of polka"):
        ingest(tmp_path, genres=["polka"])


def test_a_retry_publishes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ingest(tmp_path / name)
        songs.features(tmp_path / name, songs.FeatureParams())
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_features_compare_songs(tmp_path: Path) -> None:
    ingest(tmp_path)
    spec = task_of(songs.features).workspace
    assert spec is not None
    built = songs.features(tmp_path, songs.FeatureParams())
    assert built.songs == 24
    assert built.mean_energy == pytest.approx(0, abs=0.001)
    assert {song.pace for song in songs.read_features(tmp_path)} == {"slow", "medium", "fast"}
    for guardrail in (*spec.pre, *spec.post):
        guardrail(tmp_path)
    (tmp_path / "features/left.tmp").write_text("")
    with pytest.raises(GuardrailFailed, match=r"left\.tmp"):
        for guardrail in spec.post:
            guardrail(tmp_path)


def test_the_graph_is_loaded_and_asked(tmp_path: Path) -> None:
    ingest(tmp_path)
    songs.features(tmp_path, songs.FeatureParams())
    schema = (ROOT / "examples/songs/schema.pg").read_text()
    with headgate.graph.init(str(tmp_path / "music"), schema) as graph:
        for _ in range(2):  # the second time replaces what is there
            with graph.transaction() as change:
                assert songs.load_graph(tmp_path, change, songs.LoadParams()) == songs.Loaded(artists=6, songs=24)
        with graph.transaction() as change:
            assert change.read("Song").num_rows == 24
            assert change.read("Sings").num_rows == 24
            answer = songs.most_energetic(change, songs.AskParams(top=2))
    assert len(answer.artists) == 2
    assert answer.artists[0].energy >= answer.artists[1].energy
    assert answer.artists[0].songs == 4
