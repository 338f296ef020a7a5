"""The one DuckDB of this process: in memory, with no way to files or the network."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
_lock = threading.Lock()
_connection: duckdb.DuckDBPyConnection | None = None


@contextmanager
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own: what is registered on it is seen by no other."""
    global _connection
    with _lock:
        if _connection is None:
            _connection = duckdb.connect(":memory:", config=_SETTINGS)
            atexit.register(_close)
        made = _connection.cursor()
    try:
        yield made
    finally:
        made.close()


def _close() -> None:
    global _connection
    with _lock:
        if _connection is not None:
            _connection.close()
            _connection = None
