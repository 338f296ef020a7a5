"""What a server may answer that the real one in our tests does not: keys it asks for, versions it does not have."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headgate.errors import (
    AccessDenied,
    AlreadyExists,
    HeadgateError,
    InvalidInput,
    InvalidSettings,
    NotFound,
    Transient,
    Unsupported,
)
from headgate.orchestrators.conductor import Client, Endpoint
from headgate.orchestrators.conductor.client import error_of


class Answers:
    """Answers as it is told; counts the tokens it gave out."""

    def __init__(self) -> None:
        self.version = "3.32.3"
        self.good_tokens: set[str] = set()
        self.given = 0
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.headers.get("X-Authorization") in answers.good_tokens:
                    self.answer(200, answers.version.encode())
                else:
                    self.answer(401, b'{"message": "who are you?"}')

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if asked == {"keyId": "me", "keySecret": "hush"}:
                    answers.given += 1
                    answers.good_tokens = {f"token-{answers.given}"}
                    self.answer(200, json.dumps({"token": f"token-{answers.given}"}).encode())
                else:
                    self.answer(401, b"")

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api"


@pytest.fixture
def answers() -> Iterator[Answers]:
    made = Answers()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def client_of(answers: Answers, secret: str = "hush") -> Client:
    return Client(Endpoint(url=answers.url, auth_key="me", auth_secret=secret))


def test_a_token_is_asked_for_once_and_again_when_it_is_no_longer_taken(answers: Answers) -> None:
    client = client_of(answers)
    assert client.version() == client.version() == "3.32.3"
    assert answers.given == 1
    answers.good_tokens = set()
    assert client.version() == "3.32.3"
    assert answers.given == 2
    client.close()


def test_keys_that_are_not_taken_are_told_without_the_secret(answers: Answers) -> None:
    client = client_of(answers, secret="wrong-secret")
    with pytest.raises(AccessDenied, match="does not take the key 'me'") as refused:
        client.version()
    assert "wrong-secret" not in f"{refused.value} {client.endpoint!r}"
    client.close()


def test_an_old_server_is_refused_with_what_it_lacks(answers: Answers) -> None:
    answers.version = "3.9.1"
    client = client_of(answers)
    with pytest.raises(Unsupported, match="version 3.9.1, and Headgate needs 3.12 or newer"):
        client.version()
    client.close()


def test_a_page_is_not_taken_for_a_version(answers: Answers) -> None:
    answers.version = "<!doctype html>"
    client = client_of(answers)
    with pytest.raises(InvalidSettings, match="there is no Conductor API at"):
        client.version()
    client.close()


@pytest.mark.parametrize("url", ["", "conductor:8080", "ftp://conductor/api"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match="conductor.server_url"):
        Endpoint(url=url)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInput),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, NotFound),
        (409, AlreadyExists),
        (429, Transient),
        (500, Transient),
        (503, Transient),
    ],
)
def test_answers_become_errors_of_ours(status: int, kind: type[HeadgateError]) -> None:
    error = error_of(status, b'{"message": "because"}', doing="do it", server="http://c/api")
    assert type(error) is kind
    assert str(error.message) == "Conductor could not do it: because"
