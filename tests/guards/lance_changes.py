"""Changes of every kind that a table of a graph meets, staged on a small table, for the tests of Lance's rules."""

from __future__ import annotations

from collections.abc import Callable

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

ROWS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])


def rows(*ids: str, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=ROWS)


def two_fragments(uri: str) -> LanceDataset:
    """A table with the rows a, b and c, d."""
    lance.write_dataset(rows("a", "b"), uri, schema=ROWS)
    return lance.write_dataset(rows("c", "d"), uri, mode="append")


def ids(dataset: LanceDataset) -> list[str]:
    newest = lance.dataset(dataset.uri)
    return sorted(newest.to_table()["id"].to_pylist())


def commit(at: LanceDataset, transaction: Transaction) -> LanceDataset:
    return LanceDataset.commit(at, transaction, max_retries=0)


def append(at: LanceDataset, *names: str) -> Transaction:
    made = write_fragments(rows(*names), at, return_transaction=True)
    assert isinstance(made, Transaction)
    return made


def merge(at: LanceDataset, *names: str) -> Transaction:
    builder = at.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    made, _ = builder.execute_uncommitted(rows(*names, n=9))
    return made


def delete(at: LanceDataset, fragment: int, offset: int) -> Transaction:
    left = at.get_fragment(fragment).delete_rows([offset])
    return Transaction(at.version, LanceOperation.Delete([left], [], "by offset"))


def rewrite(at: LanceDataset) -> Transaction:
    """What Headgate stages for a mixed change: b goes, x comes."""
    left = at.get_fragment(0).delete_rows([1])
    new = write_fragments(rows("x"), at)
    return Transaction(at.version, LanceOperation.Update(updated_fragments=[left], new_fragments=new))


def overwrite(at: LanceDataset) -> Transaction:
    return Transaction(at.version, LanceOperation.Overwrite(at.schema, write_fragments(rows("o"), at)))


def restore(at: LanceDataset, version: int) -> Transaction:
    return Transaction(at.version, LanceOperation.Restore(version))


STAGED: dict[str, Callable[[LanceDataset], Transaction]] = {
    "append": lambda at: append(at, "x"),
    "merge": lambda at: merge(at, "b", "x"),
    "delete": lambda at: delete(at, 0, 1),
    "rewrite": rewrite,
    "overwrite": overwrite,
}
