"""What executors decide about claims: one grouping finds every way in which ids are wrong, and what has to go."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.spark.claims import (
    CALL,
    CASCADE,
    END,
    KEPT_END,
    MERGED,
    NEW,
    REMOVED,
    STORED,
    STRICT,
    blocks_of,
    hashes,
    pack,
    unpack,
)
from headgate.spark.verdicts import Rule, count_wrong, find_edits, left_over

FIRST, SECOND = 1 << CALL, 1 << CALL + 1


def bucket(*claims: tuple[str, int], source: int = 0) -> pa.Table:
    """Claims on ids, each a block of its own with its place in the list."""
    rows = []
    for place, (name, flags) in enumerate(claims):
        a, b = hashes(pa.array([name]), "salt", "id/T")
        block = pack(
            pa.record_batch({"a": a, "b": b, "offset": pa.array([place]), "id": pa.array([f"{name}-{place}"])})
        )
        rows.append({"bucket": 0, "flags": flags, "claim": 0, "source": source + place, "block": block})
    return pa.Table.from_pylist(rows)


def wrong(*claims: tuple[str, int]) -> dict[str, int]:
    found = count_wrong(Rule.identity(), bucket(*claims))
    return dict(zip(found["code"].to_pylist(), found["rows"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ([NEW | STRICT | FIRST, NEW | STRICT | FIRST], "twice"),
        ([NEW | FIRST, NEW | FIRST], "twice"),
        ([NEW | MERGED | FIRST, NEW | MERGED | FIRST], None),
        ([NEW | STRICT | FIRST, STORED], "taken"),
        ([NEW | MERGED | FIRST, STORED], None),
        ([NEW | MERGED | FIRST, NEW | MERGED | SECOND], "clash"),
        ([NEW | MERGED | FIRST, REMOVED | SECOND, STORED], "clash"),
        ([END], "endpoint"),
        ([END, STORED], None),
        ([END, NEW | FIRST], None),
        ([END, STORED, REMOVED | FIRST], "endpoint"),
        ([END, KEPT_END], "endpoint"),
        ([KEPT_END], "dangling"),
        ([KEPT_END, NEW | FIRST], None),
        ([CASCADE, STORED, REMOVED | FIRST], None),
        ([STORED], None),
    ],
)
def test_what_is_wrong_with_an_id(claims: list[int], code: str | None) -> None:
    assert wrong(*(("ann", flags) for flags in claims)) == ({code: 1} if code else {})


def test_ids_do_not_disturb_each_other() -> None:
    assert wrong(("a", NEW | FIRST), ("b", NEW | FIRST), ("b", END), ("c", END), ("d", END), ("e", STORED)) == {
        "endpoint": 2
    }


def edits(*claims: tuple[str, int]) -> list[tuple[int, int, str | None]]:
    found = find_edits(bucket(*claims))
    return sorted(
        (row["source"], edit["offset"], edit["id"])
        for row in found.to_pylist()
        for edit in unpack(row["block"]).to_pylist()
    )


def test_of_merged_rows_the_last_stays_and_takes_the_stored_id() -> None:
    merged = NEW | MERGED | FIRST
    assert edits(("a", merged), ("a", merged), ("a", STORED), ("b", merged), ("c", STORED)) == [
        (0, 0, None),
        (1, 1, "a-2"),
        (2, 2, None),
    ]


def test_removed_rows_go_and_take_edges_along() -> None:
    assert edits(("a", REMOVED | FIRST), ("a", STORED), ("a", CASCADE), ("b", CASCADE), ("b", STORED)) == [
        (1, 1, None),
        (2, 2, None),
    ]


def test_unique_values_and_cardinality() -> None:
    def codes(rule: Rule, *claims: tuple[str, int]) -> list[str]:
        return sorted(count_wrong(rule, bucket(*claims))["code"].to_pylist())

    assert codes(Rule.unique(), ("a", NEW), ("a", STORED), ("b", NEW), ("c", STORED)) == ["unique"]
    assert codes(Rule.cardinality(0, 1), ("a", NEW), ("a", STORED), ("b", STORED), ("b", STORED)) == ["above"]
    assert codes(Rule.cardinality(1, None), ("a", END), ("b", END), ("b", NEW), ("c", END), ("c", REMOVED)) == ["below"]


def test_what_is_left_of_stored_rows() -> None:
    who, other = hashes(pa.array(["a", "b"]), "salt", "id/T"), hashes(pa.array(["x", "y"]), "salt", "u")
    pairs = pack(pa.record_batch({"a": who[0], "b": who[1], "c": other[0], "d": other[1]}))
    touched = pack(pa.record_batch({"a": who[0].slice(0, 1), "b": who[1].slice(0, 1)}))
    blocks = pa.Table.from_pylist(
        [
            {"bucket": 0, "flags": STORED, "claim": 1, "source": 0, "block": pairs},
            {"bucket": 0, "flags": NEW | MERGED, "claim": 0, "source": 1, "block": touched},
        ]
    )
    left = left_over(blocks)
    assert left["a"].to_pylist() == other[0].slice(1).to_pylist()
    assert sum(unpack(row).num_rows for row in blocks_of(left, STORED, 8)["block"].to_pylist()) == 1
    assert left_over(blocks.slice(1)).num_rows == 0


def test_hashes_are_salted_and_of_one_domain() -> None:
    ids = pa.array(["ann", "bob"])
    assert hashes(ids, "x", "d")[0].equals(hashes(ids, "x", "d")[0])
    for other in (hashes(ids, "y", "d"), hashes(ids, "x", "e")):
        assert not hashes(ids, "x", "d")[0].equals(other[0])
    assert not hashes(ids, "x", "d")[0].equals(hashes(ids, "x", "d")[1])
