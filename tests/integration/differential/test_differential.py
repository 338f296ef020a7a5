"""The embedded engine does what a Conductor server does: statuses, outputs, retries and waits of the same workflows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.differential.cases import CASES, Case
from tests.integration.differential.drivers import OnConductor, Seen, on_engine
from tests.integration.differential.recorded import recorded
from tools.servers import Server

from headgate.errors import InvalidInput

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def on_server(conductor: Server) -> dict[str, Seen]:
    return OnConductor(conductor.facts["api"]).run(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_engine_ends_where_the_server_ends(case: Case, on_server: dict[str, Seen], tmp_path: Path) -> None:
    ours, theirs = on_engine(case, tmp_path), on_server[case.name]
    assert ours.status == theirs.status
    assert ours.output == theirs.output
    assert ours.attempts == theirs.attempts
    assert theirs == recorded()[case.name], "the server does something else than it did when it was recorded"


def test_what_a_server_takes_and_the_engine_refuses(conductor: Server, tmp_path: Path) -> None:
    """The one difference that is meant: a server runs with null for what is missing, and ignores what is too much."""
    [case] = [case for case in CASES if case.name == "input_template"]
    for name, given in {"missing": {}, "extra": {"x": 1, "z": 2}}.items():
        definition = {**case.definition, "name": f"input_{name}", "inputTemplate": {}}
        if name == "extra":
            definition["inputTemplate"] = {"y": 2}
        other = Case(name=f"input_{name}", definition=definition, given=given)
        assert OnConductor(conductor.facts["api"]).run([other])[other.name].status == "COMPLETED"
        with pytest.raises(InvalidInput, match=f"input of the workflow {other.name} is not valid"):
            on_engine(other, tmp_path)
