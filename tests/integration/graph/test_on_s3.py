"""Mutations, transactions, concurrent writers and killed ones on S3, as on a folder."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from tests.unit.graph.conftest import ADD, SCHEMA, names
from tests.unit.graph.recovery import test_stopped_writers as stopped
from tests.unit.graph.recovery.test_processes import *  # noqa: F403
from tests.unit.graph.write.test_concurrent import *  # noqa: F403
from tests.unit.graph.write.test_forks import *  # noqa: F403
from tests.unit.graph.write.test_mutations import *  # noqa: F403
from tests.unit.graph.write.test_phases import *  # noqa: F403
from tests.unit.graph.write.test_transactions import *  # noqa: F403

import headgate.graph as hg
from headgate.errors import AlreadyExists, NotFound
from headgate.failpoints import Failpoint
from headgate.graph.storage import Location, open_objects

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("disarmed")]


def test_an_object_is_created_once(place: str) -> None:
    objects = open_objects(Location.parse(place))
    assert objects.put_if_absent("__recovery/main/a.json", b"first")
    assert not objects.put_if_absent("__recovery/main/a.json", b"second")
    assert objects.get("__recovery/main/a.json") == b"first"
    (found,) = objects.list("__recovery/main")
    assert found.name == "__recovery/main/a.json"
    assert abs((objects.now() - found.modified).total_seconds()) < 60
    objects.delete("__recovery/main/a.json")
    objects.delete("__recovery/main/a.json")
    assert objects.get("__recovery/main/a.json") is None
    assert objects.list("__recovery") == []


def test_the_schema_changes_and_upkeep_runs(place: str, graph: hg.Graph) -> None:
    for number in range(4):
        graph.mutate(ADD, {"name": f"p{number}"})
    before = graph.head().parent
    graph.create_branch("side")
    graph.apply_schema(SCHEMA.replace("age: I32?", 'city: String @default("rome")  tall: Bool?  age: I32?'))
    graph.ensure_indices()
    assert graph.optimize().compacted
    graph.mutate(ADD, {"name": "side"}, branch="side")
    assert graph.cleanup(keep=1, older_than=timedelta(0), grace=timedelta(0)).left == []
    assert names(graph) == ["p0", "p1", "p2", "p3"]
    with hg.open(place) as again:
        assert names(again, column="city") == ["rome"] * 4
        assert again.verify().damage == []
        with pytest.raises(NotFound):
            again.snapshot(commit=before)
    assert "side" in graph.base(branch="side").dataset("Person").to_table()["name"].to_pylist()


def test_one_of_two_graphs_at_one_place_is_made(place: str, graph: hg.Graph) -> None:
    with pytest.raises(AlreadyExists):
        hg.init(place, "node A { v: I64 @key }")


@pytest.mark.parametrize("point", stopped.POINTS)
def test_a_killed_writer_is_rolled_forward_or_back(place: str, graph: hg.Graph, point: Failpoint) -> None:
    graph.mutate(ADD, {"name": "old"})
    killed = subprocess.run(
        [sys.executable, "-c", stopped.KILLED, place, point.value, stopped.MIXED], capture_output=True, timeout=60
    )
    assert killed.returncode == -9, killed.stderr.decode()
    assert graph.mutate(ADD, {"name": "next"}).changed
    visible = ["new"] if stopped.VISIBLE_AFTER_KILL[point] else []
    assert names(graph) == sorted(["old", "next", *visible])
    assert open_objects(Location.parse(place)).list("__recovery") == []
