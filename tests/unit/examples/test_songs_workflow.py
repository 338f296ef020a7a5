"""The songs workflow: it loads, and runs to its end on the embedded parts."""

from __future__ import annotations

from pathlib import Path

from headgate.orchestrators.engine.definitions import read_workflow
from headgate.orchestrators.engine.rules import rule_of
from headgate.orchestrators.engine.runner import run_workflow
from headgate.tasks.loading import load_tasks
from headgate.testing.place import Place

WORKFLOW = Path(__file__).parents[3] / "examples/songs/workflow.json"


def test_the_songs_workflow_publishes_songs_and_features(tmp_path: Path) -> None:
    declarations = {one.name: one for one in load_tasks("examples.songs.tasks", folder=WORKFLOW.parents[2])}
    definition, raw = read_workflow(WORKFLOW, tasks=declarations)
    with Place(tmp_path) as place:
        target = place.new_target()
        block = {"repository": target.repository, "branch": "main", "ref_type": "commit", "ref": target.input_ref}
        rules = {step.name: rule_of(declarations[step.name]) for step in definition.simple}
        started = place.orchestrator.start(raw, {"workspace": block}, rules=rules)
        ended = run_workflow(place.orchestrator, place.runtime, declarations, started)
        assert ended.status == "COMPLETED", ended.reason
        assert ended.output is not None
        head = place.lake.head(target.repository, "main").ref
        assert ended.output["workspace"]["ref"] == head
        assert ended.output["built"]["songs"] == ended.output["ingested"]["songs"] > 0
        assert len(list(place.lake.log(target.repository, head))) == 3
