"""What the server's answers mean, one by one. The texts are those of a real server."""

import json

import pytest

from headgate.errors import (
    AccessDenied,
    AlreadyExists,
    Contention,
    DiskFull,
    HeadgateError,
    InvalidInput,
    InvalidSettings,
    MergeConflict,
    NotFound,
    NothingChanged,
    Transient,
)
from headgate.lake.lakefs.answers import Answer, Refusal, error_of, refusal
from headgate.lake.lakefs.client import Endpoint


def answer(status: int, message: str = "") -> Answer:
    return Answer(status=status, body=json.dumps({"message": message}).encode() if message else b"")


@pytest.mark.parametrize(
    ("told", "kind", "error"),
    [
        (answer(400, "commit: no changes"), "", NothingChanged),
        (answer(400, "main: uncommitted changes (dirty branch)"), "", Transient),
        (answer(400, "validation error"), "", InvalidInput),
        (answer(400, "commit: close writer: write /blocks/x: no space left on device"), "", DiskFull),
        (answer(500, "write /blocks/x: no space left on device\nfailed to write to storage"), "", DiskFull),
        (answer(401, "error authenticating request"), "", AccessDenied),
        (answer(403, "insufficient permissions"), "", AccessDenied),
        (answer(403, "cannot write to protected branch"), "", AccessDenied),
        (answer(404, "branch not found"), "branch", NotFound),
        (answer(409, "branch already exists: not unique"), "branch", AlreadyExists),
        (answer(409, "conflict found"), "", MergeConflict),
        (answer(410, "gone"), "object", NotFound),
        (answer(412, "update branch main: pre-merge hook aborted"), "", Transient),
        (answer(429, "too many requests"), "", Contention),
        (answer(500, "internal"), "", Transient),
        (answer(503), "", Transient),
        (answer(418), "", HeadgateError),
    ],
)
def test_every_answer_has_its_error(told: Answer, kind: str, error: type[HeadgateError]) -> None:
    got = error_of(told, doing="try", server="http://lake", kind=kind, name="it")
    assert type(got) is error
    assert got.hint or error is HeadgateError


def test_a_missing_repository_is_told_as_such() -> None:
    got = error_of(answer(404, "repository not found"), doing="x", server="s", kind="ref", name="abc")
    assert isinstance(got, NotFound)
    assert got.kind == "repository"


def test_refusals_are_told_apart() -> None:
    assert refusal(answer(400, "merge: no changes")) is Refusal.NO_CHANGES
    assert refusal(answer(400, "x: uncommitted changes (dirty branch)")) is Refusal.DIRTY
    assert refusal(answer(403, "cannot write to protected branch")) is Refusal.PROTECTED
    assert refusal(answer(412, "pre-merge hook aborted")) is Refusal.HOOK
    assert refusal(answer(412, "path already exists")) is Refusal.OTHER


def test_an_answer_that_is_not_json_is_shown_as_it_is() -> None:
    assert Answer(status=502, body=b"<html>bad gateway</html>").message == "<html>bad gateway</html>"


@pytest.mark.parametrize("url", ["", "lakefs.example.com", "ftp://x", "http://"])
def test_an_endpoint_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match=r"lakefs\.endpoint"):
        Endpoint(url=url, access_key_id="k", secret_access_key="s")


def test_an_endpoint_never_shows_its_secret() -> None:
    made = Endpoint(url="https://user:hidden@lake.example.com/api/v1", access_key_id="k", secret_access_key="hush")
    assert made.name == "https://lake.example.com"
    assert "hush" not in repr(made)
    assert "hidden" not in repr(made)
