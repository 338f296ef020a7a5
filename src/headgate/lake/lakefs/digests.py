"""Digests of bytes on their way: the slow one of a large object is taken beside the transfer, on another core."""

from __future__ import annotations

import hashlib
import queue
import threading
from typing import NamedTuple

from blake3 import blake3

_AHEAD = 4
"""Chunks that may wait to be digested: what bounds the memory of a transfer."""


class Digested(NamedTuple):
    size: int
    blake3: str
    md5: str


def digest(data: bytes) -> Digested:
    return Digested(len(data), blake3(data).hexdigest(), hashlib.md5(data, usedforsecurity=False).hexdigest())


class RunningDigest:
    """Feed chunks to it; `result` is their digests. Use it as a context manager: it owns a thread."""

    def __init__(self) -> None:
        self._chunks: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self._md5, self._blake3, self._size = hashlib.md5(usedforsecurity=False), blake3(), 0
        self._thread = threading.Thread(target=self._work, name="headgate-digest", daemon=True)

    def __enter__(self) -> RunningDigest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._chunks.put(None)
            self._thread.join()

    def feed(self, chunk: bytes) -> None:
        self._chunks.put(chunk)
        self._size += len(chunk)
        self._blake3.update(chunk)

    def result(self) -> Digested:
        """The digests of everything that was fed; nothing can be fed after it."""
        self._chunks.put(None)
        self._thread.join()
        return Digested(self._size, self._blake3.hexdigest(), self._md5.hexdigest())

    def _work(self) -> None:
        while (chunk := self._chunks.get()) is not None:
            self._md5.update(chunk)
