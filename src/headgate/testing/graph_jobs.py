"""One job for each kind of graph writer: what the crash harness kills. A new kind of writer registers its own here.

    @job(Writer.MUTATE)
    def mutate(graph): graph.mutate(…)

A job starts from `GRAPH` and what its `before` adds, and is judged by what every branch shows: all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate import failpoints
from headgate.failpoints import Failpoint
from headgate.graph.graph import Graph
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.graph.write.task import judged_head, publish_changes, publish_instead
from headgate.graph.write.transaction import Transaction

SCHEMA = """
node Person { name: String @key  age: I32? }
node Note { text: String @key }
edge Knows: Person -> Person { }
"""
GRAPH = """query start() {
  insert Person { name: "ann", age: 1 } insert Person { name: "bob", age: 2 } insert Person { name: "cy", age: 3 }
  insert Note { text: "first" }
  insert Knows { from: "ann", to: "bob" } insert Knows { from: "bob", to: "cy" }
}"""

Step = Callable[[Graph], object]


@dataclass(frozen=True, kw_only=True)
class GraphJob:
    """A write, from a graph with some content."""

    name: str
    writer: Writer
    act: Step
    before: Step
    rolls_forward: bool = True
    """Whether recovery may finish it."""
    gives_up: Step | None = None
    """The write that the writer takes back itself: killed before it has begun to, recovery may finish it."""


JOBS: dict[str, GraphJob] = {}


def _nothing(graph: Graph) -> None:
    return


def job(
    writer: Writer, *, before: Step = _nothing, rolls_forward: bool = True, gives_up: Step | None = None
) -> Callable[[Step], Step]:
    """Register a function as the job of a kind of writer, under its own name."""

    def register(act: Step) -> Step:
        name = act.__name__
        JOBS[name] = GraphJob(
            name=name, writer=writer, act=act, before=before, rolls_forward=rolls_forward, gives_up=gives_up
        )
        return act

    return register


MIXED = """query mixed() {
  insert Person { name: "dee" } update Person set { age: 20 } where name = "bob" delete Person where name = "cy"
  insert Note { text: "second" } insert Knows { from: "dee", to: "ann" }
}"""


@job(Writer.MUTATE)
def mutate(graph: Graph) -> None:
    graph.mutate(MIXED)


@job(Writer.MUTATE)
def mutate_with_publish_id(graph: Graph) -> None:
    graph.mutate(MIXED, publish_id="once")


class _Stopped(Exception):
    pass


def _stop(reached: Failpoint) -> None:
    if reached is Failpoint.GRAPH_TABLES_COMMITTED:
        raise _Stopped


@job(Writer.MUTATE, gives_up=mutate)
def own_roll_back(graph: Graph) -> None:
    failpoints.arm(_stop)
    try:
        graph.mutate(MIXED)
    except _Stopped:
        return
    finally:
        failpoints.arm(None)


_ROWS = [{"type": "Person", "data": {"name": name}} for name in ("eva", "fay")]
_MORE = [{"type": "Note", "data": {"text": "loaded"}}, {"edge": "Knows", "from": "eva", "to": "ann"}]


@job(Writer.LOAD)
def load_append(graph: Graph) -> None:
    graph.load([*_ROWS, *_MORE])


@job(Writer.LOAD)
def load_merge(graph: Graph) -> None:
    graph.load([*_ROWS, {"type": "Person", "data": {"name": "ann", "age": 11}}, *_MORE], mode="merge")


@job(Writer.LOAD)
def load_overwrite(graph: Graph) -> None:
    graph.load(
        [*_ROWS, {"type": "Note", "data": {"text": "only"}}, {"edge": "Knows", "from": "eva", "to": "fay"}],
        mode="overwrite",
    )


@job(Writer.TRANSACTION)
def transaction(graph: Graph) -> None:
    with graph.transaction() as change:
        change.merge("Person", [{"name": "ann", "age": 12}])
        change.delete("Note", ids=["first"])
        change.append("Knows", [{"from": "cy", "to": "ann"}])


@job(Writer.ENSURE_INDICES)
def ensure_indices(graph: Graph) -> None:
    graph.ensure_indices()


CHANGED = """
node Person { name: String @key  years: I32? @rename_from("age")  city: String @default("rome") }
node Remark @rename_from("Note") { text: String @key }
node Tag { word: String @key }
edge Tagged: Person -> Tag { since: Date? }
"""


@job(Writer.SCHEMA)
def schema_change(graph: Graph) -> None:
    """A type and a property renamed, columns filled and added, a type added and one dropped."""
    graph.apply_schema(CHANGED)


def _written_bit_by_bit(graph: Graph) -> None:
    """Small fragments, deleted rows, and indices that do not cover everything."""
    graph.ensure_indices()
    for number in range(4):
        graph.mutate(f'query add() {{ insert Person {{ name: "p{number}" }} insert Note {{ text: "n{number}" }} }}')
    graph.mutate('query less() { delete Person where name = "p1" }')


@job(Writer.OPTIMIZE, before=_written_bit_by_bit)
def optimize(graph: Graph) -> None:
    graph.optimize()


def _drifted(graph: Graph) -> None:
    """A version that no writer has published lies above a pin."""
    base = graph.base()
    at = base.snapshot("Person")
    graph.store.tables.commit(at, graph.store.tables.stage(at, remove=[0]))


@job(Writer.REPAIR, before=_drifted)
def repair(graph: Graph) -> None:
    graph.repair()


def _branched(graph: Graph) -> None:
    """A branch that has written nothing yet."""
    graph.create_branch("side")


@job(Writer.MUTATE, before=_branched)
def first_write_on_a_branch(graph: Graph) -> None:
    graph.mutate(MIXED, branch="side")


def _diverged(graph: Graph) -> None:
    """Two branches that have both changed rows of the same tables, in other places."""
    graph.create_branch("side")
    graph.mutate(MIXED, branch="side")
    graph.mutate('query here() { update Person set { age: 10 } where name = "ann" insert Note { text: "here" } }')


@job(Writer.MERGE, before=_diverged)
def merge(graph: Graph) -> None:
    graph.merge("side")


def _ahead(graph: Graph) -> None:
    """A branch that only inherits what it shows, behind one that has gone on."""
    graph.create_branch("side")
    graph.mutate(MIXED)


@job(Writer.MERGE, before=_ahead)
def merge_into_a_branch_without_tables(graph: Graph) -> None:
    graph.merge("main", "side")


def _changed_schema(graph: Graph) -> None:
    graph.create_branch("side")
    graph.apply_schema(CHANGED, branch="side")
    graph.mutate('query here() { update Person set { age: 10 } where name = "ann" }')


@job(Writer.MERGE, before=_changed_schema)
def merge_of_a_schema(graph: Graph) -> None:
    graph.merge("side")


def _gone_on(graph: Graph) -> None:
    graph.create_branch("side")
    graph.mutate(MIXED)
    graph.mutate(MIXED, branch="side")
    graph.mutate('query more() { insert Note { text: "third" } }')


@job(Writer.REWIND, before=_gone_on)
def rewind(graph: Graph) -> None:
    graph.rewind(list(graph.log())[2].id)


@job(Writer.REWIND, before=_gone_on)
def rewind_of_a_branch(graph: Graph) -> None:
    graph.rewind(list(graph.log("side"))[1].id, branch="side")


# -------- task attempts


def _attempt(graph: Graph, *, input_ref: str, replaces: str = "", changes: bool = True) -> None:
    request = WriteRequest(
        writer=Writer.TASK,
        actor="task:job",
        publish_id="attempt-2" if replaces else "attempt-1",
        replaces=replaces,
        onto=input_ref if replaces else "",
    )
    change = Transaction(graph.store, graph.base(commit=input_ref), request)
    change.append("Person", [{"name": "gil"}])
    change.overwrite("Note", [{"text": "by the task"}])
    judged = judged_head(graph.store, "main", input_ref, ["Person", "Note"])
    try:
        if replaces:
            publish_instead(graph.store, request, change.prepare_on if changes else None, judged)
        else:
            publish_changes(graph.store, request, change.prepare_on, judged)
    finally:
        change.rollback()


@job(Writer.TASK, rolls_forward=False)
def task_publish(graph: Graph) -> None:
    _attempt(graph, input_ref=graph.head().id)


def _abandoned(graph: Graph) -> None:
    """A publication that nobody accepted is the head."""
    graph.mutate('query gone() { update Person set { age: 99 } where name = "ann" insert Note { text: "gone" } }')


@job(Writer.TASK, before=_abandoned, rolls_forward=False)
def replacement(graph: Graph) -> None:
    _attempt(graph, input_ref=graph.head().parent, replaces=graph.head().id)


@job(Writer.TASK, before=_abandoned, rolls_forward=False)
def relocation(graph: Graph) -> None:
    _attempt(graph, input_ref=graph.head().parent, replaces=graph.head().id, changes=False)
