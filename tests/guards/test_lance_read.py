"""What the read side believes of Lance: how filters are written, when an index answers them, what cannot be pushed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

TABLE = pa.table(
    {
        "id": pa.array(["a", "b", "it's", "b\\c", None]),
        "order": pa.array([1, 2, 3, 4, None], pa.int32()),
        "unsigned": pa.array([1, 2, 2**64 - 1, None, 0], pa.uint64()),
        "small": pa.array([0.1, 1.5, None, 2.0, 3.0], pa.float32()),
        "seen": pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC)] * 4 + [None], pa.timestamp("us", tz="UTC")),
        "born": pa.array([date(2026, 1, 1)] * 4 + [None]),
        "tags": pa.array([["x", "y"], [], None, ["z"], ["x"]]),
        "photo": pa.array([b"a", b"b", None, b"c", b"d"], pa.large_binary()),
    }
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    return lance.write_dataset(TABLE, str(tmp_path_factory.mktemp("lance") / "t.lance"))


def found(dataset: lance.LanceDataset, condition: str) -> list[object]:
    return dataset.to_table(filter=condition, columns=["id"])["id"].to_pylist()


def test_double_quotes_make_a_text_and_backticks_a_name(dataset: lance.LanceDataset) -> None:
    assert found(dataset, "\"id\" = 'a'") == []
    assert found(dataset, "`id` = 'a'") == ["a"]
    assert found(dataset, "`order` = 2") == ["b"]


def test_a_text_doubles_its_quotes_and_knows_no_backslash(dataset: lance.LanceDataset) -> None:
    assert found(dataset, "`id` = 'it''s'") == ["it's"]
    assert found(dataset, "`id` = 'b\\c'") == ["b\\c"]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("contains(`id`, '''')", ["it's"]),
        ("starts_with(`id`, 'b')", ["b", "b\\c"]),
        ("array_has(`tags`, 'x')", ["a", None]),
        ("NOT array_has(`tags`, 'x')", ["b", "b\\c"]),
        ("`unsigned` = 18446744073709551615", ["it's"]),
        ("`small` = CAST(0.1 AS FLOAT)", ["a"]),
        ("`seen` = CAST('2026-01-01T12:00:00+00:00' AS TIMESTAMP)", ["a", "b", "it's", "b\\c"]),
        ("`seen` > CAST('2026-01-01T12:00:00+00:00' AS TIMESTAMP)", []),
        ("`born` >= CAST('2026-01-01' AS DATE)", ["a", "b", "it's", "b\\c"]),
        ("NOT (`order` IN (1, 2))", ["it's", "b\\c"]),
        ("`order` <> 1", ["b", "it's", "b\\c"]),
        ("`photo` = x'61'", ["a"]),
        ("FALSE", []),
    ],
)
def test_the_conditions_we_write_mean_what_we_mean(
    dataset: lance.LanceDataset, condition: str, rows: list[str]
) -> None:
    assert found(dataset, condition) == rows


def test_two_negated_lists_make_the_planner_forget_nulls(dataset: lance.LanceDataset) -> None:
    """A bug we write around: once it is gone, this turns red and the extra `IS NOT NULL` can go."""
    assert None in found(dataset, "NOT (`order` IN (1)) OR NOT (`order` IN (2))")
    around = "(NOT `order` IS NULL AND NOT (`order` IN (1))) OR (NOT `order` IS NULL AND NOT (`order` IN (2)))"
    assert None not in found(dataset, around)


def test_an_arrow_filter_on_unsigned_numbers_or_blobs_is_refused_in_these_words(dataset: lance.LanceDataset) -> None:
    for condition in (
        pc.field("unsigned") == pa.scalar(2, pa.uint64()),
        pc.field("photo") == pa.scalar(b"a", pa.large_binary()),
    ):
        with pytest.raises(ValueError, match="not yet supported by Substrait"):
            dataset.scanner(filter=condition).to_reader()
    assert dataset.to_table(filter=pc.field("id") == "a").num_rows == 1


def test_a_btree_answers_lists_and_rows_added_later_are_found_too(tmp_path: Path) -> None:
    rows = pa.table({"id": [str(number) for number in range(10_000)], "n": range(10_000)})
    dataset = lance.write_dataset(rows, str(tmp_path / "t.lance"))
    dataset.create_scalar_index("id", "BTREE")
    condition = "`id` IN ('7', '8', 'new')"
    assert "ScalarIndexQuery" in dataset.scanner(filter=condition).explain_plan()
    dataset = lance.write_dataset(pa.table({"id": ["new"], "n": [1]}), str(tmp_path / "t.lance"), mode="append")
    assert "ScalarIndexQuery" in dataset.scanner(filter=condition).explain_plan()
    assert sorted(dataset.to_table(filter=condition)["id"].to_pylist()) == ["7", "8", "new"]
    (index,) = dataset.describe_indices()
    assert (index.index_type, list(index.field_names), index.num_rows_indexed) == ("BTree", ["id"], 10_000)


def test_a_pinned_version_stays_what_it_was(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": ["a"]}), str(tmp_path / "t.lance"))
    pinned = lance.dataset(str(tmp_path / "t.lance"), version=1)
    lance.write_dataset(pa.table({"id": ["b"]}), str(tmp_path / "t.lance"), mode="overwrite")
    assert pinned.to_table()["id"].to_pylist() == ["a"]
