"""What the graph believes of Lance's indices: which can be staged with a uuid of ours, and which can not."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    words = [f"word{number} common" for number in range(300)]
    return lance.write_dataset(pa.table({"id": [f"k{n}" for n in range(300)], "text": words}), tmp_path / "t")


def fragments(at: LanceDataset) -> list[int]:
    return [fragment.fragment_id for fragment in at.get_fragments()]


def test_an_ordered_index_is_staged_and_committed_under_our_uuid(table: LanceDataset) -> None:
    index = table.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=fragments(table))
    staged = Transaction(table.version, LanceOperation.CreateIndex(new_indices=[index], removed_indices=[]))
    landed = LanceDataset.commit(table, staged, max_retries=0)
    assert landed.read_transaction(landed.version).uuid == staged.uuid
    assert "ScalarIndexQuery" in landed.scanner(filter="id = 'k7'").explain_plan()
    assert landed.to_table(filter="id = 'k7'")["id"].to_pylist() == ["k7"]


def test_an_uncommitted_index_needs_its_fragments(table: LanceDataset) -> None:
    with pytest.raises((TypeError, ValueError)):
        table.create_index_uncommitted("id", "BTREE", name="id_idx")


def test_full_text_segments_need_the_commit_that_takes_no_uuid(table: LanceDataset) -> None:
    index = table.create_index_uncommitted("text", "INVERTED", name="text_idx", fragment_ids=fragments(table))
    landed = table.commit_existing_index_segments("text_idx", "text", [index])
    found = landed.to_table(full_text_query="word7")
    assert found["id"].to_pylist() == ["k7"]


def test_full_text_segments_committed_as_another_index_is_cannot_be_read(table: LanceDataset) -> None:
    index = table.create_index_uncommitted("text", "INVERTED", name="text_idx", fragment_ids=fragments(table))
    operation = LanceOperation.CreateIndex(new_indices=[index], removed_indices=[])
    landed = LanceDataset.commit(table, Transaction(table.version, operation), max_retries=0)
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        landed.to_table(full_text_query="word7")


def test_rows_added_after_an_index_are_found_through_it(table: LanceDataset) -> None:
    index = table.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=fragments(table))
    operation = LanceOperation.CreateIndex(new_indices=[index], removed_indices=[])
    LanceDataset.commit(table, Transaction(table.version, operation), max_retries=0)
    grown = lance.write_dataset(pa.table({"id": ["new"], "text": ["new"]}), table.uri, mode="append")
    assert grown.to_table(filter="id = 'new'")["id"].to_pylist() == ["new"]
