"""One connection pool to a lakeFS server: timeouts on every call, bounded retries where repeating is harmless.

Merge and hard reset are never repeated: an answer that is lost comes out as `LostAnswer`, and the caller reads back.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from headgate._version import __version__
from headgate.errors import InvalidSettings, Transient
from headgate.lake.files import CHUNK
from headgate.lake.lakefs.answers import Answer, error_of

API = "/api/v1"
POOL = 32
"""Connections kept open; more threads than this wait for one."""

_TRIES = 4
_PAUSES = (0.1, 0.4, 1.6)
_PASSING = (429, 500, 502, 503, 504)
_SECRETIVE = "***"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a lakeFS is, and as whom we call it."""

    url: str
    access_key_id: str
    secret_access_key: str
    connect_timeout: float = 5.0
    read_timeout: float = 60.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSettings(
                message=f"lakefs.endpoint is {self.url!r}, which is not an address of a server",
                hint="give it as https://lakefs.example.com",
            )

    def __repr__(self) -> str:
        return f"Endpoint(url={self.name!r}, access_key_id={self.access_key_id!r}, secret_access_key={_SECRETIVE!r})"

    @property
    def name(self) -> str:
        """The address without keys: for messages, records and cache keys."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/').removesuffix(API)}"


@dataclass(eq=False, kw_only=True)
class LostAnswer(Transient):
    """The request may have reached the server, and no answer came back."""


class Client:
    """Calls to one server, from any thread. `requests` counts them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.name = endpoint.name
        self.requests = 0
        self._counting = threading.Lock()
        self._root = urlsplit(self.name).path + API
        self._limits = self._timeout(None)
        self._headers = {
            **urllib3.make_headers(basic_auth=f"{endpoint.access_key_id}:{endpoint.secret_access_key}"),
            "User-Agent": f"headgate/{__version__}",
        }
        self._server = urllib3.connection_from_url(self.name, maxsize=POOL, block=False, blocksize=CHUNK)
        self._elsewhere = urllib3.PoolManager(maxsize=POOL, block=False, blocksize=CHUNK)

    def close(self) -> None:
        self._server.close()
        self._elsewhere.clear()

    def call(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str | int | bool] | None = None,
        payload: Any = None,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        repeat: bool = True,
    ) -> Answer:
        """The server's answer, whatever its status. A call with `repeat` is made again, a few times, while it fails.

        Raises `Transient` where the server cannot be reached, `LostAnswer` where a request was sent and not answered.
        """
        sent = dict(headers or {})
        if payload is not None:
            body, sent["Content-Type"] = json.dumps(payload).encode(), "application/json"
        start = body.tell() if body is not None and not isinstance(body, bytes) else 0
        url = self._url(path, query)
        tries = _TRIES if repeat else 1
        for number in range(1, tries + 1):
            if number > 1 and body is not None and not isinstance(body, bytes):
                body.seek(start)
            try:
                got = self._send(method, url, body, sent, timeout)
                answer = Answer(status=got.status, body=got.data, headers=got.headers)
                if answer.status not in _PASSING or number == tries:
                    return answer
            except Transient:
                if number == tries:
                    raise
            time.sleep(_PAUSES[number - 1] * random.uniform(0.5, 1.0))
        raise AssertionError("unreachable")

    def expect(
        self, method: str, *path: str, doing: str, kind: str = "", name: str = "", ok: tuple[int, ...] = (), **call: Any
    ) -> Answer:
        """The answer if its status is one of `ok` (any 2xx if none are given); else the error it means."""
        answer = self.call(method, *path, **call)
        if answer.status in ok if ok else 200 <= answer.status < 300:
            return answer
        repository = path[1] if path[0] == "repositories" and len(path) > 1 else ""
        raise error_of(answer, doing=doing, server=self.name, kind=kind, name=name, repository=repository)

    @contextmanager
    def stream(
        self, *path: str, query: Mapping[str, str | int | bool], doing: str, kind: str, name: str
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """The body of a GET, unread; every fault while it is read is `Transient`."""
        with self._faults("GET"):
            got = self._server.urlopen(
                "GET",
                self._url(path, query),
                headers=self._headers,
                timeout=self._limits,
                preload_content=False,
                redirect=False,
                retries=False,
            )
        with self._reading(got, doing=doing, kind=kind, name=name):
            yield got

    @contextmanager
    def stream_from(self, url: str, *, doing: str) -> Iterator[urllib3.BaseHTTPResponse]:
        """The body of a presigned URL: our keys are not sent along."""
        with self._faults("GET"):
            got = self._elsewhere.request(
                "GET", url, timeout=self._limits, preload_content=False, redirect=False, retries=False
            )
        with self._reading(got, doing=doing, kind="object", name=""):
            yield got

    def put_to(self, url: str, body: IO[bytes], *, size: int) -> Answer:
        """Upload to a presigned URL: our keys are not sent along."""
        with self._faults("PUT"):
            got = self._elsewhere.request(
                "PUT",
                url,
                body=body,
                headers={"Content-Length": str(size)},
                timeout=self._limits,
                redirect=False,
                retries=False,
            )
        return Answer(status=got.status, body=got.data, headers=got.headers)

    # ---------------------------------------------------------------------------------------------------------------
    def _url(self, path: tuple[str, ...], query: Mapping[str, str | int | bool] | None) -> str:
        shown = {k: str(v).lower() if isinstance(v, bool) else v for k, v in (query or {}).items()}
        return f"{self._root}{_joined(path)}" + (f"?{urlencode(shown)}" if shown else "")

    def _timeout(self, read: float | None) -> urllib3.Timeout:
        return urllib3.Timeout(
            connect=self.endpoint.connect_timeout, read=self.endpoint.read_timeout if read is None else read
        )

    def _send(
        self, method: str, url: str, body: bytes | IO[bytes] | None, headers: Mapping[str, str], timeout: float | None
    ) -> urllib3.BaseHTTPResponse:
        with self._faults(method):
            return self._server.urlopen(
                method,
                url,
                body=body,
                headers={**self._headers, **headers} if headers else self._headers,
                timeout=self._limits if timeout is None else self._timeout(timeout),
                redirect=False,
                retries=False,
            )

    @contextmanager
    def _reading(self, got: urllib3.BaseHTTPResponse, *, doing: str, kind: str, name: str) -> Iterator[None]:
        whole = False
        try:
            if got.status not in (200, 206):
                answer = Answer(status=got.status, body=got.read(), headers=got.headers)
                raise error_of(answer, doing=doing, server=self.name, kind=kind, name=name)
            with self._faults("GET", counts=False):
                yield
            whole = True
        finally:
            if whole:
                got.release_conn()
            else:
                got.close()

    @contextmanager
    def _faults(self, method: str, *, counts: bool = True) -> Iterator[None]:
        if counts:
            with self._counting:
                self.requests += 1
        try:
            yield
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as fault:
            raise Transient(
                message=f"no lakeFS answers at {self.name}",
                hint="check lakefs.endpoint and that the server runs",
            ) from fault
        except urllib3.exceptions.HTTPError as fault:
            raise LostAnswer(
                message=f"{self.name} did not answer a {method}: {type(fault).__name__}",
                hint="the server is slow or was stopped: look at it, then try again",
            ) from fault


@lru_cache(maxsize=1024)
def _joined(path: tuple[str, ...]) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in path)
