"""Our calls to lakeFS are those of the official SDK: same method, same path, no parameter or field it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lakefs_sdk
import pytest
from lakefs_sdk.client import LakeFSClient

from headgate.lake.lakefs.answers import Answer
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.client import Client, Endpoint

COMMIT = {"id": "c", "parents": [], "creation_date": 0, "message": "m", "committer": "u", "metadata": {}}
STATS = {"path": "p", "checksum": "x", "size_bytes": 1, "physical_address": "a"}
ANSWER: dict[str, Any] = {
    **COMMIT,
    **STATS,
    "commit_id": "c",
    "default_branch": "main",
    "pagination": {"has_more": False, "next_offset": ""},
    "results": [],
}


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    query: frozenset[str]
    body: frozenset[str]


class Recorder(Client):
    """Our client with its wire cut: it notes what it would send."""

    def __init__(self) -> None:
        super().__init__(Endpoint(url="http://127.0.0.1:1", access_key_id="k", secret_access_key="s"))
        self.calls: list[Call] = []
        self.answer: Any = ANSWER

    def call(self, method: str, *path: str, query: Any = None, payload: Any = None, **_: Any) -> Answer:
        self.calls.append(Call(method, "/" + "/".join(path), frozenset(query or ()), frozenset(payload or ())))
        status = 204 if method == "DELETE" else 200
        return Answer(status=status, body=json.dumps(self.answer).encode())


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> tuple[LakeFSClient, list[Call]]:
    made = LakeFSClient(lakefs_sdk.Configuration(host="http://127.0.0.1:1/api/v1", username="k", password="s"))
    calls: list[Call] = []

    def record(self: Any, path: str, method: str, path_params: Any, query: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in path_params.items():
            path = path.replace("{" + name + "}", str(value))
        body = kwargs.get("body")
        if body is None and len(args) > 1:
            body = args[1]
        sent = body.to_dict() if hasattr(body, "to_dict") else {}
        calls.append(Call(method, path, frozenset(name for name, _ in query or ()), frozenset(sent)))

    monkeypatch.setattr(lakefs_sdk.ApiClient, "call_api", record)
    return made, calls


R, B = "repo", "branch"
PAGED = {"after": "x", "amount": 5}
PAIRS: dict[str, tuple[Callable[[Api], Any], Callable[[LakeFSClient], Any]]] = {
    "facts": (lambda a: a.facts(), lambda s: s.config_api.get_config()),
    "repositories": (lambda a: list(a.repositories()), lambda s: s.repositories_api.list_repositories(**PAGED)),
    "create repository": (
        lambda a: a.create_repository(R, namespace="local://r", default_branch="main"),
        lambda s: s.repositories_api.create_repository(
            lakefs_sdk.RepositoryCreation(name=R, storage_namespace="local://r", default_branch="main")
        ),
    ),
    "default branch": (lambda a: a.default_branch(R), lambda s: s.repositories_api.get_repository(R)),
    "branches": (
        lambda a: list(a.branches(R, prefix="p")),
        lambda s: s.branches_api.list_branches(R, prefix="p", **PAGED),
    ),
    "branch": (lambda a: a.find_branch(R, B), lambda s: s.branches_api.get_branch(R, B)),
    "create branch": (
        lambda a: a.create_branch(R, B, at="c"),
        lambda s: s.branches_api.create_branch(R, lakefs_sdk.BranchCreation(name=B, source="c")),
    ),
    "delete branch": (lambda a: a.delete_branch(R, B), lambda s: s.branches_api.delete_branch(R, B)),
    "uncommitted": (lambda a: list(a.uncommitted(R, B)), lambda s: s.branches_api.diff_branch(R, B, **PAGED)),
    "drop uncommitted": (
        lambda a: a.drop_uncommitted(R, B),
        lambda s: s.branches_api.reset_branch(R, B, lakefs_sdk.ResetCreation(type="reset")),
    ),
    "commit at": (lambda a: a.commit_at(R, "c"), lambda s: s.commits_api.get_commit(R, "c")),
    "log": (
        lambda a: list(a.log(R, "c", first_parent=True)),
        lambda s: s.refs_api.log_commits(R, "c", first_parent=True, **PAGED),
    ),
    "commit": (
        lambda a: a.commit(R, B, message="m", metadata={"k": "v"}),
        lambda s: s.commits_api.commit(R, B, lakefs_sdk.CommitCreation(message="m", metadata={"k": "v"})),
    ),
    "merge": (
        lambda a: a.merge(R, "s", B, message="m", metadata={"k": "v"}, squash=True, timeout=None),
        lambda s: s.refs_api.merge_into_branch(
            R, "s", B, merge=lakefs_sdk.Merge(message="m", metadata={"k": "v"}, squash_merge=True)
        ),
    ),
    "poke": (
        lambda a: a.poke(R, "nowhere", B),
        lambda s: s.refs_api.merge_into_branch(R, "nowhere", B, merge=lakefs_sdk.Merge(squash_merge=True)),
    ),
    "hard reset": (
        lambda a: a.hard_reset(R, B, to="s", timeout=None),
        lambda s: s.experimental_api.hard_reset_branch(R, B, ref="s"),
    ),
    "diff": (
        lambda a: list(a.diff(R, "x", "y", prefix="p")),
        lambda s: s.refs_api.diff_refs(R, "x", "y", prefix="p", type="two_dot", **PAGED),
    ),
    "hook runs": (lambda a: a.hook_ran(R, "c"), lambda s: s.actions_api.list_repository_runs(R, commit="c", amount=1)),
    "objects": (
        lambda a: list(a.objects(R, "c", prefix="p")),
        lambda s: s.objects_api.list_objects(R, "c", prefix="p", user_metadata=False, **PAGED),
    ),
    "find object": (
        lambda a: a.find_object(R, "c", "p"),
        lambda s: s.objects_api.stat_object(R, "c", path="p", user_metadata=False),
    ),
    "presigned": (
        lambda a: a.presigned(R, "c", "p"),
        lambda s: s.objects_api.stat_object(R, "c", path="p", user_metadata=False, presign=True),
    ),
    "read object": (lambda a: a.read_object(R, "c", "p"), lambda s: s.objects_api.get_object(R, "c", path="p")),
    "put object": (
        lambda a: a.put_object(R, B, "p", b"x", size=1),
        lambda s: s.objects_api.upload_object(R, B, path="p", content=b"x"),
    ),
    "delete objects": (
        lambda a: a.delete_objects(R, B, ["p"]),
        lambda s: s.objects_api.delete_objects(R, B, lakefs_sdk.PathList(paths=["p"])),
    ),
    "backing": (
        lambda a: a.backing(R, B, "p"),
        lambda s: s.staging_api.get_physical_address(R, B, path="p", presign=True),
    ),
    "link": (
        lambda a: a.link(R, B, "p", staging={"physical_address": "a"}, checksum="x", size=1),
        lambda s: s.staging_api.link_physical_address(
            R,
            B,
            path="p",
            staging_metadata=lakefs_sdk.StagingMetadata(
                staging=lakefs_sdk.StagingLocation(physical_address="a"), checksum="x", size_bytes=1
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_call_is_the_one_the_sdk_makes(name: str, sdk: tuple[LakeFSClient, list[Call]]) -> None:
    ours, theirs = PAIRS[name]
    recorder = Recorder()
    ours(Api(recorder))
    client, calls = sdk
    theirs(client)
    (expected,) = calls
    (made,) = recorder.calls
    assert (made.method, made.path, made.query) == (expected.method, expected.path, expected.query)
    assert made.body <= expected.body


def test_every_call_of_ours_is_held_against_the_sdk() -> None:
    """Protection rules are only shown; conflicts are the same endpoint as the diff."""
    public = {name for name in vars(Api) if not name.startswith("_")}
    used = {name for _, (ours, _) in PAIRS.items() for name in ours.__code__.co_names}
    assert public - used == {"branch", "object_path", "protected_patterns", "conflicts"}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("Commit", {"id", "parents", "message", "committer", "creation_date", "metadata"}),
        ("Ref", {"id", "commit_id"}),
        ("ObjectStats", {"path", "checksum", "size_bytes", "physical_address"}),
        ("Diff", {"path", "type", "size_bytes"}),
        ("Pagination", {"has_more", "next_offset"}),
        ("MergeResult", {"reference"}),
        ("StagingLocation", {"physical_address", "presigned_url"}),
        ("StorageConfig", {"pre_sign_support", "blockstore_type", "default_namespace_prefix"}),
        ("VersionConfig", {"version"}),
        ("ObjectError", {"status_code", "path"}),
        ("Repository", {"id", "default_branch"}),
    ],
)
def test_the_fields_we_read_are_fields_of_the_answer(model: str, fields: set[str]) -> None:
    assert fields <= set(getattr(lakefs_sdk, model).__fields__)
