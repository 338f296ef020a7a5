"""What schema changes believe of Lance: columns change by one staged transaction, and their numbers are kept."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import write_fragments

from headgate.graph.storage.columns import ColumnChanges, edited_schema

COLUMNS = pa.schema({"id": pa.string(), "a": pa.int32(), "b": pa.string(), "l": pa.list_(pa.string())})


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    """Two fragments, one of them with a deleted row, and an index on `b`."""
    rows = pa.table([["x", "y"], [1, 2], ["p", "q"], [["u"], []]], schema=COLUMNS)
    lance.write_dataset(rows, tmp_path / "t")
    made = lance.write_dataset(
        pa.table([["z", "w"], [3, 4], ["r", "s"], [["v"], None]], schema=COLUMNS), tmp_path / "t", mode="append"
    )
    made = commit(made, LanceOperation.Delete([made.get_fragment(1).delete_rows([1])], [], "w"))
    index = made.create_index_uncommitted("b", "BTREE", name="b_idx", fragment_ids=[0, 1])
    return commit(made, LanceOperation.CreateIndex(new_indices=[index], removed_indices=[]))


def commit(at: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    return LanceDataset.commit(at, Transaction(at.version, operation), max_retries=0)


def numbers(at: LanceDataset) -> dict[str, int]:
    return {field.name(): field.id() for field in at.lance_schema.fields()}


def filled(at: LanceDataset, name: str, value: int) -> LanceOperation.Merge:
    declared = pa.schema([pa.field(name, pa.int64(), nullable=False)])

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([value] * batch.num_rows, pa.int64())], schema=declared)

    written = [fragment.merge_columns(values, columns=["id"]) for fragment in at.get_fragments()]
    return LanceOperation.Merge([fragment for fragment, _ in written], written[0][1])


def edited(at: LanceDataset, *, drop: str = "", rename: tuple[str, str] | None = None) -> LanceOperation.Merge:
    changes = ColumnChanges(renamed=dict([rename]) if rename else {}, dropped=[drop] if drop else [])
    return LanceOperation.Merge([f.metadata for f in at.get_fragments()], edited_schema(at.lance_schema, changes))


def test_an_overwrite_by_nothing_makes_new_numbers(table: LanceDataset, tmp_path: Path) -> None:
    """Why a changed schema is not made on an empty table: the stored bytes would be read by other names."""
    dropped = commit(table, edited(table, drop="a"))
    copy = LanceDataset.commit(tmp_path / "c", LanceOperation.Overwrite(dropped.lance_schema, []))
    assert numbers(copy) != numbers(dropped) == {"id": 0, "b": 2, "l": 3}


def test_nested_columns_are_renamed_and_dropped_whole(table: LanceDataset) -> None:
    renamed = commit(table, edited(table, rename=("l", "x" * 200)))
    assert renamed.to_table()["x" * 200].to_pylist() == [["u"], [], ["v"]]
    dropped = commit(renamed, edited(renamed, drop="x" * 200))
    assert dropped.schema.names == ["id", "a", "b"]
    dropped.validate()


def test_a_filled_column_is_staged_and_no_row_is_written_again(table: LanceDataset) -> None:
    before = {file.path for fragment in table.get_fragments() for file in fragment.metadata.files}
    landed = commit(table, filled(table, "n", 7))
    assert landed.to_table(columns=["id", "a", "b", "n"]).to_pylist() == [
        {"id": "x", "a": 1, "b": "p", "n": 7},
        {"id": "y", "a": 2, "b": "q", "n": 7},
        {"id": "z", "a": 3, "b": "r", "n": 7},
    ]
    assert before < {file.path for fragment in landed.get_fragments() for file in fragment.metadata.files}
    assert not landed.schema.field("n").nullable


def test_a_rename_keeps_data_and_index(table: LanceDataset) -> None:
    landed = commit(table, edited(table, rename=("b", "bb")))
    assert landed.to_table()["bb"].to_pylist() == ["p", "q", "r"]
    assert "ScalarIndexQuery" in landed.scanner(filter="bb = 'q'").explain_plan()
    assert lance.dataset(table.uri, version=table.version).to_table()["b"].to_pylist() == ["p", "q", "r"]


def test_a_drop_takes_the_index_along_and_its_number_is_not_used_again(table: LanceDataset) -> None:
    landed = commit(table, edited(table, drop="b"))
    assert landed.schema.names == ["id", "a", "l"]
    assert landed.describe_indices() == []
    back = commit(landed, filled(landed, "b", 1))
    assert numbers(back)["b"] > numbers(table)["b"]
    assert back.to_table()["b"].to_pylist() == [1, 1, 1]


def test_what_was_staged_before_a_change_of_columns_is_refused(table: LanceDataset) -> None:
    rows = pa.table([["v"], [9], ["v"], [[]]], schema=COLUMNS)
    stale = Transaction(table.version, LanceOperation.Append(write_fragments(rows, table)))
    commit(table, edited(table, rename=("b", "bb")))
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(table, stale, max_retries=0)


@pytest.mark.parametrize("kind", ["columns", "index"])
def test_columns_and_indices_retargeted_to_the_restored_version_commit_right(table: LanceDataset, kind: str) -> None:
    if kind == "columns":
        operation: LanceOperation.BaseOperation = filled(table, "n", 7)
    else:
        index = table.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=[0, 1])
        operation = LanceOperation.CreateIndex(new_indices=[index], removed_indices=[])
    lance.write_dataset(pa.table([["v"], [9], ["v"], [[]]], schema=COLUMNS), table.uri, mode="append")
    restored = commit(table, LanceOperation.Restore(table.version))
    landed = commit(restored, operation)
    assert landed.version == restored.version + 1
    assert landed.to_table(filter="id = 'y'").num_rows == 1
    assert landed.count_rows() == 3
