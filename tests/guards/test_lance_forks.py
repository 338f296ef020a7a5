"""What forks rest on: Lance's branches of a table."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from headgate.graph.storage.forks import rebased

ROWS = pa.table({"id": ["a", "b", "c"]})


def landed(table: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    transaction = Transaction(read_version=table.version, operation=operation)
    return LanceDataset.commit(table, transaction, max_retries=0)


def appended(table: LanceDataset, *names: str) -> LanceOperation.BaseOperation:
    return LanceOperation.Append(
        write_fragments(pa.table({"id": list(names)}), table, schema=table.schema, mode="append")
    )


def ids(table: LanceDataset) -> list[str]:
    return sorted(table.to_table()["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    made = lance.write_dataset(ROWS, tmp_path / "t")
    return landed(made, appended(made, "d"))


def test_a_fork_starts_with_the_number_of_the_version_it_is_made_from(table: LanceDataset) -> None:
    fork = table.create_branch("f", table.version)
    assert fork.version == table.version == 2
    assert landed(fork, appended(fork, "e")).version == 3
    assert table.checkout_version(2).latest_version == 2


def test_what_was_staged_before_a_fork_names_its_files_from_where_they_are(table: LanceDataset) -> None:
    gone = table.get_fragment(0).delete_rows([0])
    staged = LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[gone], new_fragments=appended(table, "e").fragments
    )
    fork = table.create_branch("f", table.version)
    assert ids(landed(fork, rebased(staged, fork, ""))) == ["b", "c", "d", "e"]
    assert ids(table) == ["a", "b", "c", "d"]


def test_a_fork_of_a_fork_finds_the_files_of_both(table: LanceDataset) -> None:
    first = table.create_branch("f", table.version)
    first = landed(first, appended(first, "e"))
    staged = appended(first, "g")
    second = first.create_branch("g", first.version)
    assert ids(landed(second, rebased(staged, second, "f"))) == ["a", "b", "c", "d", "e", "g"]


def test_without_that_the_files_are_not_found(table: LanceDataset) -> None:
    staged = appended(table, "e")
    fork = table.create_branch("f", table.version)
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(landed(fork, staged))


def test_a_fork_is_made_before_its_reference(table: LanceDataset, tmp_path: Path) -> None:
    """A maker that dies between the two leaves one that is there, and that cleanup of the table does not know."""
    references = tmp_path / "t" / "_refs"
    references.write_text("in the way")
    with pytest.raises(OSError, match="_refs"):
        table.create_branch("f", table.version)
    references.unlink()
    assert (tmp_path / "t" / "tree" / "f" / "_versions").is_dir()
    with pytest.raises(OSError, match=r".+"):
        table.create_branch("f", table.version)
    assert table.checkout_version(("f", 2)).version == 2


def test_a_fork_that_is_there_is_not_made_again_and_not_harmed(table: LanceDataset) -> None:
    fork = table.create_branch("f", table.version)
    fork = landed(fork, appended(fork, "e"))
    with pytest.raises(OSError, match=r".+"):
        table.create_branch("f", table.version)
    assert ids(table.checkout_version(("f", None))) == ["a", "b", "c", "d", "e"]


def test_a_restore_on_a_fork_is_a_barrier_there(table: LanceDataset) -> None:
    fork = table.create_branch("f", table.version)
    late = Transaction(read_version=2, operation=appended(fork, "late"))
    restored = landed(fork, LanceOperation.Restore(2))
    with pytest.raises(OSError, match=r".+"):
        LanceDataset.commit(fork, late, max_retries=0)
    assert ids(restored) == ["a", "b", "c", "d"]
    assert restored.version == 3
