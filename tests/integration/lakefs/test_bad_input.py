"""Wrong addresses, keys and names get an error that names them and says what to do. Invariant 9."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.lakefs.conftest import Place, make_place
from tools.servers.running import free_port

from headgate.errors import AccessDenied, AlreadyExists, InvalidInput, InvalidSettings, NotFound, Transient
from headgate.lake.interface import MAIN, Changes
from headgate.lake.lakefs import Endpoint, LakeFSLake
from headgate.lake.opening import open_lakefs
from headgate.lake.transfer import download
from headgate.publication import Ref
from headgate.settings import Settings

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


@pytest.mark.parametrize("key", ["../up", "/absolute", "a/../../up"])
def test_a_key_that_would_escape_the_workspace_is_refused(place: Place, tmp_path: Path, key: str) -> None:
    assert place.lake.api.put_object(place.repository, MAIN, key, b"x", size=1).status == 201
    ref = Ref(place.lake.api.commit(place.repository, MAIN, message="odd", metadata={}).json()["id"])
    (tmp_path / "w").mkdir()
    with pytest.raises(InvalidInput, match="cannot be a file of a workspace"):
        download(place.lake, place.repository, ref, into=tmp_path / "w")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w"]


@pytest.mark.parametrize(
    "key", ["with space/a b", "Ünïcode/ß/日本", "x/" + "y" * 200 + "/" + "z" * 200, "a+b&c=d?e#f%2F"]
)
def test_unusual_keys_go_there_and_back(place: Place, tmp_path: Path, key: str) -> None:
    ref = place.lake.commit(place.repository, MAIN, Changes(puts={key: b"bytes"}), message="unusual")
    (tmp_path / "w").mkdir()
    download(place.lake, place.repository, ref, into=tmp_path / "w")
    assert (tmp_path / "w" / key).read_bytes() == b"bytes"


def test_an_endpoint_may_carry_the_path_of_the_api(place: Place) -> None:
    endpoint = replace(place.lake.client.endpoint, url=f"{place.lake.client.endpoint.url}/api/v1/")
    assert isinstance(endpoint, Endpoint)
    with LakeFSLake(endpoint) as lake:
        assert lake.head(place.repository, MAIN).ref == place.first
