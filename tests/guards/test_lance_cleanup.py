"""What cleanup believes of Lance: exactly the named versions go, and what a fork needs stays."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset


def versions(at: LanceDataset) -> list[int]:
    return [item["version"] for item in at.versions()]


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    """Five versions, each with rows of its own."""
    for number in range(5):
        made = lance.write_dataset(pa.table({"id": [f"v{number}"]}), tmp_path / "t", mode="overwrite")
    return made


def test_only_the_named_versions_go_and_their_files_with_them(table: LanceDataset) -> None:
    done = table.cleanup_old_versions(versions=[2, 4], error_if_tagged_old_versions=False)
    assert versions(table) == [1, 3, 5]
    assert done.data_files_removed == 2
    assert lance.dataset(table.uri, version=3).to_table()["id"].to_pylist() == ["v2"]


def test_the_newest_version_never_goes(table: LanceDataset) -> None:
    table.cleanup_old_versions(versions=[1, 2, 3, 4, 5], error_if_tagged_old_versions=False)
    assert versions(table) == [5]


def test_a_version_that_a_fork_was_made_from_stays_until_the_fork_goes(table: LanceDataset) -> None:
    lance.dataset(table.uri, version=2).create_branch("side", 2)
    table.cleanup_old_versions(versions=[1, 2, 3], error_if_tagged_old_versions=False)
    assert versions(table) == [2, 4, 5]
    fork = lance.dataset(table.uri).checkout_version(("side", None))
    assert fork.to_table()["id"].to_pylist() == ["v1"]
    newest = lance.dataset(table.uri)
    assert list(newest.branches.list()) == ["side"]
    newest.branches.delete("side")
    newest.cleanup_old_versions(versions=[2], error_if_tagged_old_versions=False)
    assert versions(newest) == [4, 5]
