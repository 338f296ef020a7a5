"""Bytes to and from a real lakeFS: only what the prefix holds, only what changed, past the server where it can sign."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from tests.integration.lakefs.conftest import metadata
from tools.servers import Server

from headgate.errors import NotFound, StoreDamaged
from headgate.ids import ULIDS
from headgate.lake.cache import Cache
from headgate.lake.interface import MAIN, Changes, LakeObject, LocalFile, Wanted
from headgate.lake.lakefs import Endpoint, LakeFSLake
from headgate.lake.lakefs.objects import PRESIGN_FROM
from headgate.lake.transfer import download
from headgate.lake.workspace import detect_changes
from headgate.publication import Ref

pytestmark = pytest.mark.real

FILES, CHANGED = 1_100, 10


def cached(server: Server, folder: Path) -> LakeFSLake:
    endpoint = Endpoint(url=server.url, access_key_id=server.access_key, secret_access_key=server.secret_key)
    return LakeFSLake(endpoint, fence="hard", cache=Cache(folder))


@pytest.fixture
def lake(lakefs: Server, tmp_path: Path) -> Iterator[LakeFSLake]:
    with cached(lakefs, tmp_path / "cache") as lake:
        yield lake


def repository(lake: LakeFSLake, puts: dict[str, bytes]) -> tuple[str, Ref]:
    name = f"transfer-{ULIDS.new().lower()}"
    lake.create_repository(name)
    return name, lake.commit(name, MAIN, Changes(puts=puts), message="first")


def fetched(lake: LakeFSLake, name: str, ref: Ref, into: Path, prefix: str = "") -> int:
    """Download, and tell how many requests that took."""
    into.mkdir()
    before = lake.client.requests
    download(lake, name, ref, into=into, prefix=prefix)
    return lake.client.requests - before


def test_invariant_8_requests_grow_with_what_changed(lakefs: Server, tmp_path: Path) -> None:
    """An attempt on N files with k changed and a warm cache: at most ceil(N/1000) + k + 15 requests."""
    puts = {f"x/{number:05d}": str(number).encode() for number in range(FILES)}
    with cached(lakefs, tmp_path / "cache") as lake:
        name, ref = repository(lake, puts)
        lake.strength(name)
        assert fetched(lake, name, ref, tmp_path / "cold") == math.ceil(FILES / 1000)  # the upload filled the cache
        lake.client.requests = 0
        work = tmp_path / "work"
        work.mkdir()
        baseline = download(lake, name, ref, into=work)
        for number in range(CHANGED):
            (work / "x" / f"{number:05d}").write_bytes(b"changed")
        changes = detect_changes(work, baseline).changes
        branch = f"headgate-staging-{ULIDS.new().lower()}"
        lake.create_branch(name, branch, at=ref)
        lake.commit(name, branch, changes, message="stage", metadata=metadata(branch, ref))
        head = lake.head(name, MAIN)
        published = lake.merge(
            name, branch, MAIN, expected_head=head.ref, message="publish", metadata=metadata(branch, ref)
        )
        lake.delete_branch(name, branch)
        assert lake.client.requests <= math.ceil(FILES / 1000) + CHANGED + 15
        assert fetched(lake, name, published, tmp_path / "next") == math.ceil((FILES + 1) / 1000)
        assert (tmp_path / "next" / "x" / "00000").read_bytes() == b"changed"


def test_only_what_the_prefix_holds_is_listed_and_read(lake: LakeFSLake, tmp_path: Path) -> None:
    puts = {f"other/{number}": b"x" for number in range(50)} | {"mine/a": b"a", "mine/b": b"b", "mine2": b"c"}
    name, ref = repository(lake, puts)
    with cached_again(lake, tmp_path) as fresh:
        assert fetched(fresh, name, ref, tmp_path / "w", prefix="mine") == 3
    assert sorted(path.name for path in (tmp_path / "w").iterdir()) == ["a", "b"]


def cached_again(lake: LakeFSLake, tmp_path: Path) -> LakeFSLake:
    """The same server, with nothing downloaded yet."""
    return LakeFSLake(lake.client.endpoint, cache=Cache(tmp_path / f"cache-{ULIDS.new()}"))


def test_odd_keys_of_others_do_not_break_a_task_that_does_not_use_them(lake: LakeFSLake, tmp_path: Path) -> None:
    name, _ = repository(lake, {"mine/a": b"a"})
    for key in ("odd//key", "dir/", "mine/dir/", "../up", "/absolute", "a" * 900):
        assert lake.api.put_object(name, MAIN, key, b"x", size=1).status == 201
    ref = Ref(lake.api.commit(name, MAIN, message="odd", metadata={}).json()["id"])
    fetched(lake, name, ref, tmp_path / "w", prefix="mine")
    assert [path.name for path in (tmp_path / "w").iterdir()] == ["a"]


def test_bytes_that_were_changed_under_the_server_are_found_out(lakefs: Server, tmp_path: Path) -> None:
    with cached(lakefs, tmp_path / "cache") as writer:
        name, ref = repository(writer, {"a": b"the true bytes"})
        address = writer.client.expect(
            "GET", "repositories", name, "refs", ref, "objects", "stat", query={"path": "a"}, doing="look"
        ).json()["physical_address"]
        Path(address.removeprefix("local://")).write_bytes(b"the fake bytes")
        with cached_again(writer, tmp_path) as reader, pytest.raises(StoreDamaged, match="a at"):
            fetched(reader, name, ref, tmp_path / "w")
    assert not (tmp_path / "w" / "a").exists()


def test_an_object_that_is_gone_is_not_found(lake: LakeFSLake, tmp_path: Path) -> None:
    name, ref = repository(lake, {"a": b"a"})
    with pytest.raises(NotFound):
        list(lake.fetch(name, ref, [Wanted(LakeObject("b", 1, "0" * 32), str(tmp_path / "b"))]))
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("ref", ["main", "abc123", "main~1", ""])
def test_a_ref_that_is_no_commit_id_is_refused(lake: LakeFSLake, ref: str) -> None:
    name, _ = repository(lake, {"a": b"a"})
    with pytest.raises(NotFound, match="not a full commit id"):
        lake.commit_at(name, Ref(ref))
    with pytest.raises(NotFound, match="not a full commit id"):
        lake.objects(name, Ref(ref))


# ---------------------------------------------------------------------------------------------------- signed addresses
@pytest.fixture
def signed(lakefs_on_s3: Server, s3: Server, tmp_path: Path) -> Iterator[tuple[LakeFSLake, str]]:
    """A repository whose objects are in S3. versitygw keeps a bucket as a folder."""
    (s3.data / "objects" / "lake").mkdir(exist_ok=True)
    endpoint = Endpoint(
        url=lakefs_on_s3.url, access_key_id=lakefs_on_s3.access_key, secret_access_key=lakefs_on_s3.secret_key
    )
    with LakeFSLake(endpoint, namespace=f"s3://lake/{tmp_path.name}") as lake:
        name = f"signed-{ULIDS.new().lower()}"
        lake.create_repository(name)
        yield lake, name


def test_large_objects_go_past_the_server(
    signed: tuple[LakeFSLake, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, name = signed
    asked: list[str] = []
    real = urllib3.PoolManager.request

    def spying(self: urllib3.PoolManager, method: str, url: str, **kw: object) -> urllib3.BaseHTTPResponse:
        asked.append(f"{method} {url}")
        if "X-Amz-Signature" in url:
            assert "Authorization" not in dict(kw.get("headers") or {})  # type: ignore[call-overload]
        return real(self, method, url, **kw)  # type: ignore[arg-type]

    monkeypatch.setattr(urllib3.PoolManager, "request", spying)
    data = os.urandom(PRESIGN_FROM + 5)
    (tmp_path / "big").write_bytes(data)
    puts = {"big": LocalFile(tmp_path / "big"), "small": b"small"}
    ref = lake.commit(name, MAIN, Changes(puts=puts), message="big")
    items = {item.path: item for item in lake.objects(name, ref)}
    assert len(list(lake.fetch(name, ref, [Wanted(items[path], str(tmp_path / f"{path}.out")) for path in puts]))) == 2
    assert (tmp_path / "big.out").read_bytes() == data
    assert (tmp_path / "small.out").read_bytes() == b"small"
    assert sum("X-Amz-Signature" in one for one in asked) == 2
