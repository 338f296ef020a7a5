"""The one address at which a worker answers operators: `/metrics`, `/livez`, `/readyz`.

`/livez` says that the process works at all: restart it if it does not answer. `/readyz` says that it takes work: 503
with the reason while it waits for a server or drains.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from headgate.errors import InvalidSettings

log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """What one path is answered with."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


class Sources(NamedTuple):
    """Who is asked: for the metrics, for why work is not taken (None while it is), for why this process is broken."""

    metrics: Callable[[], bytes]
    content_type: str
    unready: Callable[[], str | None]
    broken: Callable[[], str | None] = lambda: None


def answer(path: str, sources: Sources) -> Answer:
    """What a GET of `path` is answered with."""
    match path.partition("?")[0]:
        case "/metrics":
            return Answer(200, sources.metrics(), sources.content_type)
        case "/livez":
            return _health(sources.broken())
        case "/readyz":
            return _health(sources.broken() or sources.unready())
        case _:
            return Answer(404, b"there are /metrics, /livez and /readyz\n")


def _health(wrong: str | None) -> Answer:
    return Answer(200, b"ok\n") if wrong is None else Answer(503, f"{wrong}\n".encode())


@contextmanager
def serving(address: str | None, sources: Sources) -> Iterator[str | None]:
    """Answer at `HOST:PORT` in a thread while the block runs; port 0 takes a free one. Gives the address in use.

    Without an address nothing is listened at.
    """
    if address is None:
        yield None
        return
    host, _, port = address.rpartition(":")
    try:
        server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), _handler(sources))
    except (ValueError, OSError, OverflowError) as error:
        raise InvalidSettings(
            message=f"the address {address!r} for metrics and health cannot be listened at: {error}",
            hint="telemetry.address is HOST:PORT, such as 127.0.0.1:9464",
            source="telemetry.address",
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="headgate-endpoint")
    thread.daemon = True
    thread.start()
    try:
        yield f"{server.server_address[0]!s}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(sources: Sources) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                found = answer(self.path, sources)
            except Exception as error:
                log.exception("the answer to %s failed", self.path)
                found = Answer(500, f"{type(error).__name__}: {error}\n".encode())
            self.send_response(found.status)
            self.send_header("Content-Type", found.content_type)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, *_: Any) -> None:
            return  # a scrape every few seconds is no news

    return Handler
