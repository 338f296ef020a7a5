"""Wrong addresses, keys and names get an error that names them and says what to do. Invariant 9."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.lakefs.conftest import Place, connect, make_place
from tests.unit.attempts.kit import WRITE, Kit, fresh_repository
from tools.servers import Server
from tools.servers.running import free_port

from headgate.errors import AccessDenied, AlreadyExists, InvalidInput, InvalidSettings, NotFound, Transient, Unsupported
from headgate.lake.interface import MAIN, Changes
from headgate.lake.lakefs import Endpoint, LakeFSLake, proof
from headgate.lake.opening import open_lakefs
from headgate.lake.transfer import download
from headgate.publication import Ref
from headgate.settings import Settings
from headgate.tasks.failures import Phase

pytestmark = pytest.mark.real


def test_an_endpoint_where_nobody_listens_is_transient_and_told(place: Place) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with LakeFSLake(replace(place.lake.client.endpoint, url=url)) as lake:
        with pytest.raises(Transient, match="no lakeFS answers at") as told:
            lake.head(place.repository, MAIN)
        assert "lakefs.endpoint" in told.value.hint


def test_wrong_keys_are_told_without_the_secret(place: Place) -> None:
    endpoint = replace(place.lake.client.endpoint, secret_access_key="hush-hush")
    with LakeFSLake(endpoint) as lake, pytest.raises(AccessDenied) as told:
        lake.head(place.repository, MAIN)
    assert "lakefs.secret_access_key" in told.value.hint
    assert "hush-hush" not in str(told.value)


def test_settings_without_keys_name_what_is_not_set() -> None:
    with pytest.raises(InvalidSettings, match=r"lakefs\.access_key_id, lakefs\.secret_access_key"):
        open_lakefs(Settings.model_validate({"lakefs": {"endpoint": "http://127.0.0.1:1"}}))


def test_a_repository_or_branch_that_is_not_there_is_named(place: Place) -> None:
    with pytest.raises(NotFound) as told:
        place.lake.commit_at("no-such-repository", place.first)
    assert told.value.kind == "repository"
    with pytest.raises(NotFound) as told:
        place.lake.head(place.repository, "no-such-branch")
    assert told.value.name == "no-such-branch"


def test_a_ref_of_another_repository_is_not_found(place: Place) -> None:
    other = make_place(place.lake)
    theirs = other.publish(other.stage(b"theirs"), expected=other.first)
    with pytest.raises(NotFound):
        place.lake.commit_at(place.repository, theirs)
    with pytest.raises(NotFound):
        list(place.lake.objects(place.repository, theirs))
    with pytest.raises(NotFound):
        place.lake.create_branch(place.repository, "headgate-staging-x", at=theirs)


def test_a_branch_that_is_taken_is_told(place: Place) -> None:
    place.lake.create_branch(place.repository, "mine", at=place.first)
    with pytest.raises(AlreadyExists, match="mine"):
        place.lake.create_branch(place.repository, "mine", at=place.first)


@pytest.mark.parametrize("name", ["ab", "Upper", "under_score", "-dash", "x" * 64, "a b"])
def test_a_repository_name_that_the_server_does_not_take_is_refused_before_it_is_asked(place: Place, name: str) -> None:
    before = place.lake.client.requests
    with pytest.raises(InvalidInput, match="cannot be the name"):
        place.lake.create_repository(name)
    assert place.lake.client.requests == before


@pytest.mark.parametrize("key", ["../up", "/absolute", "a/../../up", "a//b", "dir/./b"])
def test_a_key_that_would_escape_the_workspace_is_refused(place: Place, tmp_path: Path, key: str) -> None:
    assert place.lake.api.put_object(place.repository, MAIN, key, b"x", size=1).status == 201
    ref = Ref(place.lake.api.commit(place.repository, MAIN, message="odd", metadata={}).json()["id"])
    (tmp_path / "w").mkdir()
    with pytest.raises(InvalidInput, match="cannot be a file of a workspace"):
        download(place.lake, place.repository, ref, into=tmp_path / "w")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w"]


@pytest.mark.parametrize(
    "key",
    [
        "with space/a b",
        "Ünïcode/ß/日本",
        "x/" + "y" * 200 + "/" + "z" * 200,
        "/".join(["thousand" * 12 + "abc"] * 10),
        "a+b&c=d?e#f%2F",
    ],
)
def test_unusual_keys_go_there_and_back(place: Place, tmp_path: Path, key: str) -> None:
    ref = place.lake.commit(place.repository, MAIN, Changes(puts={key: b"bytes"}), message="unusual")
    (tmp_path / "w").mkdir()
    download(place.lake, place.repository, ref, into=tmp_path / "w")
    assert (tmp_path / "w" / key).read_bytes() == b"bytes"


@pytest.mark.parametrize("key", ["n" * 1000, "n" * 1000 + "/b"])
def test_a_name_that_no_disk_takes_is_refused(place: Place, tmp_path: Path, key: str) -> None:
    ref = place.lake.commit(place.repository, MAIN, Changes(puts={key: b"bytes"}), message="long")
    (tmp_path / "w").mkdir()
    with pytest.raises(InvalidInput, match="too long a name for this disk") as told:
        download(place.lake, place.repository, ref, into=tmp_path / "w")
    assert "exclude" in told.value.hint


def test_a_marker_of_a_folder_is_no_file_and_breaks_nothing(place: Place, tmp_path: Path) -> None:
    for key in ("dir/", "dir/file"):
        assert place.lake.api.put_object(place.repository, MAIN, key, b"x", size=1).status == 201
    ref = Ref(place.lake.api.commit(place.repository, MAIN, message="odd", metadata={}).json()["id"])
    (tmp_path / "w").mkdir()
    download(place.lake, place.repository, ref, into=tmp_path / "w")
    found = sorted(str(path.relative_to(tmp_path / "w")) for path in (tmp_path / "w").rglob("*"))
    assert found == ["a", "dir", "dir/file"]


def test_a_server_that_is_too_old_publishes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "OLDEST", (99, 0))
    branch = place.stage(b"a2")
    with pytest.raises(Unsupported, match=r"is lakeFS 1\.84\.0; the fence needs 99\.0 or later") as told:
        place.publish(branch, expected=place.first)
    assert "upgrade the server" in told.value.hint
    assert place.head() == place.first


# ------------------------------------------------------------------------------------------------- through an attempt
@pytest.fixture
def kit(lakefs: Server, tmp_path: Path) -> Iterator[Kit]:
    kit = Kit.make(tmp_path / "kit", connect(lakefs), repository=fresh_repository())
    yield kit
    kit.close()


def test_a_ref_that_is_none_of_the_repository_ends_the_task(kit: Kit) -> None:
    """Trying again cannot help: the same input never names a commit."""
    others = fresh_repository()
    kit.lake.create_repository(others)
    theirs = kit.lake.commit(others, MAIN, Changes(puts={"a": b"theirs"}), message="theirs")
    for ref in (MAIN, kit.input_ref[:12], f"{kit.input_ref}~1", theirs, "0" * 64):
        report = kit.run(WRITE, kit.submit(WRITE, ref=ref))
        assert (report.status, report.phase) == ("FAILED_WITH_TERMINAL_ERROR", Phase.DOWNLOAD), ref
        assert ref in report.reason
        assert isinstance(report.error, NotFound)
        assert report.error.hint
    assert kit.head() == kit.input_ref
    kit.assert_nothing_left()


@pytest.mark.parametrize("place_of", [{"repository": "no-such-repository"}, {"branch": "no-such-branch"}])
def test_a_repository_or_branch_that_is_not_there_publishes_nothing(kit: Kit, place_of: dict[str, str]) -> None:
    task_input = {"workspace": {**kit.block(), **place_of}, "params": {}}
    submitted = kit.orchestrator.submit(WRITE.name, task_input, retry=kit.retry)
    report = kit.run(WRITE, kit.poll(WRITE, submitted.workflow))
    assert not report.ok
    assert report.status is not None
    assert isinstance(report.error, NotFound)
    assert next(iter(place_of.values())) in report.reason
    assert report.error.hint
    kit.assert_nothing_left()


def test_an_endpoint_may_carry_the_path_of_the_api(place: Place) -> None:
    endpoint = replace(place.lake.client.endpoint, url=f"{place.lake.client.endpoint.url}/api/v1/")
    assert isinstance(endpoint, Endpoint)
    with LakeFSLake(endpoint) as lake:
        assert lake.head(place.repository, MAIN).ref == place.first
