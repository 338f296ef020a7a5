"""A repository on a real lakeFS, a lake on it, and a lake whose network can be made to fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tools.servers import Server
from tools.servers.proxy import FaultProxy

from headgate.errors import NotFound
from headgate.ids import ULIDS
from headgate.lake.interface import MAIN, Changes
from headgate.lake.lakefs import Endpoint, FenceChoice, LakeFSLake
from headgate.lake.lakefs.gate import Gate
from headgate.publication import CommitMetadata, Head, Outcome, PublishId, ReadBack, Ref, read_back_commit


def connect(server: Server, *, through: str = "", fence: FenceChoice = "hard") -> LakeFSLake:
    url = through or server.url
    return LakeFSLake(
        Endpoint(url=url, access_key_id=server.access_key, secret_access_key=server.secret_key), fence=fence
    )


@dataclass
class Place:
    """A repository with one commit on main, and what tests do to it."""

    lake: LakeFSLake
    repository: str
    first: Ref

    def stage(self, data: bytes, *, at: Ref | None = None, path: str = "a") -> str:
        branch = f"headgate-staging-{ULIDS.new().lower()}"
        self.lake.create_branch(self.repository, branch, at=at or self.first)
        self.lake.commit(
            self.repository, branch, Changes(puts={path: data}), message="stage", metadata=metadata(branch, self.first)
        )
        return branch

    def publish(self, branch: str, *, expected: Ref, lake: LakeFSLake | None = None, timeout: float = 30.0) -> Ref:
        return (lake or self.lake).merge(
            self.repository,
            branch,
            MAIN,
            expected_head=expected,
            message="publish",
            metadata=metadata(branch, expected),
            timeout=timeout,
        )

    def read_back(self, branch: str, *, input_ref: Ref) -> Outcome:
        """What an attempt does after a lost answer: revoke, then look for the publish id."""
        self.lake.revoke(self.repository, branch, target=MAIN)
        walk = (
            Head(branch=MAIN, ref=commit.ref, parents=commit.parents, metadata=commit.metadata)
            for commit in self.lake.log(self.repository, self.head())
        )
        asked = ReadBack(publish_id=PublishId(branch), revoked=True)
        return read_back_commit(asked, first_parents=walk, input_ref=input_ref)

    def head(self) -> Ref:
        return self.lake.head(self.repository, MAIN).ref

    def text(self, ref: Ref, path: str = "a") -> bytes:
        with self.lake.open(self.repository, ref, path) as file:
            return file.read()

    def gate(self) -> Gate:
        return Gate(self.lake.api, self.repository, MAIN)

    def exists(self, branch: str) -> bool:
        try:
            self.lake.head(self.repository, branch)
        except NotFound:
            return False
        return True


def metadata(branch: str, expected: Ref) -> dict[str, str]:
    return CommitMetadata(
        publish_id=PublishId(branch),
        expected_head=expected,
        orchestrator="test",
        workflow="w",
        reference_task="t",
        task_id=branch,
    ).to_map()


@pytest.fixture
def place(lakefs: Server) -> Iterator[Place]:
    with connect(lakefs) as lake:
        yield make_place(lake)


def make_place(lake: LakeFSLake) -> Place:
    repository = f"faults-{ULIDS.new().lower()}"
    lake.create_repository(repository)
    first = lake.commit(repository, MAIN, Changes(puts={"a": b"a1"}), message="first")
    return Place(lake, repository, first)


@pytest.fixture
def proxy(lakefs: Server) -> Iterator[FaultProxy]:
    with FaultProxy(lakefs.url) as proxy:
        yield proxy


@pytest.fixture
def faulty(lakefs: Server, proxy: FaultProxy, place: Place) -> Iterator[LakeFSLake]:
    """The same lake, through the proxy; its fence has been proved."""
    with connect(lakefs, through=proxy.url) as lake:
        lake.strength(place.repository)
        yield lake
