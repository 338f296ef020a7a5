"""A lakeFS server, with and without hooks, does what every lake must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.servers import Server

from headgate.ids import ULIDS
from headgate.lake.cache import Cache
from headgate.lake.lakefs import Endpoint, LakeFSLake
from headgate.testing.conformance.lake import LakeConformance

pytestmark = pytest.mark.real


def endpoint(server: Server) -> Endpoint:
    return Endpoint(url=server.url, access_key_id=server.access_key, secret_access_key=server.secret_key)


class TestLakeFSLake(LakeConformance):
    @pytest.fixture
    def lake(self, lakefs: Server, tmp_path: Path) -> Iterator[LakeFSLake]:
        with LakeFSLake(endpoint(lakefs), fence="hard", cache=Cache(tmp_path / "cache")) as lake:
            yield lake


class TestLakeFSLakeWithoutHooks(LakeConformance):
    @pytest.fixture
    def lake(self, lakefs_without_actions: Server) -> Iterator[LakeFSLake]:
        with LakeFSLake(endpoint(lakefs_without_actions)) as lake:
            yield lake


class TestLakeFSLakeOnS3(LakeConformance):
    """Its objects are in S3, so that checksums are the block store's and large objects go past the server."""

    @pytest.fixture
    def lake(self, lakefs_on_s3: Server, s3: Server, tmp_path: Path) -> Iterator[LakeFSLake]:
        (s3.data / "objects" / "lake").mkdir(exist_ok=True)  # versitygw keeps a bucket as a folder
        namespace = f"s3://lake/{ULIDS.new().lower()}"
        cache = Cache(tmp_path / "cache")
        with LakeFSLake(endpoint(lakefs_on_s3), fence="hard", cache=cache, namespace=namespace) as lake:
            yield lake
