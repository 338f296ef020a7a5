"""The steps of the demonstration that publish files to the embedded lake."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from headgate.cli.demo import Stage
from headgate.errors import ExpectedHeadMismatch, HeadgateError
from headgate.lake import MAIN, EmbeddedLake
from headgate.lake.transfer import download
from headgate.lake.workspace import detect_changes
from headgate.publication import Ref

STORE = "songs"
SONGS = (
    {"title": "So What", "artist": "Miles Davis", "seconds": 562},
    {"title": "Naima", "artist": "John Coltrane", "seconds": 261},
    {"title": "Blue Rondo", "artist": "Dave Brubeck", "seconds": 404},
)


def publish(stage: Stage) -> str:
    with _lake(stage) as lake, _tasks(stage) as tasks:
        input_ref = lake.create_repository(STORE)
        params = tasks.IngestParams(songs=SONGS)
        ref = _run_body(lake, input_ref, lambda workspace: tasks.ingest(workspace, params), message="ingest")
        stage.published.append((f"{STORE}@{MAIN}", ref, f"{len(SONGS)} songs"))
        return f"{input_ref[:12]} -> {ref[:12]}: {len(list(lake.objects(STORE, ref)))} files, visible all at once"


def publish_summary(stage: Stage) -> str:
    with _lake(stage) as lake, _tasks(stage) as tasks:
        input_ref = lake.head(STORE, MAIN).ref
        params = tasks.SummaryParams()
        ref = _run_body(lake, input_ref, lambda workspace: tasks.summarise(workspace, params), message="summarise")
        stage.published.append((f"{STORE}@{MAIN}", ref, "and their summary"))
        with lake.open(STORE, ref, "songs/summary.txt") as file:
            return f"{input_ref[:12]} -> {ref[:12]}: {file.read().decode()}"


def refuse(stage: Stage) -> str:
    with _lake(stage) as lake, _tasks(stage) as tasks:
        head = lake.head(STORE, MAIN)
        stale = Ref(stage.published[0][1])
        params = tasks.IngestParams(songs=[{**SONGS[0], "title": "Late"}])
        try:
            _run_body(lake, stale, lambda workspace: tasks.ingest(workspace, params), message="too late")
        except ExpectedHeadMismatch as refused:
            if lake.head(STORE, MAIN) == head:
                return f"refused, and nothing changed: {refused.message}"
        raise HeadgateError(message=f"a publish from {stale} was not refused", hint="this is a fault of Headgate")


def _run_body(lake: EmbeddedLake, input_ref: Ref, body: Any, *, message: str) -> Ref:
    """Download a ref, run a body on it, stage what it changed, and publish that if the head is still that ref."""
    staging = f"staging-{message.replace(' ', '-')}"
    with tempfile.TemporaryDirectory(prefix="headgate-workspace-") as folder:
        workspace = Path(folder)
        baseline = download(lake, STORE, input_ref, into=workspace)
        body(workspace)
        changes = detect_changes(workspace, baseline).changes
        lake.create_branch(STORE, staging, at=input_ref)
        try:
            lake.commit(STORE, staging, changes, message=message)
            return lake.merge(STORE, staging, MAIN, expected_head=input_ref, message=message)
        finally:
            lake.delete_branch(STORE, staging)


@contextmanager
def _lake(stage: Stage) -> Iterator[EmbeddedLake]:
    root = stage.settings.store(STORE).root
    if root is None:
        raise HeadgateError(message=f"the store {STORE} of the demonstration has no folder")
    with EmbeddedLake(root, create=True) as lake:
        yield lake


@contextmanager
def _tasks(stage: Stage) -> Iterator[ModuleType]:
    """The task module of the project, as long as the step takes."""
    sys.path.insert(0, str(stage.folder))
    try:
        yield import_module("tasks")
    finally:
        sys.path.remove(str(stage.folder))
        sys.modules.pop("tasks", None)
