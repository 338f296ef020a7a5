"""A publish that fails for good after the tables are committed heals in the same process, for each kind of writer.

And a write that fails in the middle, before any effect, leaves nothing to heal.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate.graph as hg
from headgate import failpoints
from headgate.errors import InvalidInput, OutcomeUnknown, Transient
from headgate.failpoints import Failpoint
from headgate.graph.manifest.table import MergeUnknown
from headgate.testing.graph_crash import Content, content
from headgate.testing.graph_jobs import GRAPH, JOBS, SCHEMA, GraphJob

pytestmark = pytest.mark.usefixtures("disarmed")

NEXT = 'query next() { insert Person { name: "next" } }'
WRITERS = {name: job for name, job in JOBS.items() if job.gives_up is None}


def begun(place: Path, job: GraphJob) -> hg.Graph:
    graph = hg.init(str(place), SCHEMA)
    graph.mutate(GRAPH)
    job.before(graph)
    return graph


FINISHED = {"mutate", "load_append", "load_merge", "load_overwrite", "schema_change", "merge"}
"""Nothing stands in the way of these: recovery finishes them."""
FAILURES: dict[str, Exception] = {
    "unanswered": MergeUnknown("the connection was reset"),
    "refused": Transient(message="the manifest cannot be written"),
}
"""A publish that is never answered leaves its tables as they are; one that fails is taken back as far as it can be."""


def publisher_fails(graph: hg.Graph, job: GraphJob, failure: Exception, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a job whose tables are committed and whose publishes all fail; the commit it has in doubt."""

    def down(*_: object) -> None:
        raise failure

    def cut(reached: Failpoint) -> None:
        if reached is Failpoint.GRAPH_TABLES_COMMITTED:
            monkeypatch.setattr(graph.store.manifest, "merge", down)

    failpoints.arm(cut)
    with pytest.raises(OutcomeUnknown) as unknown:
        job.act(graph)
    failpoints.arm(None)
    monkeypatch.undo()
    return unknown.value.publish_id


def undisturbed(place: Path, job: GraphJob, branch: str, *, act: bool) -> Content:
    """What there is after the next write, with the job done or not."""
    with begun(place, job) as graph:
        if act:
            job.act(graph)
        graph.mutate(NEXT, branch=branch)
        return content(graph)


@pytest.mark.slow
@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("name", WRITERS)
def test_a_publisher_failure_heals_without_reopen(
    tmp_path: Path, name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariants 4 and 6: the next write of the same process finishes or undoes it, and the commit id tells which."""
    job = WRITERS[name]
    with begun(tmp_path / "graph", job) as graph:
        before = content(graph)
        commit = publisher_fails(graph, job, FAILURES[how], monkeypatch)
        assert content(graph) == before
        (left,) = graph.store.sidecars.find()
        branch = left.sidecar.branch
        graph.mutate(NEXT, branch=branch)
        finished = commit in [row.id for row in graph.log(branch)]
        assert finished or not (how == "unanswered" and name in FINISHED)
        assert not finished or job.rolls_forward
        assert content(graph) == undisturbed(tmp_path / "other", job, branch, act=finished)
        assert graph.store.sidecars.find() == []


def test_a_partial_failure_leaves_the_target_usable_and_does_not_block_the_next_write(graph: hg.Graph) -> None:
    """Invariant 1: the first statement is sound, the second is not; no table has moved, not even unseen."""
    graph.mutate('query first() { insert Person { name: "old" } }')
    head, base = graph.head(), graph.base()
    partly = 'query partly() { insert Person { name: "new" } insert Knows { from: "new", to: "nobody" } }'
    with pytest.raises(InvalidInput, match="nobody"):
        graph.mutate(partly)
    assert graph.head() == head
    assert graph.store.sidecars.find() == []
    for row, pin in base.tables.values():
        assert graph.store.tables.head_version(row.path, pin.fork) == pin.version
    assert graph.query("query all() { match { $p: Person } return { $p.name } }").to_dicts() == [{"p.name": "old"}]
    assert graph.mutate('query next() { insert Person { name: "new" } }').changed
    assert sorted(graph.base().dataset("Person").to_table()["name"].to_pylist()) == ["new", "old"]
