"""What comparing two versions of a table rests on: names of files, lists of deleted rows, how rows are counted."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction


@pytest.fixture
def less(tmp_path: Path) -> LanceDataset:
    """Ten rows of which two are deleted."""
    whole = lance.write_dataset(pa.table({"k": list(range(10))}), str(tmp_path / "t"))
    fragment = whole.get_fragment(0).delete_rows([2, 5])
    operation = LanceOperation.Delete([fragment], [], "two rows")
    return LanceDataset.commit(whole, Transaction(read_version=whole.version, operation=operation), max_retries=0)


def test_few_deleted_rows_are_a_list_of_offsets(less: LanceDataset) -> None:
    """In any order."""
    deletion = less.get_fragment(0).metadata.deletion_file
    assert deletion is not None
    assert deletion.file_type == "array"
    stored = Path(less.uri) / deletion.path(0)
    assert sorted(pa.ipc.open_file(str(stored)).read_all().column(0).to_pylist()) == [2, 5]


def test_a_fragment_counts_the_rows_that_are_left(less: LanceDataset) -> None:
    assert less.get_fragment(0).take([2, 3, 4], columns=["k"])["k"].to_pylist() == [3, 4, 6]


def test_many_deleted_rows_are_told_by_the_addresses_of_the_others(less: LanceDataset) -> None:
    left = less.scanner(columns=[], fragments=[less.get_fragment(0)], with_row_address=True).to_table()
    assert left["_rowaddr"].to_pylist() == [0, 1, 3, 4, 6, 7, 8, 9]


def test_a_fork_names_the_files_it_inherits_as_they_were(less: LanceDataset) -> None:
    fork = less.create_branch("fork", less.version)
    before, after = less.get_fragment(0).metadata, fork.get_fragment(0).metadata
    assert [file.path for file in after.files] == [file.path for file in before.files]
    assert before.deletion_file is not None
    assert after.deletion_file is not None
    assert (after.deletion_file.read_version, after.deletion_file.id) == (
        before.deletion_file.read_version,
        before.deletion_file.id,
    )
    bases = fork.base_paths()
    assert (bases[after.deletion_file.base_id].name or "") == ""
    child = fork.create_branch("child", ("fork", fork.version))
    assert {base.name for base in child.base_paths().values()} == {None, "fork"}
