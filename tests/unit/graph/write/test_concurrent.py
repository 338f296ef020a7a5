"""Several writers of one graph: one of two wins, writers of other tables all land, nothing is lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.graph.conftest import ADD, names

import headgate.graph as hg
from headgate.errors import Conflict, ExpectedVersionMismatch


def together(*actions: Callable[[], object]) -> list[BaseException | None]:
    """Run every action in a thread of its own; what each raised."""
    ended: list[BaseException | None] = [None] * len(actions)
    start = threading.Barrier(len(actions))

    def run(number: int) -> None:
        start.wait()
        try:
            actions[number]()
        except BaseException as error:
            ended[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def test_two_transactions_on_one_table_have_one_winner(graph: hg.Graph) -> None:
    graph.mutate(ADD, {"name": "a", "age": 1})
    first, second = graph.transaction(), graph.transaction()
    first.mutate('query u() { update Person set { age: 2 } where name = "a" }')
    second.mutate('query u() { update Person set { age: 3 } where name = "a" }')
    first.commit()
    with pytest.raises(ExpectedVersionMismatch) as lost:
        second.commit()
    assert lost.value.table == "Person"
    assert isinstance(lost.value.expected, int)
    assert isinstance(lost.value.actual, int)
    assert lost.value.actual > lost.value.expected
    assert graph.base().dataset("Person").to_table()["age"].to_pylist() == [2]


def test_an_edge_and_the_deletion_of_its_end_do_not_both_land(graph: hg.Graph) -> None:
    """Expected versions cover tables that were only read: else two writers leave an edge without its end."""
    graph.mutate('query p() { insert Person { name: "a" } insert Note { text: "t" } }')
    note = graph.base().dataset("Note").to_table()["id"][0].as_py()
    links, removes = graph.transaction(), graph.transaction()
    links.append("Wrote", [{"from": "a", "to": note}])
    removes.delete("Note", ids=[note])
    links.commit()
    with pytest.raises(Conflict):
        removes.commit()
    assert graph.base().rows["Note"] == 1


def test_transactions_on_other_tables_do_not_disturb_each_other(graph: hg.Graph) -> None:
    first, second = graph.transaction(), graph.transaction()
    first.append("Note", [{"text": "t"}])
    second.append("Person", [{"name": "a"}])
    first.commit()
    second.commit()
    assert graph.base().rows["Note"] == graph.base().rows["Person"] == 1


def test_a_transaction_reads_its_base_throughout_and_is_used_once(graph: hg.Graph) -> None:
    change = graph.transaction()
    graph.mutate(ADD, {"name": "later"})
    assert change.read("Person").num_rows == 0
    change.append("Note", [{"text": "t"}])
    change.commit()
    for again in (change.commit, lambda: change.read("Person"), lambda: change.append("Note", [{"text": "u"}])):
        with pytest.raises(Exception, match="this transaction is committed"):
            again()


def test_eight_writers_of_disjoint_tables_all_land_in_one_chain(place: str) -> None:
    tables = [f"T{number}" for number in range(8)]
    hg.init(place, "\n".join(f"node {name} {{ value: I64 @key }}" for name in tables))

    def writer(name: str) -> None:
        with hg.open(place) as mine:
            for value in range(3):
                mine.mutate(f"query w($v: I64) {{ insert {name} {{ value: $v }} }}", {"v": value})

    assert together(*(lambda name=name: writer(name) for name in tables)) == [None] * 8  # type: ignore[misc]
    graph = hg.open(place)
    assert graph.base().rows == dict.fromkeys(tables, 3)
    log = list(graph.log())
    assert len(log) == 1 + 8 * 3
    assert [commit.parent for commit in log] == [commit.id for commit in log[1:]] + [""]
    assert [commit.order for commit in log] == list(range(25, 0, -1))


def test_insert_only_writes_of_one_table_are_prepared_again(place: str, graph: hg.Graph) -> None:
    def writer(number: int) -> None:
        with hg.open(place) as mine:
            for value in range(4):
                mine.mutate('query n() { insert Note { text: "t" } }', publish_id=f"{number}-{value}")

    assert together(*(lambda number=number: writer(number) for number in range(4))) == [None] * 4  # type: ignore[misc]
    assert hg.open(place).base().rows["Note"] == 16


def test_threads_that_share_a_graph_queue_up(graph: hg.Graph) -> None:
    graph.mutate(ADD, {"name": "a", "age": 0})

    def writer() -> None:
        for _ in range(3):
            graph.mutate('query u() { update Person set { age: 7 } where name = "a" }')

    assert together(*[writer] * 4) == [None] * 4
    assert names(graph) == ["a"]
    assert len(list(graph.log())) == 2 + 12


def test_one_publish_id_in_two_writers_is_one_commit(place: str, graph: hg.Graph) -> None:
    commits: list[str] = []

    def writer() -> None:
        with hg.open(place) as mine:
            commits.append(mine.mutate('query n() { insert Note { text: "t" } }', publish_id="same").commit)

    assert together(*[writer] * 4) == [None] * 4
    assert len(set(commits)) == 1
    assert graph.base().rows["Note"] == 1


def changed_schema(place: str) -> None:
    """The schema row of main is written anew, as a schema change writes it."""
    with hg.open(place) as other:
        manifest = other.store.manifest
        state = manifest.state()
        head, schema = state.head("main"), state.schema("main")
        order = head.order + 1
        manifest.merge(state, [replace(head, order=order), replace(schema, order=order)])


def test_a_write_checked_against_an_older_schema_is_a_conflict(place: str, graph: hg.Graph) -> None:
    change = graph.transaction()
    change.append("Note", [{"text": "t"}])
    changed_schema(place)
    with pytest.raises(ExpectedVersionMismatch, match="schema of branch main"):
        change.commit()


def test_a_load_read_under_an_older_schema_is_a_conflict(place: str, graph: hg.Graph) -> None:
    class Rows(list[dict[str, str]]):
        def __getitem__(self, at: object) -> list[dict[str, str]]:  # type: ignore[override]
            changed_schema(place)
            return [{"text": "t"}]

    with pytest.raises(ExpectedVersionMismatch, match="schema of branch main"):
        graph.load(Rows([{"text": "t"}]), type_name="Note")
    assert graph.base().rows["Note"] == 0
