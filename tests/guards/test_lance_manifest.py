"""What the manifest believes of Lance: the inline merge on an unenforced primary key, folds and barriers."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import write_fragments

from headgate.graph.manifest.rows import COLUMNS, Head, Pin, Row, encode


def merge(at: LanceDataset, *rows: Row) -> None:
    builder = at.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(0).execute(encode(rows))


def staged(at: LanceDataset, *rows: Row) -> Transaction:
    builder = at.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    made, _ = builder.execute_uncommitted(encode(rows))
    return made


def head(branch: str, order: int) -> Head:
    return Head(branch=branch, order=order, commit=f"{branch}{order}")


def pin(table: str) -> Pin:
    return Pin(branch="main", table=table, version=1)


def barrier(at: LanceDataset) -> Transaction:
    fragments = [fragment.metadata for fragment in at.get_fragments()]
    return Transaction(at.version, LanceOperation.Merge(fragments, at.lance_schema))


def commit(at: LanceDataset, transaction: Transaction) -> LanceDataset:
    return LanceDataset.commit(at, transaction, max_retries=0)


@pytest.fixture
def manifest(tmp_path: Path) -> LanceDataset:
    """The heads of two branches, each in a fragment of its own."""
    lance.write_dataset(encode([head("main", 0)]), tmp_path / "m", schema=COLUMNS)
    return lance.write_dataset(encode([head("side", 0)]), tmp_path / "m", mode="append")


def again(at: LanceDataset) -> LanceDataset:
    return lance.dataset(at.uri)


def names(at: LanceDataset) -> list[str]:
    return sorted(again(at).to_table()["object_id"].to_pylist())


def test_of_two_inline_merges_of_one_existing_row_the_second_is_refused(manifest: LanceDataset) -> None:
    stale = again(manifest)
    merge(manifest, head("main", 1))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(stale, head("main", 2))
    assert names(manifest) == ["head:main", "head:side"]


def test_of_two_inline_merges_of_one_new_row_the_second_is_refused(manifest: LanceDataset) -> None:
    stale = again(manifest)
    merge(manifest, pin("t"))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(stale, pin("t"))


def test_two_staged_merges_of_one_new_row_both_land(manifest: LanceDataset) -> None:
    first, second = staged(manifest, pin("t")), staged(manifest, pin("t"))
    commit(manifest, first)
    commit(manifest, second)
    assert names(manifest).count(pin("t").object_id) == 2


def test_inline_merges_of_other_rows_in_one_fragment_both_land_once(manifest: LanceDataset) -> None:
    merge(manifest, pin("a"), pin("b"))
    stale = again(manifest)
    merge(manifest, pin("a"))
    merge(stale, pin("b"))
    assert names(manifest) == ["head:main", "head:side", pin("a").object_id, pin("b").object_id]


def test_staged_merges_of_other_rows_in_one_fragment_conflict(manifest: LanceDataset) -> None:
    merge(manifest, pin("a"), pin("b"))
    first, second = staged(manifest, pin("a")), staged(manifest, pin("b"))
    commit(manifest, first)
    with pytest.raises(CommitConflictError):
        commit(manifest, second)


def test_each_merge_adds_a_fragment(manifest: LanceDataset) -> None:
    before = len(manifest.get_fragments())
    for number in range(3):
        merge(manifest, pin(f"t{number}"))
    assert len(manifest.get_fragments()) == before + 3


def test_a_fold_is_refused_once_a_row_it_rewrites_has_moved(manifest: LanceDataset) -> None:
    new = write_fragments(manifest.to_table(), manifest)
    old = [fragment.fragment_id for fragment in manifest.get_fragments()]
    fold = Transaction(manifest.version, LanceOperation.Update(removed_fragment_ids=old, new_fragments=new))
    merge(again(manifest), head("main", 1))
    with pytest.raises(CommitConflictError):
        commit(manifest, fold)


def test_a_merge_is_refused_once_a_fold_has_rewritten_its_row(manifest: LanceDataset) -> None:
    stale = again(manifest)
    new = write_fragments(manifest.to_table(), manifest)
    old = [fragment.fragment_id for fragment in manifest.get_fragments()]
    commit(manifest, Transaction(manifest.version, LanceOperation.Update(removed_fragment_ids=old, new_fragments=new)))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(stale, head("main", 1))


def test_dropped_versions_blind_the_conflict_check(manifest: LanceDataset) -> None:
    """Why old versions of the manifest may only be dropped below a barrier: the row is there twice."""
    stale = staged(manifest, head("main", 9))
    newest = again(manifest)
    merge(newest, head("main", 1))
    merge(newest, head("side", 1))
    newest.cleanup_old_versions(retain_versions=1)
    commit(manifest, stale)
    assert names(manifest) == ["head:main", "head:main", "head:side"]


def test_a_barrier_refuses_what_was_staged_before_it_even_if_all_before_it_is_dropped(manifest: LanceDataset) -> None:
    stale = staged(manifest, head("main", 9))
    newest = again(manifest)
    merge(newest, head("main", 1))
    newest = commit(newest, barrier(newest))
    merge(newest, head("side", 1))
    newest.cleanup_old_versions(versions=list(range(1, newest.version - 1)))
    with pytest.raises(CommitConflictError):
        commit(manifest, stale)
    assert names(manifest) == ["head:main", "head:side"]


@pytest.mark.parametrize("stale", ["insert", "update", "append"])
def test_a_barrier_stops_every_kind_of_merge(manifest: LanceDataset, stale: str) -> None:
    if stale == "append":
        transaction = write_fragments(encode([pin("t")]), manifest, return_transaction=True)
    else:
        transaction = staged(manifest, head("main", 1) if stale == "update" else pin("t"))
    commit(manifest, barrier(manifest))
    with pytest.raises(CommitConflictError):
        commit(manifest, transaction)


@pytest.mark.parametrize("meanwhile", [head("main", 1), pin("t")])
def test_a_barrier_is_refused_once_anything_has_moved(manifest: LanceDataset, meanwhile: Row) -> None:
    raised = barrier(manifest)
    merge(again(manifest), meanwhile)
    with pytest.raises(CommitConflictError):
        commit(manifest, raised)


def taken_out(at: LanceDataset, order: int) -> Transaction:
    """A publish as the manifest stages it: the head row of main leaves its fragment, a new fragment comes."""
    left = at.get_fragment(0).delete_rows([0])
    return Transaction(
        at.version,
        LanceOperation.Update(
            removed_fragment_ids=[] if left else [0],
            updated_fragments=[left] if left else [],
            new_fragments=write_fragments(encode([head("main", order), pin(f"t{order}")]), at),
        ),
    )


@pytest.mark.parametrize("alone", [True, False])
def test_of_two_transactions_that_take_one_row_out_of_its_fragment_the_second_is_refused(
    tmp_path: Path, alone: bool
) -> None:
    rows = [head("main", 0)] if alone else [head("main", 0), pin("a"), pin("b")]
    manifest = lance.write_dataset(encode(rows), tmp_path / "m", schema=COLUMNS)
    first, second = taken_out(manifest, 1), taken_out(manifest, 2)
    commit(manifest, first)
    with pytest.raises(CommitConflictError):
        commit(manifest, second)
    assert names(manifest).count("head:main") == 1


def test_a_row_taken_out_conflicts_with_an_inline_merge_of_it_in_both_orders(manifest: LanceDataset) -> None:
    staged_first = taken_out(manifest, 1)
    stale = again(manifest)
    merge(again(manifest), head("main", 2))
    with pytest.raises(CommitConflictError):
        commit(manifest, staged_first)
    newest = again(manifest)
    merge(newest, head("side", 3))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(stale, head("main", 4))


def test_an_inline_merge_is_refused_once_its_row_was_taken_out(manifest: LanceDataset) -> None:
    stale = again(manifest)
    commit(manifest, taken_out(manifest, 1))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(stale, head("main", 2))


def test_a_row_taken_out_of_a_folded_fragment_is_refused(manifest: LanceDataset) -> None:
    stale = taken_out(manifest, 1)
    new = write_fragments(manifest.to_table(), manifest)
    old = [fragment.fragment_id for fragment in manifest.get_fragments()]
    commit(manifest, Transaction(manifest.version, LanceOperation.Update(removed_fragment_ids=old, new_fragments=new)))
    with pytest.raises(CommitConflictError):
        commit(manifest, stale)


def test_a_row_taken_out_is_refused_by_a_barrier(manifest: LanceDataset) -> None:
    stale = taken_out(manifest, 1)
    commit(manifest, barrier(manifest))
    with pytest.raises(CommitConflictError):
        commit(manifest, stale)


def test_rows_taken_out_of_other_fragments_both_land(manifest: LanceDataset) -> None:
    stale = taken_out(manifest, 1)
    merge(again(manifest), head("side", 1))
    assert commit(manifest, stale).version == manifest.version + 2
    assert names(manifest) == ["head:main", "head:side", pin("t1").object_id]
