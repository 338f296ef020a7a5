"""DataFrames of one transaction are published in one commit or not at all, whoever checks them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.spark.graphs import files, make_graph, people, rows

from headgate.errors import ExpectedVersionMismatch, InvalidInput, KeyConflict
from headgate.graph.graph import Graph
from headgate.graph.recovery.writers import Writer
from headgate.graph.write.prepared import WriteRequest
from headgate.spark import SparkSessions
from headgate.spark.transaction import SparkTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PERSON = "key string, name string, age int"
Begin = Callable[..., SparkTransaction]


@pytest.fixture(scope="module")
def spark(sparks: SparkSessions) -> SparkSession:
    return sparks.session(jobs="transactions")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with make_graph(tmp_path) as graph:
        graph.load({"Person": people("ann", "bob", "cid"), "City": [{"name": "Oslo"}]})
        graph.load({"Knows": [{"from": "ann", "to": "bob", "since": 1}], "LivesIn": [{"from": "ann", "to": "Oslo"}]})
        yield graph


@pytest.fixture(params=["in process", "by Spark"])
def begin(request: pytest.FixtureRequest, spark: SparkSession, graph: Graph) -> Begin:
    """Begins a transaction whose rows are checked in the one way or the other."""
    limit = 0 if request.param == "by Spark" else 1 << 40

    def made(on: Graph = graph, **options: Any) -> SparkTransaction:
        return SparkTransaction(
            spark, on.store, on.base(), WriteRequest(writer=Writer.TRANSACTION, **options), in_process_rows=limit
        )

    return made


def frame(spark: SparkSession, schema: str, *found: tuple[Any, ...], parts: int = 2) -> DataFrame:
    return (
        spark.createDataFrame(list(found), schema).repartition(parts) if parts > 1 else _in_order(spark, found, schema)
    )


def _in_order(spark: SparkSession, found: tuple[tuple[Any, ...], ...], schema: str) -> DataFrame:
    return spark.createDataFrame(list(found), schema).coalesce(1)


def test_invariant_5_several_frames_are_one_commit(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    before = graph.head().id
    with begin(actor="ada", message="two tables") as tx:
        tx.append("Person", frame(spark, PERSON, ("dan", "Dan", 4), ("eve", "Eve", 5)))
        tx.append("Knows", frame(spark, "src string, dst string", ("dan", "eve"), ("dan", "ann")))
        assert rows(graph, "Person", "key") == [("ann",), ("bob",), ("cid",)]
        assert graph.head().id == before
    head = graph.head()
    assert (head.parent, head.actor, head.message) == (before, "ada", "two tables")
    assert tx.written is not None
    assert tx.written.commit == head.id
    assert rows(graph, "Person", "key", "age")[-2:] == [("dan", 4), ("eve", 5)]
    assert rows(graph, "Knows", "src", "dst") == [("ann", "bob"), ("dan", "ann"), ("dan", "eve")]


def test_a_block_that_fails_publishes_nothing_and_leaves_no_file(
    spark: SparkSession, graph: Graph, begin: Begin
) -> None:
    before, there = graph.head().id, files(graph)
    with pytest.raises(ZeroDivisionError), begin() as tx:
        tx.append("Person", frame(spark, PERSON, ("dan", "Dan", 4)))
        raise ZeroDivisionError
    assert graph.head().id == before
    assert files(graph) == there
    with pytest.raises(InvalidInput, match="rolled back"):
        tx.append("Person", frame(spark, PERSON, ("dan", "Dan", 4)))


def test_merge_replaces_rows_and_the_last_of_several_counts(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    given = [("ann", "first", 1), ("new", "New", 2), ("ann", "last", 3), ("new", "Newer", 4)]
    with begin() as tx:
        tx.merge("Person", frame(spark, PERSON, *given, parts=1))
    assert rows(graph, "Person", "key", "name", "age") == [
        ("ann", "last", 3),
        ("bob", "name of bob", 30),
        ("cid", "name of cid", 30),
        ("new", "Newer", 4),
    ]


def test_edges_without_a_key_are_merged_by_their_ends(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    [(known,)] = rows(graph, "Knows", "id")
    given = [("ann", "bob", 5), ("bob", "cid", 6), ("ann", "bob", 7)]
    with begin() as tx:
        tx.merge("Knows", frame(spark, "src string, dst string, since int", *given, parts=1))
    assert rows(graph, "Knows", "src", "dst", "since") == [("ann", "bob", 7), ("bob", "cid", 6)]
    assert (known, 7) in rows(graph, "Knows", "id", "since")


def test_overwrite_is_the_new_image(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    with begin() as tx:
        tx.overwrite("Person", frame(spark, PERSON, ("ann", "Ann", 1), ("bob", "Bob", 2)))
    assert rows(graph, "Person", "key", "age") == [("ann", 1), ("bob", 2)]
    with pytest.raises(InvalidInput, match="break the schema's rules") as raised, begin() as tx:
        tx.overwrite("Person", frame(spark, PERSON, ("ann", "Ann", 1)))
    [problem] = raised.value.problems
    assert "would be left without its dst Person bob" in problem.message
    assert rows(graph, "Person", "key", "age") == [("ann", 1), ("bob", 2)]


def test_a_deleted_node_takes_its_edges_along(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    with begin() as tx:
        tx.delete("Person", frame(spark, "key string", ("ann",), ("nobody",)))
        tx.append("Knows", frame(spark, "src string, dst string", ("bob", "cid")))
    assert rows(graph, "Person", "key") == [("bob",), ("cid",)]
    assert rows(graph, "Knows", "src", "dst") == [("bob", "cid")]
    assert rows(graph, "LivesIn", "src") == []


def test_rows_are_deleted_by_id(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    [(known,)] = rows(graph, "Knows", "id")
    with begin() as tx:
        tx.delete("Knows", frame(spark, "id string", (known,)))
    assert rows(graph, "Knows", "id") == []
    with begin() as tx:
        tx.delete("Knows", frame(spark, "id string", (known,)))
    assert tx.written is not None
    assert not tx.written.changed


REFUSED = {
    "given twice": (
        [("append", "Person", PERSON, [("dan", "", 1), ("dan", "", 2)])],
        r"given more than once",
    ),
    "taken": (
        [("append", "Person", PERSON, [("ann", "", 1), ("bob", "", 1)])],
        r"there is a Person (ann|bob) already",
    ),
    "dangling": (
        [("append", "Knows", "src string, dst string", [("ann", "zed"), ("zed", "bob"), ("ann", "bob")])],
        r"names Person zed, which does not exist",
    ),
    "an end that is deleted": (
        [
            ("delete", "Person", "key string", [("cid",)]),
            ("append", "Knows", "src string, dst string", [("bob", "cid")]),
        ],
        r"names Person cid, which does not exist",
    ),
    "not unique": (
        [
            (
                "append",
                "Person",
                "key string, mail string",
                [("dan", "a@b"), ("eve", "a@b"), ("fox", None), ("gus", None)],
            )
        ],
        r"mail a@b",
    ),
    "too many edges": (
        [
            ("append", "City", "name string", [("Rome",)]),
            ("append", "LivesIn", "src string, dst string", [("ann", "Rome")]),
        ],
        r"Person ann would have more than 1 LivesIn",
    ),
    "one row in two writes": (
        [("merge", "Person", PERSON, [("ann", "", 1)]), ("merge", "Person", PERSON, [("ann", "", 2)])],
        r"(touch the same rows|more than one write)",
    ),
    "written and deleted": (
        [("merge", "Person", PERSON, [("ann", "", 1)]), ("delete", "Person", "key string", [("ann",)])],
        r"(touch the same rows|more than one write)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invariant_9_a_refused_write_is_told_and_changes_nothing(
    spark: SparkSession, graph: Graph, begin: Begin, case: str
) -> None:
    writes, told = REFUSED[case]
    before, there = graph.head().id, files(graph)
    with pytest.raises((InvalidInput, KeyConflict)) as raised, begin() as tx:
        for how, name, schema, given in writes:
            getattr(tx, how)(name, frame(spark, schema, *given))
    problems = getattr(raised.value, "problems", ())
    text = "; ".join([raised.value.message, *(problem.message for problem in problems)])
    assert re.search(told, text), text
    assert graph.head().id == before
    assert files(graph) == there


def test_a_unique_value_may_move_to_another_row_in_one_write(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    mails = "key string, mail string"
    with begin() as tx:
        tx.merge("Person", frame(spark, mails, ("ann", "a@b"), ("bob", "b@b")))
    with begin() as tx:
        tx.merge("Person", frame(spark, mails, ("ann", "b@b"), ("bob", "a@b")))
    assert rows(graph, "Person", "key", "mail")[:2] == [("ann", "b@b"), ("bob", "a@b")]
    with pytest.raises(InvalidInput), begin() as tx:
        tx.merge("Person", frame(spark, mails, ("cid", "a@b")))


def test_bad_values_are_told_with_their_rows(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    there = files(graph)
    with pytest.raises(InvalidInput, match="3 rows do not fit Person") as raised, begin() as tx:
        tx.append("Person", frame(spark, PERSON, ("a", "", 200), ("b", "", -1), (None, "", 1), ("ok", "", 1)))
    assert len(raised.value.problems) == 3
    assert files(graph) == there


def test_all_wrong_columns_are_told_before_any_job(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    group = "columns"
    spark.sparkContext.setJobGroup(group, group)
    with pytest.raises(InvalidInput) as raised, begin() as tx:
        tx.append("Person", spark.createDataFrame([("ann", "x", 1)], "nmae string, age string, keys int"))
    assert [problem.where for problem in raised.value.problems] == ["nmae", "age", "keys", "key"]
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(group) == []
    with pytest.raises(InvalidInput, match="removed by id, or by key"), begin() as tx:
        tx.delete("Person", spark.createDataFrame([("ann",)], "name string"))


def test_two_kinds_of_write_of_one_type(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    with pytest.raises(InvalidInput, match="overwritten and written in another way"), begin() as tx:
        tx.append("Person", frame(spark, PERSON, ("dan", "", 1)))
        tx.overwrite("Person", frame(spark, PERSON, ("ann", "", 1)))


def test_appends_of_one_type_in_two_calls(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    with begin() as tx:
        tx.append("Person", frame(spark, PERSON, ("dan", "", 1)))
        tx.append("Person", frame(spark, PERSON, ("eve", "", 1)))
    assert len(rows(graph, "Person", "key")) == 5


def test_what_is_published_was_computed_once(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    """A DataFrame that gives other rows each time it is computed is checked as it was staged."""
    given = spark.range(50).selectExpr("uuid() AS key")
    with begin() as tx:
        tx.append("Person", given)
        tx.append("Knows", tx.read("Person").selectExpr("key AS src", "'bob' AS dst"))
    assert len(rows(graph, "Person", "key")) == 53
    assert len(rows(graph, "Knows", "src")) == 4


def test_a_frame_may_read_the_table_it_overwrites(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    with begin() as tx:
        older = tx.read("Person", columns=["key", "name", "age"]).selectExpr("key", "name", "age + 1 AS age")
        tx.overwrite("Person", older)
    assert rows(graph, "Person", "key", "age") == [("ann", 31), ("bob", 31), ("cid", 31)]


def test_appends_that_lost_a_race_are_prepared_again(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    with begin() as tx:
        tx.append("Person", frame(spark, PERSON, ("dan", "", 1)))
        graph.load({"Person": people("eve")})
    assert [key for (key,) in rows(graph, "Person", "key")] == ["ann", "bob", "cid", "dan", "eve"]
    with pytest.raises(KeyConflict), begin() as tx:
        tx.append("Person", frame(spark, PERSON, ("fox", "", 1)))
        graph.load({"Person": people("fox")})


def test_an_overwrite_that_lost_a_race_is_a_conflict(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    with pytest.raises(ExpectedVersionMismatch), begin() as tx:
        tx.overwrite("City", frame(spark, "name string", ("Oslo",), ("Rome",)))
        graph.load({"City": [{"name": "Lima"}]})
    assert rows(graph, "City", "name") == [("Lima",), ("Oslo",)]


def test_a_publish_id_is_published_once(spark: SparkSession, graph: Graph, begin: Begin) -> None:
    first = begin(publish_id="batch-1")
    first.append("Person", frame(spark, PERSON, ("dan", "", 1)))
    done = first.commit()
    there = files(graph)
    with begin(publish_id="batch-1") as again:
        again.append("Person", frame(spark, PERSON, ("dan", "", 1)))
    assert again.written is not None
    assert again.written.repeated
    assert again.written.commit == done.commit
    assert files(graph) == there


def test_graph_transaction_takes_a_session(spark: SparkSession, graph: Graph) -> None:
    with graph.transaction(spark, message="by the front door") as tx:
        tx.append("City", frame(spark, "name string", ("Rome",)))
    assert graph.head().message == "by the front door"
    assert rows(graph, "City", "name") == [("Oslo",), ("Rome",)]


SEED = 11
NAMES, CITIES = [f"p{number}" for number in range(8)], ["c0", "c1", "c2"]


def _random_writes(random: Random) -> list[tuple[str, str, str, list[tuple[Any, ...]]]]:
    """Writes of two types: some of them break a rule, some replace or remove what earlier ones wrote."""
    made = {
        "Person": (
            "key string, age int, mail string",
            [
                (key, random.randint(0, 9), random.choice([None, None, None, "m1", "m2"]))
                for key in random.sample(NAMES, 3)
            ],
        ),
        "City": ("name string", [(name,) for name in random.sample(CITIES, 2)]),
        "Knows": ("src string, dst string", [tuple(random.sample(NAMES, 2)) for _ in range(3)]),
        "LivesIn": ("src string, dst string", [(name, random.choice(CITIES)) for name in random.sample(NAMES, 2)]),
        "Owns": ("src string, dst string, deed string", [(random.choice(NAMES), "c0", f"d{random.randint(0, 5)}")]),
    }
    keys = {"Person": 0, "City": 0, "Owns": 2}
    writes = []
    for name in random.sample(list(made), 2):
        ddl, given = made[name]
        how = random.choice(["append", "merge", "merge", "merge", "overwrite", *(["delete"] if name in keys else [])])
        if how == "delete":
            place = keys[name]
            ddl, given = ddl.split(", ")[place], [(row[place],) for row in given]
        writes.append((how, name, ddl, given))
    return writes


def test_both_ways_of_checking_agree(spark: SparkSession, tmp_path: Path) -> None:
    """The same writes into two graphs, one checked by Spark and one in process: refused alike, and equal after."""
    random, outcomes = Random(SEED), set()
    columns = {
        "Person": ["key", "age", "mail"],
        "Knows": ["src", "dst"],
        "LivesIn": ["src", "dst"],
        "Owns": ["src", "dst", "deed"],
        "City": ["name"],
    }
    with make_graph(tmp_path, name="one") as one, make_graph(tmp_path, name="other") as other:
        for graph in (one, other):
            graph.load({"Person": people(*NAMES), "City": [{"name": name} for name in CITIES]})
        for _ in range(8):
            writes = _random_writes(random)
            ends = [_outcome(spark, graph, writes, limit) for graph, limit in ((one, 0), (other, 1 << 40))]
            assert ends[0] == ends[1], writes
            outcomes.add(ends[0])
            for name, wanted in columns.items():
                assert sorted(map(str, rows_of(one, name, wanted))) == sorted(map(str, rows_of(other, name, wanted)))
    assert outcomes == {"published", "refused"}


def _outcome(spark: SparkSession, graph: Graph, writes: list[Any], limit: int) -> str:
    request = WriteRequest(writer=Writer.TRANSACTION)
    try:
        with SparkTransaction(spark, graph.store, graph.base(), request, in_process_rows=limit) as tx:
            for how, name, ddl, given in writes:
                getattr(tx, how)(name, frame(spark, ddl, *given, parts=1))
    except (InvalidInput, KeyConflict):
        return "refused"
    return "published"


def rows_of(graph: Graph, name: str, columns: list[str]) -> list[tuple[Any, ...]]:
    found = graph.snapshot().table(name).to_table(columns=columns).to_pylist()
    return [tuple(row.values()) for row in found]
