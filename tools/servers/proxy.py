"""A loopback HTTP proxy that loses, holds or answers single requests: the network between a client and a real server.

with FaultProxy(server.url) as proxy:
    fault = proxy.next("POST", r"/merge/", Fault.HOLD_REQUEST)
    …                        # a client of proxy.url that times out
    fault.release()          # now the request reaches the server, late
    fault.over.wait()
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import urllib3

from tools.servers.running import LOOPBACK

_PATIENCE = 60.0


class Fault(Enum):
    DROP_REQUEST = "the request never reaches the server"
    DROP_ANSWER = "the server acts, its answer is lost"
    HOLD_REQUEST = "the request reaches the server when it is released, whether or not anybody still waits"
    HOLD_ANSWER = "the server acts at once, its answer comes when it is released"
    ANSWER = "the proxy answers by itself"


@dataclass
class Armed:
    """One fault, for as many requests as it was armed for."""

    method: str
    path: re.Pattern[str]
    fault: Fault
    left: int
    status: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)
    """A request has come under this fault."""
    over: threading.Event = field(default_factory=threading.Event)
    """The proxy is done with it."""
    statuses: list[int] = field(default_factory=list)
    """What the server answered."""
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self._released.set()

    def lift(self) -> None:
        """Let no further request meet this fault."""
        self.left = 0
        self.release()

    def wait(self) -> None:
        self._released.wait(_PATIENCE)


@dataclass(frozen=True)
class Seen:
    method: str
    path: str


class FaultProxy:
    """Forwards everything, but for what it was told."""

    def __init__(self, upstream: str, *, keep_host: bool = False) -> None:
        """`keep_host`: for servers that check signatures, which are made for the address the client knows."""
        self._upstream = upstream
        self._dropped = {"connection"} if keep_host else {"host", "connection"}
        self._pool = urllib3.PoolManager(maxsize=32, retries=False, timeout=_PATIENCE)
        self._armed: list[Armed] = []
        self._lock = threading.Lock()
        self._every: tuple[int, Fault] | None = None
        self.seen: list[Seen] = []
        self.dropped = 0
        """Requests that met the fault of `every`."""
        self.watch: Callable[[Seen], None] = lambda seen: None
        """Told of each request once the server has answered it, and before the client is."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with suppress(ConnectionError, TimeoutError):
                    super().handle_one_request()

            def log_message(self, *_: Any) -> None:
                pass

            def forward(self) -> None:
                proxy._handle(self)

        for method in ("GET", "POST", "PUT", "DELETE", "HEAD"):
            setattr(Handler, f"do_{method}", Handler.forward)
        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for armed in self._armed:
            armed.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._pool.clear()

    def next(self, method: str, path: str, fault: Fault, *, times: int = 1, status: int = 503) -> Armed:
        """Let the next `times` requests of that method, with `path` found in their path, meet a fault."""
        armed = Armed(method, re.compile(path), fault, times, status)
        with self._lock:
            self._armed.append(armed)
        return armed

    def lift(self) -> None:
        """Let no further request meet any fault."""
        with self._lock:
            self._every = None
            for armed in self._armed:
                armed.lift()

    def every(self, number: int, fault: Fault) -> None:
        """From now on let each request of so many meet a fault, whatever it asks for."""
        self._every = (number, fault)

    def count(self, method: str, path: str) -> int:
        """How many such requests came here."""
        return sum(1 for seen in self.seen if seen.method == method and re.search(path, seen.path))

    @contextmanager
    def counting(self) -> Iterator[list[Seen]]:
        """The requests that come while this is open."""
        seen: list[Seen] = []
        start = len(self.seen)
        yield seen
        seen += self.seen[start:]

    def _take(self, method: str, path: str) -> Armed | None:
        with self._lock:
            self.seen.append(Seen(method, path))
            for armed in self._armed:
                if armed.left and armed.method == method and armed.path.search(path):
                    armed.left -= 1
                    return armed
            if self._every is not None and len(self.seen) % self._every[0] == 0:
                self.dropped += 1
                return Armed(method, re.compile(""), self._every[1], left=0)
        return None

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        armed = self._take(request.command, request.path)
        if armed is not None:
            armed.arrived.set()
        try:
            if armed is None:
                self._answer(request, *self._forward(request, body))
            else:
                self._faulty(request, body, armed)
        except urllib3.exceptions.HTTPError:
            request.close_connection = True  # the server is gone, and so is its answer
        finally:
            if armed is not None:
                armed.over.set()

    def _faulty(self, request: BaseHTTPRequestHandler, body: bytes, armed: Armed) -> None:
        if armed.fault is Fault.HOLD_REQUEST:
            armed.wait()
        if armed.fault is Fault.ANSWER:
            self._answer(request, armed.status, {"Content-Type": "application/json"}, b'{"message":"by the proxy"}')
            return
        if armed.fault is not Fault.DROP_REQUEST:
            status, headers, data = self._forward(request, body)
            armed.statuses.append(status)
            if armed.fault is Fault.HOLD_ANSWER:
                armed.wait()
            if armed.fault is not Fault.DROP_ANSWER:
                self._answer(request, status, headers, data)
                return
        request.close_connection = True

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in self._dropped}
        got = self._pool.request(
            request.command,
            self._upstream + request.path,
            body=body,
            headers=headers,
            redirect=False,
            decode_content=False,
        )
        # The answer to a HEAD tells the length of what it does not bring.
        ours = {"transfer-encoding"} if request.command == "HEAD" else {"transfer-encoding", "content-length"}
        self.watch(Seen(request.command, request.path))
        kept = {n: v for n, v in got.headers.items() if n.lower() not in ours}
        return got.status, kept, got.data

    @staticmethod
    def _answer(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes) -> None:
        with suppress(ConnectionError):
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name, value)
            if status != 204 and request.command != "HEAD":
                request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            if request.command != "HEAD":
                request.wfile.write(data)
