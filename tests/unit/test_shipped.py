"""The tasks that come with Headgate, in a workflow on the embedded engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import headgate, project

from headgate.errors import Unsupported
from headgate.lake import Changes, EmbeddedLake
from headgate.orchestrators.machine import current_machine
from headgate.shipped import ResolveParams, headgate_resolve

__all__ = ["headgate", "project"]

WORKFLOW = {
    "name": "release",
    "inputParameters": ["from", "to"],
    "tasks": [
        {
            "name": "headgate_resolve",
            "taskReferenceName": "target",
            "inputParameters": {"params": {"on": "${workflow.input.to}"}},
        },
        {
            "name": "headgate_merge",
            "taskReferenceName": "merge",
            "inputParameters": {
                "workspace": "${target.output.result.block}",
                "params": {"source": "${workflow.input.from}"},
            },
        },
    ],
    "outputParameters": {"workspace": "${merge.output.workspace}", "merged": "${merge.output.result.source_ref}"},
}


@pytest.fixture
def lake(project: Path) -> EmbeddedLake:
    (project / "headgate.toml").write_text('[stores.songs]\nlake = "embedded"\n')
    (project / "release.json").write_text(json.dumps(WORKFLOW))
    with EmbeddedLake(project / ".headgate/lake", create=True) as lake:
        first = lake.create_repository("songs")
        lake.create_branch("songs", "draft", at=first)
        lake.commit("songs", "draft", Changes(puts={"song.txt": b"la"}), message="a song")
    return EmbeddedLake(project / ".headgate/lake")


def test_a_workflow_resolves_a_branch_and_merges_another_into_it(
    headgate: Callable[..., Any], lake: EmbeddedLake
) -> None:
    with lake:
        given = '{"from": "draft", "to": "songs@main"}'
        ran = headgate("run", "release.json", "--tasks", "headgate.shipped", "--input", given, "--json")
        assert ran.code == 0, ran.err
        output = json.loads(ran.out)["output"]
        head = lake.head("songs", "main")
        assert output == {
            "workspace": {"repository": "songs", "branch": "main", "ref_type": "commit", "ref": head.ref},
            "merged": lake.head("songs", "draft").ref,
        }
        assert [item.path for item in lake.objects("songs", head.ref)] == ["song.txt"]


@pytest.mark.parametrize(
    ("on", "told"), [("nowhere@main", "no store is called 'nowhere'"), ("songs@gone", "gone"), ("", "params.on")]
)
def test_what_cannot_be_resolved_is_told(headgate: Callable[..., Any], lake: EmbeddedLake, on: str, told: str) -> None:
    with lake:
        ran = headgate("run", "headgate.shipped:headgate_resolve", "--params", json.dumps({"on": on}))
    assert ran.code != 0
    assert told in ran.err


def test_outside_of_a_machine_there_is_nothing_to_resolve() -> None:
    with pytest.raises(Unsupported, match="no machine is open"):
        current_machine()
    with pytest.raises(Unsupported):
        headgate_resolve(ResolveParams(on="songs"))
