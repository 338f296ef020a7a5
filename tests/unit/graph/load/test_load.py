"""Loads: every format, every mode; a bad row is named with its place, and then nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.graph.conftest import names

import headgate.graph as hg
from headgate.errors import ExpectedVersionMismatch, InvalidInput, NotFound, Unsupported
from headgate.graph.load import loader, sources


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records))
    return path


def person(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **more}}


def knows(src: str, dst: str, **data: Any) -> dict[str, Any]:
    return {"edge": "Knows", "from": src, "to": dst, "data": data}


def rows(graph: hg.Graph, type_name: str) -> list[dict[str, Any]]:
    return graph.base().dataset(type_name).to_table().to_pylist()


def data_files(place: str) -> int:
    return len(list(Path(place).glob("tables/*/data/*")))


def test_jsonl_holds_nodes_and_edges_in_any_order(graph: hg.Graph, tmp_path: Path) -> None:
    """Invariant 5: nodes and edges of one load are one commit."""
    before = graph.head().order
    source = lines(tmp_path / "d.jsonl", knows("a", "b", since="2020-01-31"), person("a", age=3), "", person("b"))
    loaded = graph.load(source)
    assert loaded.rows == {"Knows": 1, "Person": 2}
    assert graph.head().order == before + 1
    assert [(row["src"], row["dst"], str(row["since"])) for row in rows(graph, "Knows")] == [("a", "b", "2020-01-31")]


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "table", "reader", "rows"])
def test_every_format_gives_the_same_rows(graph: hg.Graph, tmp_path: Path, kind: str) -> None:
    table = pa.table({"name": ["a", "b"], "age": pa.array([3, None], pa.int64())})
    source: Any = tmp_path / f"person.{kind}"
    if kind == "csv":
        source.write_text("name,age\na,3\nb,\n")
    elif kind == "parquet":
        pq.write_table(table, source)
    elif kind == "arrow":
        with pa.ipc.new_file(source, table.schema) as writer:
            writer.write_table(table)
    elif kind == "table":
        source = table
    elif kind == "reader":
        source = table.to_reader()
    else:
        source = table.to_pylist()
    graph.load(source, type_name=None if isinstance(source, Path) else "Person")
    assert {row["id"]: row["age"] for row in rows(graph, "Person")} == {"a": 3, "b": None}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{not json", "is not JSON"),
        ("[1]", "must be an object"),
        ({"type": "Persn", "data": {}}, "there is no type Persn; did you mean Person?"),
        ({"type": "Person", "data": {"name": "x", "nope": 1}}, "Person has no property nope"),
        ({"type": "Person", "data": {}}, "name is required"),
        (person("x", age="old"), "age must be I32"),
        (person("x", age=151), "outside 0..150"),
        ({"type": "Knows", "data": {}}, 'Knows is written with "edge"'),
        ({"edge": "Knows", "from": "ok"}, 'an edge needs "from" and "to"'),
        (knows("ok", "nobody"), "dst names Person nobody"),
        (knows("ok", "ok", since="2020-02-30"), "there is no such date"),
        (person("ok"), "Person ok is given more than once"),
        (person("old"), "there is a Person old already"),
    ],
)
def test_a_bad_row_is_named_by_its_line_and_stops_the_load(
    place: str, graph: hg.Graph, tmp_path: Path, line: Any, told: str
) -> None:
    """Invariant 9: the place and the reason, and nothing is written."""
    graph.load([person("old")])
    head, files = graph.head(), data_files(place)
    with pytest.raises(InvalidInput) as refused:
        graph.load(lines(tmp_path / "d.jsonl", person("ok"), line))
    (problem,) = [found for found in refused.value.problems if found.where == "d.jsonl:2"]
    assert told in problem.message
    assert graph.head() == head
    assert data_files(place) == files
    assert graph.load([person("next")]).changed


def test_every_rejected_row_is_told(graph: hg.Graph, tmp_path: Path) -> None:
    source = lines(tmp_path / "d.jsonl", *(person(f"p{number}", age=-number) for number in range(300)))
    with pytest.raises(InvalidInput, match="299 rows were rejected") as refused:
        graph.load(source, rejects=tmp_path / "rejected.jsonl")
    assert len(refused.value.problems) == 100
    told = [json.loads(line) for line in (tmp_path / "rejected.jsonl").read_text().splitlines()]
    assert [found["where"] for found in told] == [f"d.jsonl:{number}" for number in range(2, 301)]


def test_a_line_that_is_too_long_is_rejected_and_the_next_is_read(
    graph: hg.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LONGEST_LINE", 200)
    source = lines(tmp_path / "d.jsonl", person("x" * 500), person("y", age=-1))
    with pytest.raises(InvalidInput) as refused:
        graph.load(source)
    assert [problem.where for problem in refused.value.problems] == ["d.jsonl:1", "d.jsonl:2"]


def test_in_merge_the_last_row_of_an_id_wins(graph: hg.Graph) -> None:
    graph.load([person("a", age=1), person("b", age=1)])
    graph.load([person("a", age=2), person("c", age=2), person("a", age=3)], mode="merge")
    assert {row["id"]: row["age"] for row in rows(graph, "Person")} == {"a": 3, "b": 1, "c": 2}


def test_in_merge_an_edge_without_a_key_is_known_by_its_ends(graph: hg.Graph) -> None:
    graph.load([person("a"), person("b"), knows("a", "b", since="2020-01-01")])
    before = rows(graph, "Knows")[0]["id"]
    graph.load(
        [knows("a", "b", since="2021-01-01"), knows("a", "b", since="2022-01-01"), knows("b", "a")], mode="merge"
    )
    found = {(row["src"], row["dst"]): (row["id"], row["since"]) for row in rows(graph, "Knows")}
    assert len(found) == graph.base().rows["Knows"] == 2
    assert found["a", "b"][0] == before
    assert str(found["a", "b"][1]) == "2022-01-01"


def test_merge_across_many_parts(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sources, loader):
        monkeypatch.setattr(module, "CHUNK_ROWS" if module is sources else "PART_ROWS", 7)
    people = [{"name": f"p{number % 20}", "age": number} for number in range(60)]
    graph.load(pa.Table.from_pylist(people), type_name="Person", mode="merge")
    assert {row["id"]: row["age"] for row in rows(graph, "Person")} == {f"p{n}": 40 + n for n in range(20)}


def test_overwrite_replaces_all_rows_of_the_types_it_holds(graph: hg.Graph) -> None:
    graph.load([person("a"), person("b"), {"type": "Note", "data": {"text": "t"}}])
    graph.load([person("c")], mode="overwrite")
    assert names(graph) == ["c"]
    assert graph.base().rows["Note"] == 1


def test_an_overwrite_that_leaves_edges_without_an_end_is_refused(graph: hg.Graph) -> None:
    graph.load([person("a"), person("b"), knows("a", "b")])
    with pytest.raises(InvalidInput, match="would be left without its dst Person b"):
        graph.load([person("a")], mode="overwrite")
    graph.load([person("a"), person("c"), knows("a", "c")], mode="overwrite")
    assert [(row["src"], row["dst"]) for row in rows(graph, "Knows")] == [("a", "c")]


def test_overwrite_to_empty(graph: hg.Graph) -> None:
    graph.load([person("a")])
    with graph.transaction() as change:
        change.overwrite("Person", [])
    assert graph.base().rows["Person"] == 0
    graph.load([person("b")])
    assert names(graph) == ["b"]


def test_an_empty_file_is_told(graph: hg.Graph, tmp_path: Path) -> None:
    for name in ("d.jsonl", "person.csv"):
        (tmp_path / name).write_text("")
        with pytest.raises(InvalidInput, match="holds no rows"):
            graph.load(tmp_path / name)


def test_a_file_that_says_no_type_is_told(graph: hg.Graph, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("name\na\n")
    with pytest.raises(InvalidInput, match="does not say which type"):
        graph.load(tmp_path / "x.csv")
    with pytest.raises(Unsupported, match="no known format"):
        graph.load(tmp_path / "x.txt")
    with pytest.raises(NotFound, match="there is no file"):
        graph.load(tmp_path / "x.jsonl")


def test_a_load_is_done_once_per_publish_id(place: str, graph: hg.Graph) -> None:
    first = graph.load([{"type": "Note", "data": {"text": "t"}}], publish_id="p")
    files = data_files(place)
    again = graph.load([{"type": "Note", "data": {"text": "t"}}], publish_id="p")
    assert again.repeated
    assert again.commit == first.commit
    assert graph.base().rows["Note"] == 1
    assert data_files(place) == files


def test_a_large_load_indexes_what_it_loaded(graph: hg.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.graph import graph as module

    monkeypatch.setattr(module, "INDEXED_FROM", 50)
    graph.load(pa.table({"name": [f"p{number}" for number in range(60)]}), type_name="Person")
    assert "id_idx" in [index.name for index in graph.base().dataset("Person").describe_indices()]
    assert not graph.head().content
    graph.load([person("more")])
    assert graph.base().rows["Person"] == 61


def test_a_load_is_done_even_if_writers_keep_its_indices_away(
    graph: hg.Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error would make its caller load it again."""

    def lost(*_: object, **__: object) -> None:
        raise ExpectedVersionMismatch(message="others were first")

    monkeypatch.setattr("headgate.graph.upkeep.indices.write", lost)
    monkeypatch.setattr("headgate.graph.graph.INDEXED_FROM", 1)
    assert graph.load([person("a")]).changed
    assert "was not indexed: others were first" in caplog.text
