"""Columns of tables kept in memory; a table version never changes, so what is kept is never stale."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from headgate.graph.read.source import TableVersion

DEFAULT_BYTES = 1 << 30


class _Key(NamedTuple):
    version: TableVersion
    column: str


class ColumnCache:
    """The most recently used columns, up to so many bytes; threads may share it."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self._kept: OrderedDict[_Key, pa.Array] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        return self._bytes

    def find(self, version: TableVersion, columns: tuple[str, ...]) -> dict[str, pa.Array] | None:
        """The columns if all of them are kept."""
        keys = [_Key(version, column) for column in columns]
        with self._lock:
            if any(key not in self._kept for key in keys):
                return None
            for key in keys:
                self._kept.move_to_end(key)
            return {key.column: self._kept[key] for key in keys}

    def columns(
        self, version: TableVersion, columns: tuple[str, ...], load: Callable[[tuple[str, ...]], pa.Table]
    ) -> dict[str, pa.Array]:
        """The columns in one order of rows; loaded together, and kept if they fit."""
        found = self.find(version, columns)
        if found is not None:
            return found
        table = load(columns)
        # Offsets of 64 bits where a column's text is longer than 32 bits can address.
        loaded = {column: _whole(table[column]) for column in columns}
        for column, array in loaded.items():
            self._keep(_Key(version, column), array)
        return loaded

    def _keep(self, key: _Key, array: pa.Array) -> None:
        if array.nbytes > self.max_bytes:
            return
        with self._lock:
            replaced = self._kept.pop(key, None)
            self._bytes += array.nbytes - (replaced.nbytes if replaced is not None else 0)
            self._kept[key] = array
            while self._bytes > self.max_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.nbytes

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.nbytes >= 1 << 31 and pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    return column.combine_chunks()


SHARED = ColumnCache()
"""What every reader of this process shares."""
