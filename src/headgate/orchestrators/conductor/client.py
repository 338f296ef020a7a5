"""Calls to a Conductor server: one connection pool, a timeout on every call, nothing but reads repeated.

Of anything else whoever calls knows what a lost answer means, and whether to ask again.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from headgate._version import __version__
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

OLDEST = (3, 12)
"""The first version that extends a lease when it is asked to; older ones would hand out what still runs."""

_POOL = 32
_VERSION = re.compile(r"\d+[.]\d+")
_SECRETIVE = "***"
_PAUSES = (0.05, 0.2, 0.5)
"""Between two tries of a read."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a Conductor is, and as whom we call it."""

    url: str
    """The address of its API."""
    auth_key: str | None = None
    auth_secret: str | None = None
    connect_timeout: float = 5.0
    read_timeout: float = 15.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSettings(
                message=f"conductor.server_url is {self.url!r}, which is not an address of a server",
                hint="give it as https://conductor.example.com/api",
            )

    def __repr__(self) -> str:
        return f"Endpoint(url={self.name!r}, auth_key={self.auth_key!r}, auth_secret={_SECRETIVE!r})"

    @property
    def name(self) -> str:
        """The address without a password: for messages."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}"


class Client:
    """Calls to one server, from any thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.name = endpoint, endpoint.name
        self._root = urlsplit(self.name).path
        self._headers = {"User-Agent": f"headgate/{__version__}", "Accept": "application/json, text/plain"}
        self._token: str | None = None
        self._signing_in = threading.Lock()
        self._server = urllib3.connection_from_url(self.name, maxsize=_POOL, block=False)

    def close(self) -> None:
        self._server.close()

    def call(
        self,
        method: str,
        *path: str,
        doing: str,
        query: Mapping[str, str | int] | None = None,
        payload: Any = None,
        text: str | None = None,
        kind: str = "",
        name: str = "",
        timeout: float | None = None,
        repeat: bool = False,
    ) -> Any:
        """The answer, read as JSON where it is JSON; `kind` and `name` say what a 404 or 409 is about.

        `Transient` where there is no answer, or one that says to try again later; the request may have been carried
        out all the same. With `repeat`, for what changes nothing, only after a few tries.
        """
        url = self._root + "".join(f"/{quote(part, safe='')}" for part in path)
        if query:
            url += f"?{urlencode(query)}"
        body = text.encode() if text is not None else None if payload is None else json.dumps(payload).encode()
        pauses = list(_PAUSES) if repeat else []
        while True:
            try:
                got = self._send(method, url, body, timeout)
                if got.status == 401 and self.endpoint.auth_key is not None:
                    self._sign_in(again=True)
                    got = self._send(method, url, body, timeout)
                if 200 <= got.status < 300:
                    return _read(got.data)
                raise error_of(got.status, got.data, doing=doing, server=self.name, kind=kind, name=name)
            except AccessDenied:
                raise
            except Transient:
                if not pauses:
                    raise
                time.sleep(pauses.pop(0) * random.uniform(0.5, 1.0))

    def version(self) -> str:
        """The version of the server; `Unsupported` if it is too old, `InvalidSettings` if nothing speaks its API."""
        try:
            told = str(self.call("GET", "version", doing="say its version", timeout=self.endpoint.connect_timeout))
        except NotFound:
            told = ""
        if not _VERSION.match(told):  # a server that shows pages answers any path with one
            raise InvalidSettings(
                message=f"there is no Conductor API at {self.name}",
                hint="conductor.server_url ends with /api on most servers; one that is too old has no /version",
            )
        numbers = tuple(int(part) for part in told.split("-")[0].split(".") if part.isdecimal())
        if numbers and numbers < OLDEST:
            least = ".".join(map(str, OLDEST))
            raise Unsupported(
                message=f"the Conductor at {self.name} is version {told}, and Headgate needs {least} or newer",
                hint="update the server: an older one cannot extend a lease",
            )
        return told

    def _send(self, method: str, url: str, body: bytes | None, timeout: float | None) -> urllib3.BaseHTTPResponse:
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.endpoint.auth_key is not None:
            headers["X-Authorization"] = self._sign_in()
        return self._exchange(method, url, body, headers, timeout)

    def _exchange(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], timeout: float | None
    ) -> urllib3.BaseHTTPResponse:
        limits = urllib3.Timeout(connect=self.endpoint.connect_timeout, read=timeout or self.endpoint.read_timeout)
        try:
            return self._server.urlopen(
                method, url, body=body, headers=headers, timeout=limits, redirect=False, retries=False
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as fault:
            raise Transient(
                message=f"no Conductor answers at {self.name}",
                hint="check conductor.server_url and that the server runs",
            ) from fault
        except urllib3.exceptions.HTTPError as fault:
            raise Transient(
                message=f"{self.name} did not answer a {method}: {type(fault).__name__}",
                hint="the server is slow or was stopped: look at it, then try again",
            ) from fault

    def _sign_in(self, *, again: bool = False) -> str:
        """The token for the key pair: asked for once, and again when the server no longer takes it."""
        with self._signing_in:
            if self._token is None or again:
                pair = {"keyId": self.endpoint.auth_key, "keySecret": self.endpoint.auth_secret or ""}
                headers = {**self._headers, "Content-Type": "application/json"}
                got = self._exchange("POST", f"{self._root}/token", json.dumps(pair).encode(), headers, None)
                told = _read(got.data) if got.status == 200 else None
                if not isinstance(told, dict) or "token" not in told:
                    raise AccessDenied(
                        message=f"{self.name} does not take the key {self.endpoint.auth_key!r}: HTTP {got.status}",
                        hint="check conductor.auth_key and conductor.auth_secret",
                        right="sign in",
                    )
                self._token = str(told["token"])
            return self._token


def _read(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode(errors="replace")


def error_of(status: int, data: bytes, *, doing: str, server: str, kind: str = "", name: str = "") -> HeadgateError:
    """What an answer that is not the one hoped for means in our error tree."""
    told = _read(data)
    said = str(told.get("message") or "") if isinstance(told, dict) else str(told or "")[:500].strip()
    message = f"Conductor could not {doing}: {said or f'HTTP {status}'}"
    match status:
        case 401 | 403:
            return AccessDenied(message=message, hint=f"grant the right to {doing} at {server}", right=doing)
        case 404:
            return NotFound(message=message, hint=f"look for it at {server}", kind=kind, name=name)
        case 409:
            return AlreadyExists(message=message, hint="choose another name", kind=kind, name=name)
        case 408 | 425 | 429:
            return Transient(message=message, hint="the server asks for patience: try again later")
        case _ if status >= 500:
            return Transient(message=message, hint="look at the server's log, then try again")
    return InvalidInput(message=message, hint="the server says what is wrong with it")
