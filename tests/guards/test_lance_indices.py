"""What the graph believes of Lance's indices: which can be staged with a uuid of ours, and which can not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Index, Transaction
from lance.fragment import write_fragments


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


def landed(at: LanceDataset, *indices: Index, removed: tuple[Index, ...] = ()) -> LanceDataset:
    operation = LanceOperation.CreateIndex(new_indices=list(indices), removed_indices=list(removed))
    return LanceDataset.commit(at, Transaction(at.version, operation), max_retries=0)


def words(at: LanceDataset, name: str, over: list[int]) -> Index:
    index = at.create_index_uncommitted("text", "INVERTED", name=name, fragment_ids=over, replace=True)
    at.merge_index_metadata(index.uuid, "INVERTED")
    return replace(index, files=None)


def test_merged_full_text_segments_are_committed_under_our_uuid(table: LanceDataset) -> None:
    done = landed(table, words(table, "words", [0]))
    assert done.to_table(full_text_query="word7")["id"].to_pylist() == ["k7"]


def test_what_full_text_segments_were_made_from_is_not_needed_once_they_are_merged(table: LanceDataset) -> None:
    index = words(table, "words", [0])
    shutil.rmtree(Path(table.uri) / "_indices" / index.uuid / "staging")
    done = lance.dataset(landed(table, index).uri)
    assert done.to_table(full_text_query="word7")["id"].to_pylist() == ["k7"]


def test_an_ordered_and_a_full_text_index_of_one_column_serve_each_its_own(table: LanceDataset) -> None:
    ordered = table.create_index_uncommitted("text", "BTREE", name="text_idx", fragment_ids=[0])
    for both in ((ordered, words(table, "words", [0])), (words(table, "words2", [0]), ordered)):
        done = landed(lance.dataset(table.uri), *both)
        assert "ScalarIndexQuery" in done.scanner(filter="text = 'word7 common'").explain_plan()
        assert done.to_table(full_text_query="word8")["id"].to_pylist() == ["k8"]
        LanceDataset.commit(done, Transaction(done.version, LanceOperation.Restore(1)), max_retries=0)


def test_a_further_segment_joins_an_index_and_one_over_all_takes_its_place(table: LanceDataset) -> None:
    done = landed(table, words(table, "words", [0]))
    grown = lance.write_dataset(pa.table({"id": ["new"], "text": ["fresh"]}), done.uri, mode="append")
    done = landed(grown, words(grown, "words", [1]))
    (index,) = done.describe_indices()
    assert [sorted(segment.fragment_ids) for segment in index.segments] == [[0], [1]]
    assert done.to_table(full_text_query="fresh")["id"].to_pylist() == ["new"]
    old = tuple(
        Index(str(segment.uuid), "words", [1], segment.dataset_version_at_last_update, set(segment.fragment_ids), 0)
        for segment in index.segments
    )
    done = landed(done, words(done, "words", [0, 1]), removed=old)
    (index,) = done.describe_indices()
    assert [sorted(segment.fragment_ids) for segment in index.segments] == [[0, 1]]
    assert done.to_table(full_text_query="fresh")["id"].to_pylist() == ["new"]


def test_rows_of_rewritten_fragments_are_found_though_no_segment_covers_them(table: LanceDataset) -> None:
    index = table.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=[0])
    done = landed(table, index, words(table, "words", [0]))
    new = write_fragments(done.to_table(), done, mode="append")
    operation = LanceOperation.Update(removed_fragment_ids=[0], new_fragments=new)
    done = LanceDataset.commit(done, Transaction(done.version, operation), max_retries=0)
    assert done.to_table(filter="id = 'k7'").num_rows == 1
    assert done.to_table(full_text_query="word7")["id"].to_pylist() == ["k7"]


def test_a_vector_index_needs_a_vector(tmp_path: Path) -> None:
    vectors = pa.array([None], pa.list_(pa.float32(), 2))
    empty = lance.write_dataset(pa.table({"v": vectors}), tmp_path / "v")
    with pytest.raises(RuntimeError, match="KMeans cannot train"):
        empty.create_index_uncommitted("v", "IVF_FLAT", name="v", fragment_ids=[0], num_partitions=1)
