"""Columns kept in memory: bounded by bytes, shared by threads, never of another version."""

from __future__ import annotations

import pyarrow as pa

from headgate.graph.read.cache import ColumnCache
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
