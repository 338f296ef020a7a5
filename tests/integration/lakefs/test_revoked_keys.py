"""Keys that are revoked while an attempt runs: by a gateway that answers 401 or 403, and by the server itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.integration.lakefs.world import FaultyWorld, check, faulty_world
from tests.unit.attempts.kit import WRITE, at
from tools.servers import Server, lakefs_server
from tools.servers.fixtures import available
from tools.servers.proxy import Armed, Fault, FaultProxy

from headgate.attempts.report import AttemptReport
from headgate.errors import AccessDenied
from headgate.failpoints import Failpoint
from headgate.lake.lakefs import LakeFSLake
from headgate.tasks.failures import Phase

pytestmark = pytest.mark.real

MERGE = r"/refs/headgate-staging-[^/]+/merge/main"
ALWAYS = 1_000_000
TOLD = {401: "does not know these keys", 403: "grant the right to this user"}
BEFORE_PUBLISHING = [
    (Failpoint.ATTEMPT_BEFORE_DOWNLOAD, Phase.DOWNLOAD, "list objects at", False),
    (Failpoint.ATTEMPT_AFTER_BODY, Phase.STAGE, "create the branch", False),
    (Failpoint.ATTEMPT_STAGING_CREATED, Phase.STAGE, "stage out.txt on", True),
    (Failpoint.ATTEMPT_STAGED, Phase.PUBLISH_FENCE, "read the branch main", True),
    (Failpoint.ATTEMPT_AFTER_SECOND_FENCE, Phase.PUBLISH, "", True),
]
"""From where on nothing is allowed, the phase that fails, what it may not do, and whether staging is left behind."""


@pytest.fixture(scope="module")
def changed() -> Iterator[Server]:
    """A server whose configuration these tests may change; each puts it back."""
    with available(), lakefs_server() as server:
        yield server


@pytest.fixture
def world(changed: Server, tmp_path: Path) -> Iterator[FaultyWorld]:
    with faulty_world(changed, tmp_path / "kit") as world:
        yield world


@dataclass
class Refused:
    """Nothing is allowed from `begin` to `end`."""

    proxy: FaultProxy
    status: int
    armed: tuple[Armed, ...] = ()

    def begin(self) -> None:
        methods = ("GET", "POST", "PUT", "DELETE", "HEAD")
        self.armed = tuple(
            self.proxy.next(method, "", Fault.ANSWER, times=ALWAYS, status=self.status) for method in methods
        )

    def end(self) -> None:
        for armed in self.armed:
            armed.lift()


@pytest.mark.parametrize("status", TOLD)
@pytest.mark.parametrize(("window", "phase", "doing", "leaves"), BEFORE_PUBLISHING)
def test_keys_refused_before_the_publish_fail_the_attempt(
    world: FaultyWorld, status: int, window: Failpoint, phase: Phase, doing: str, leaves: bool
) -> None:
    attempt = world.kit.submit(WRITE)
    refused = Refused(world.proxy, status)
    with at(window, refused.begin):
        report = world.kit.run(WRITE, attempt)
    assert (report.status, report.phase) == ("FAILED", phase)
    assert isinstance(report.error, AccessDenied)
    assert f"lakeFS could not {doing}" in report.reason
    assert TOLD[status] in report.reason
    assert world.kit.orchestrator.task(attempt.id.task_id).status == "FAILED"
    refused.end()
    assert world.kit.head() == world.kit.input_ref
    assert bool(world.kit.staging_branches()) is leaves
    check(world, attempt.id.workflow)


@pytest.mark.parametrize("status", TOLD)
def test_a_merge_that_is_not_allowed_names_the_right_and_cleans_up(world: FaultyWorld, status: int) -> None:
    attempt = world.kit.submit(WRITE)
    world.proxy.next("POST", MERGE, Fault.ANSWER, status=status)
    report = world.kit.run(WRITE, attempt)
    assert (report.status, report.phase) == ("FAILED", Phase.PUBLISH)
    assert isinstance(report.error, AccessDenied)
    assert report.error.right.startswith("merge headgate-staging-")
    assert world.kit.staging_branches() == []
    check(world, attempt.id.workflow)
    assert world.proxy.count("POST", MERGE) == 2


@pytest.mark.parametrize("status", TOLD)
@pytest.mark.parametrize("window", [Failpoint.ATTEMPT_PUBLISHED, Failpoint.ATTEMPT_COMPLETED])
def test_keys_refused_after_the_publish_leave_a_success_and_its_staging_to_gc(
    world: FaultyWorld, status: int, window: Failpoint
) -> None:
    attempt = world.kit.submit(WRITE)
    refused = Refused(world.proxy, status)
    with at(window, refused.begin):
        report = world.kit.run(WRITE, attempt)
    assert report.ok
    refused.end()
    assert len(world.kit.staging_branches()) == 1
    check(world, attempt.id.workflow)


def test_a_reset_that_is_not_allowed_leaves_head_and_gate_as_they_were(world: FaultyWorld) -> None:
    retry = world.abandon()
    head = world.kit.head()
    world.proxy.next("PUT", r"/branches/main/hard_reset", Fault.ANSWER, status=403)
    report = world.kit.run(WRITE, retry)
    assert (report.status, report.phase) == ("FAILED", Phase.PUBLISH)
    assert isinstance(report.error, AccessDenied)
    assert world.kit.head() == head
    assert not world.gate().state().shut
    check(world, retry.id.workflow)


# ------------------------------------------------------------------------------------------- keys that really are gone
@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[FaultyWorld]:
    """A server that looks every key up, where others hold it in memory for some seconds after it was deleted."""
    with available(), lakefs_server() as server:
        server.commands = [replace(command, env={"LAKEFS_AUTH_CACHE_ENABLED": "false"}) for command in server.commands]
        server.restart()
        with faulty_world(server, tmp_path / "kit") as world:
            yield world


def delete_user(world: FaultyWorld) -> None:
    """Delete the only user, and its key with it."""
    assert isinstance(world.kit.lake, LakeFSLake)
    world.kit.lake.client.expect("DELETE", "auth", "users", "admin", doing="delete the user")


ENDINGS = pytest.mark.parametrize(
    ("window", "status"),
    [
        (Failpoint.ATTEMPT_BEFORE_DOWNLOAD, "FAILED"),
        (Failpoint.ATTEMPT_STAGING_CREATED, "FAILED"),
        (Failpoint.ATTEMPT_AFTER_SECOND_FENCE, "FAILED"),
        (Failpoint.ATTEMPT_PUBLISHED, "COMPLETED"),
    ],
)


def check_ending(report: AttemptReport, status: str) -> None:
    assert report.status == status
    if status == "FAILED":
        assert isinstance(report.error, AccessDenied)
        assert TOLD[401] in report.reason


@ENDINGS
def test_a_user_that_was_deleted(forgetful: FaultyWorld, window: Failpoint, status: str) -> None:
    """The open-source server cannot be given a user again, so that this ends here; the next test goes on."""
    attempt = forgetful.kit.submit(WRITE)
    with at(window, lambda: delete_user(forgetful)):
        report = forgetful.kit.run(WRITE, attempt)
    check_ending(report, status)


@ENDINGS
def test_keys_that_the_server_cannot_read_any_more(world: FaultyWorld, window: Failpoint, status: str) -> None:
    """A server that is started with another encryption key knows none of the keys it has given out."""
    config = world.server.data / "lakefs.yaml"
    as_it_was = config.read_text()
    changed = json.loads(as_it_was)
    changed["auth"]["encrypt"]["secret_key"] = "another" * 8

    def start_with(text: str) -> None:
        config.write_text(text)
        world.server.restart()

    attempt = world.kit.submit(WRITE)
    with at(window, lambda: start_with(json.dumps(changed))):
        report = world.kit.run(WRITE, attempt)
    check_ending(report, status)
    start_with(as_it_was)
    assert (world.kit.head() == world.kit.input_ref) is (status == "FAILED")
    check(world, attempt.id.workflow)
