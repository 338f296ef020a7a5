"""Columns kept in memory: bounded by bytes, shared by threads, never of another version."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate.graph.read.hashed as hashed_module
from headgate.graph.read.cache import ColumnCache
from headgate.graph.read.hashed import HashedColumn
from headgate.graph.read.source import TableVersion

FIRST, SECOND = TableVersion("t", 1), TableVersion("t", 2)


class Loader:
    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.loads = 0

    def __call__(self, columns: tuple[str, ...]) -> pa.Table:
        self.loads += 1
        return pa.table({name: pa.array(range(self.rows), pa.int64()) for name in columns})


def test_a_version_is_loaded_once_and_another_version_is_another_thing() -> None:
    cache, load = ColumnCache(), Loader(10)
    for _ in range(3):
        assert len(cache.columns(FIRST, ("src", "dst"), load)["src"]) == 10
    assert load.loads == 1
    cache.columns(SECOND, ("src",), load)
    assert load.loads == 2


def test_the_least_recently_used_goes_when_the_bytes_run_out() -> None:
    cache, load = ColumnCache(max_bytes=250), Loader(10)
    cache.columns(FIRST, ("a",), load)
    cache.columns(FIRST, ("b",), load)
    cache.columns(FIRST, ("c",), load)
    assert cache.bytes == 240
    cache.columns(FIRST, ("a",), load)
    cache.columns(FIRST, ("d",), load)
    assert cache.find(FIRST, ("b",)) is None
    assert cache.find(FIRST, ("a",)) is not None
    assert cache.bytes == 240


def test_what_is_larger_than_the_cache_is_given_and_not_kept() -> None:
    cache, load = ColumnCache(max_bytes=10), Loader(10)
    assert len(cache.columns(FIRST, ("a",), load)["a"]) == 10
    assert cache.bytes == 0


def test_cleared_is_empty() -> None:
    cache = ColumnCache()
    cache.columns(FIRST, ("a",), Loader(10))
    cache.clear()
    assert (cache.bytes, cache.find(FIRST, ("a",))) == (0, None)


def test_a_column_is_hashed_once_it_has_been_joined_often_and_goes_with_the_rest() -> None:
    cache = ColumnCache(hashed_from=1_000)
    texts = pa.table({"src": [f"n{number % 50}" for number in range(1_000)]})
    cache.columns(FIRST, ("src",), lambda _: texts)
    hashed = [cache.hashed(FIRST, "src") for _ in range(6)]
    assert [item is not None for item in hashed] == [False, False, False, False, True, True]
    assert hashed[4] is hashed[5]
    assert cache.is_hashed(FIRST, "src")
    assert not cache.is_hashed(SECOND, "src")
    assert cache.bytes > texts["src"].nbytes
    cache.clear()
    assert not cache.is_hashed(FIRST, "src")


@given(st.lists(st.text(max_size=3), max_size=60), st.lists(st.text(max_size=3), max_size=20, unique=True))
def test_a_hashed_column_finds_what_a_look_at_every_row_finds(values: list[str], keys: list[str]) -> None:
    rows, places = HashedColumn(pa.array(values, pa.string())).find(pa.array(keys, pa.string()))
    expected = sorted((row, keys.index(value)) for row, value in enumerate(values) if value in keys)
    assert sorted(zip(rows.tolist(), places.tolist(), strict=True)) == expected


def test_texts_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashed_module, "_hashes", lambda texts: np.zeros(len(texts), np.uint64))
    rows, places = HashedColumn(pa.array(["a", "b", "a"])).find(pa.array(["a", "c"]))
    assert (sorted(rows.tolist()), places.tolist()) == ([0, 2], [0, 0])
