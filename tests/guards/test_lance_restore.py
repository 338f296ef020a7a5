"""A Restore against every kind of concurrent commit, in both orders: what recovery rests on.

After a Restore nothing that was begun before it gets in: it is a barrier. A Restore itself lands over anything, so it
may only ever bring back what the manifest shows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from tests.guards.lance_changes import STAGED, commit, ids, restore, rows, two_fragments

from headgate.graph.storage.lance_errors import LanceProblem, classify

Begun = Callable[[], LanceDataset]
"""A change whose version and files are chosen, up to its commit."""


def fragments(at: LanceDataset) -> list[int]:
    return [fragment.fragment_id for fragment in at.get_fragments()]


def index(at: LanceDataset) -> Transaction:
    made = at.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=fragments(at))
    return Transaction(at.version, LanceOperation.CreateIndex(new_indices=[made], removed_indices=[]))


def new_column(at: LanceDataset) -> Transaction:
    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"extra": pa.array([1] * batch.num_rows)})

    changed = [fragment.merge_columns(values, columns=["id"]) for fragment in at.get_fragments()]
    return Transaction(at.version, LanceOperation.Merge([fragment for fragment, _ in changed], changed[0][1]))


def same_fragments(at: LanceDataset) -> Transaction:
    kept = [fragment.metadata for fragment in at.get_fragments()]
    return Transaction(at.version, LanceOperation.Merge(kept, at.lance_schema))


def text_segments(at: LanceDataset) -> Begun:
    made = at.create_index_uncommitted("id", "INVERTED", name="text_idx", fragment_ids=fragments(at))

    def begun() -> LanceDataset:
        at.commit_existing_index_segments("text_idx", "id", [made])
        return at

    return begun


def compaction(at: LanceDataset) -> Begun:
    def begun() -> LanceDataset:
        at.optimize.compact_files()
        return at

    return begun


def folded_index(at: LanceDataset) -> Begun:
    def begun() -> LanceDataset:
        at.optimize.optimize_indices()
        return at

    return begun


def staged(stage: Callable[[LanceDataset], Transaction]) -> Callable[[LanceDataset], Begun]:
    def begin(at: LanceDataset) -> Begun:
        transaction = stage(at)
        return lambda: commit(at, transaction)

    return begin


KINDS: dict[str, Callable[[LanceDataset], Begun]] = {
    **{name: staged(stage) for name, stage in STAGED.items()},
    "index": staged(index),
    "new column": staged(new_column),
    "same fragments": staged(same_fragments),
    "text segments": text_segments,
    "compaction": compaction,
    "folded index": folded_index,
}


@pytest.fixture(params=["table", "fork"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> LanceDataset:
    """A table with an index that covers not all of its rows, or a fork of one."""
    made = two_fragments(str(tmp_path / "t"))
    made.create_scalar_index("n", "BTREE")
    made = lance.write_dataset(rows("e"), made.uri, mode="append")
    return made if request.param == "table" else made.create_branch("main-1", made.version)


def again(at: LanceDataset) -> LanceDataset:
    """The same version of the same table or fork, opened by somebody else."""
    return at.checkout_version(at.version)


def newest(at: LanceDataset) -> LanceDataset:
    found = again(at)
    found.checkout_latest()
    return found


def names(at: LanceDataset) -> list[str]:
    return sorted(newest(at).to_table()["id"].to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_restore_nothing_that_was_begun_before_gets_in(table: LanceDataset, kind: str) -> None:
    begun = KINDS[kind](again(table))
    barrier = commit(again(table), restore(table, table.version))
    with pytest.raises(Exception, match="conflict|Incompatible|concurrent") as refused:
        begun()
    assert classify(refused.value) is LanceProblem.CONTENTION
    assert newest(table).version == barrier.version == table.version + 1
    assert names(table) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stale_restore_lands_over_whatever_came_before(table: LanceDataset, kind: str) -> None:
    late = restore(table, table.version)
    KINDS[kind](again(table))()
    between = newest(table).version
    landed = commit(again(table), late)
    assert landed.version == newest(table).version == between + 1
    assert names(table) == ["a", "b", "c", "d", "e"]
    assert newest(table).schema == table.schema
    assert {found.name for found in newest(table).describe_indices()} == {"n_idx"}


def test_of_two_restores_the_later_one_is_shown(table: LanceDataset) -> None:
    """Both are of the same version where recoveries race: it shows that one's content either way."""
    first, second = restore(table, table.version), restore(table, table.version)
    assert commit(again(table), first).version == table.version + 1
    assert commit(again(table), second).version == table.version + 2
    assert names(table) == ["a", "b", "c", "d", "e"]


def test_a_restore_of_a_table_leaves_its_forks_alone(tmp_path: Path) -> None:
    table = two_fragments(str(tmp_path / "t"))
    fork = table.create_branch("main-1", table.version)
    grown = commit(fork, STAGED["append"](fork))
    commit(again(table), restore(table, 1))
    assert ids(table) == ["a", "b"]
    assert names(grown) == ["a", "b", "c", "d", "x"]
