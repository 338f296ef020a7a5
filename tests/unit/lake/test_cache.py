"""The download cache: hits are verified, damage is a miss, the longest unused goes first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from blake3 import blake3

from headgate.lake.cache import LARGEST, Cache
from headgate.lake.interface import Fetched, FileStat, LakeObject, LocalFile
from headgate.settings import Settings


class TickingClock:
    """Each look at it is two minutes later."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(minutes=2)
        return self._now

    def monotonic(self) -> float:
        return self.now().timestamp()


def named(data: bytes, path: str = "a") -> LakeObject:
    return LakeObject(path, len(data), hashlib.md5(data).hexdigest())


def add(cache: Cache, data: bytes, place: str = "here") -> None:
    cache.add(place, named(data), data, digest=blake3(data).hexdigest())


def taken(cache: Cache, item: LakeObject, into: Path, place: str = "here") -> Fetched | None:
    [kept] = cache.look_up(place, [item])
    return cache.fetch(kept, into=into) if kept else None


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    made = Cache(tmp_path / "cache", clock=TickingClock())
    yield made
    made.close()


def test_what_was_added_comes_out_verified(cache: Cache, tmp_path: Path) -> None:
    add(cache, b"song")
    got = taken(cache, named(b"song"), tmp_path / "out")
    assert got is not None
    assert got.digest == blake3(b"song").hexdigest()
    assert got.stat == FileStat.of((tmp_path / "out").stat())
    assert (tmp_path / "out").read_bytes() == b"song"


def test_a_file_is_kept_like_its_bytes(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"song")
    cache.add("here", named(b"song"), LocalFile(tmp_path / "in"), digest=blake3(b"song").hexdigest())
    assert taken(cache, named(b"song"), tmp_path / "out") is not None


def test_another_server_repository_or_size_is_a_miss(cache: Cache, tmp_path: Path) -> None:
    add(cache, b"song")
    other = LakeObject("a", 5, named(b"song").checksum)
    assert taken(cache, named(b"song"), tmp_path / "x", "there") is None
    assert taken(cache, other, tmp_path / "x") is None
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("as_file", [True, False])
def test_bytes_that_are_not_the_objects_own_never_come_out(cache: Cache, tmp_path: Path, as_file: bool) -> None:
    (tmp_path / "in").write_bytes(b"sung")
    source = LocalFile(tmp_path / "in") if as_file else b"sung"
    cache.add("here", named(b"song"), source, digest=blake3(b"song").hexdigest())
    assert taken(cache, named(b"song"), tmp_path / "x") is None
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("harm", [b"sung", b"", None])
def test_a_blob_that_was_harmed_is_a_miss_and_is_forgotten(cache: Cache, tmp_path: Path, harm: bytes | None) -> None:
    add(cache, b"song")
    (blob,) = (path for path in (cache.folder / "blobs").rglob("*") if path.is_file())
    blob.chmod(0o644)
    if harm is None:
        blob.unlink()
    else:
        blob.write_bytes(harm)
    assert taken(cache, named(b"song"), tmp_path / "x") is None
    assert not (tmp_path / "x").exists()
    add(cache, b"song")
    assert taken(cache, named(b"song"), tmp_path / "x") is not None


def test_nothing_a_body_does_to_its_file_reaches_the_cache(cache: Cache, tmp_path: Path) -> None:
    add(cache, b"song")
    taken(cache, named(b"song"), tmp_path / "body")
    (tmp_path / "body").write_bytes(b"sung")
    got = taken(cache, named(b"song"), tmp_path / "again")
    assert got is not None
    assert (tmp_path / "again").read_bytes() == b"song"


def test_it_outlives_the_process_that_filled_it(cache: Cache, tmp_path: Path) -> None:
    add(cache, b"song")
    cache.flush()
    again = Cache(cache.folder)
    assert taken(again, named(b"song"), tmp_path / "out") is not None
    again.close()


def test_the_longest_unused_goes_first_and_the_cap_holds(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", cap=10_000, clock=TickingClock())
    songs = [bytes([number]) * 1_000 for number in range(9)]
    for song in songs:
        add(cache, song)
    assert taken(cache, named(songs[0]), tmp_path / "used") is not None
    for number in (20, 21, 22):
        add(cache, bytes([number]) * 1_000)
    cache.evict()
    held = sum(path.stat().st_size for path in (cache.folder / "blobs").rglob("*") if path.is_file())
    assert held <= 10_000
    assert taken(cache, named(songs[0]), tmp_path / "still") is not None
    assert taken(cache, named(songs[1]), tmp_path / "gone") is None
    cache.close()


def test_a_blob_that_two_repositories_share_is_counted_once_and_goes_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", cap=2_500)
    for place in ("one", "two", "three"):
        add(cache, b"x" * 1_000, place)
    assert cache.evict() == 0
    cache.close()


def test_many_are_looked_up_at_once_in_the_index_and_before_they_are_in_it(cache: Cache) -> None:
    songs = [f"song {number}".encode() for number in range(1_200)]
    for song in songs[:1_000]:
        add(cache, song)
    cache.flush()
    for song in songs[1_000:1_100]:
        add(cache, song)
    found = cache.look_up("here", [named(song) for song in songs])
    assert [kept.digest if kept else None for kept in found] == [
        *(blake3(song).hexdigest() for song in songs[:1_100]),
        *[None] * 100,
    ]


def test_large_objects_are_not_kept(cache: Cache) -> None:
    large = LakeObject("big", LARGEST + 1, "0" * 32)
    cache.add("here", large, b"never read", digest="0" * 64)
    assert not [path for path in (cache.folder / "blobs").rglob("*") if path.is_file()]


def test_what_a_killed_process_left_is_collected(cache: Cache) -> None:
    add(cache, b"song")
    killed = Cache(cache.folder)
    add(killed, b"never in the index")
    killed._pending.clear()
    assert cache.collect() == len(b"never in the index")
    assert cache.collect() == 0
    killed.close()


def test_the_cap_is_a_setting(tmp_path: Path) -> None:
    from headgate.lake.opening import open_cache

    settings = Settings.model_validate({"state": tmp_path, "lakefs": {"cache_gb": 0.5}})
    cache = open_cache(settings)
    assert cache is not None
    assert cache.cap == 500_000_000
    cache.close()
    assert open_cache(Settings.model_validate({"state": tmp_path, "lakefs": {"cache_gb": 0}})) is None
