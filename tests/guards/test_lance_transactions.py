"""What the graph believes of Lance's transactions. A Lance that changes one of these turns red here, by name."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import write_fragments
from tests.guards.lance_changes import (
    ROWS,
    STAGED,
    append,
    commit,
    delete,
    ids,
    overwrite,
    restore,
    rewrite,
    rows,
    two_fragments,
)


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    return two_fragments(str(tmp_path / "t"))


def test_a_transaction_keeps_the_uuid_it_was_given(table: LanceDataset) -> None:
    staged = append(table, "x")
    staged.uuid = str(uuid.uuid4())
    landed = commit(table, staged)
    assert landed.version == table.version + 1
    assert landed.read_transaction(landed.version).uuid == staged.uuid


def test_one_transaction_removes_rows_by_offset_and_adds_others(table: LanceDataset) -> None:
    commit(table, rewrite(table))
    assert ids(table) == ["a", "c", "d", "x"]


@pytest.mark.parametrize("stale", ["append", "merge", "delete", "rewrite"])
def test_a_stale_transaction_on_other_rows_is_rebased_and_lands(table: LanceDataset, stale: str) -> None:
    staged = STAGED[stale](table)
    commit(table, delete(table, 1, 0))
    assert commit(table, staged).version == table.version + 2


@pytest.mark.parametrize("stale", ["append", "merge", "delete", "rewrite"])
def test_an_overwrite_stops_whatever_was_staged_before(table: LanceDataset, stale: str) -> None:
    staged = STAGED[stale](table)
    commit(table, overwrite(table))
    with pytest.raises(CommitConflictError):
        commit(table, staged)


@pytest.mark.parametrize("residue", [None, *STAGED])
@pytest.mark.parametrize("staged", STAGED)
def test_a_transaction_retargeted_to_the_restored_version_commits_right(
    table: LanceDataset, staged: str, residue: str | None
) -> None:
    alone = commit(lance.dataset(table.uri), STAGED[staged](table)) if residue is None else None
    expected = ids(table) if alone is not None else None
    ours = STAGED[staged](table)
    if residue is not None:
        commit(table, STAGED[residue](table))
    restored = commit(table, restore(table, table.version))
    ours.read_version = restored.version
    landed = commit(restored, ours)
    assert landed.version == restored.version + 1
    wanted = {"append": "abcdx", "merge": "abcdx", "delete": "acd", "rewrite": "acdx", "overwrite": "o"}[staged]
    assert ids(table) == list(wanted)
    assert expected in (None, list(wanted))


def test_an_append_committed_twice_holds_its_rows_twice_under_one_uuid(table: LanceDataset) -> None:
    staged = append(table, "x")
    first = commit(table, staged)
    second = commit(first, staged)
    assert ids(table) == ["a", "b", "c", "d", "x", "x"]
    assert first.read_transaction(first.version).uuid == second.read_transaction(second.version).uuid


def test_an_overwrite_by_nothing_leaves_a_table_that_takes_rows(table: LanceDataset) -> None:
    empty = commit(table, Transaction(table.version, LanceOperation.Overwrite(table.schema, [])))
    assert empty.count_rows() == 0
    commit(empty, append(empty, "x"))
    assert ids(table) == ["x"]


def test_a_drained_reader_writes_nothing_the_second_time(table: LanceDataset) -> None:
    reader = pa.RecordBatchReader.from_batches(ROWS, rows("x", "y").to_batches())
    first = write_fragments(reader, table, mode="append")
    assert sum(fragment.num_rows for fragment in first) == 2
    try:
        again: Any = write_fragments(reader, table, mode="append")
    except (OSError, ValueError):
        return
    assert sum(fragment.num_rows for fragment in again) == 0


def test_cleanup_keeps_fresh_files_that_no_version_names(table: LanceDataset) -> None:
    orphan = write_fragments(rows("x"), table)
    commit(table, append(table, "y"))
    newest = lance.dataset(table.uri)
    newest.cleanup_old_versions(retain_versions=1)
    kept = {path.name for path in (Path(table.uri) / "data").iterdir()}
    assert {file.path for fragment in orphan for file in fragment.files} <= kept


def test_cleanup_ignores_detached_versions(table: LanceDataset) -> None:
    detached = LanceDataset.commit(table, append(table, "x"), detached=True)
    commit(table, append(table, "y"))
    lance.dataset(table.uri).cleanup_old_versions(retain_versions=1)
    assert lance.dataset(table.uri, version=detached.version).version == detached.version
