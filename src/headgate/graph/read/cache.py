"""Columns of tables kept in memory; a table version never changes, so what is kept is never stale."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from headgate.graph.read.hashed import HashedColumn
from headgate.graph.read.source import TableVersion

DEFAULT_BYTES = 1 << 30


_USES_BEFORE_HASHED = 4
"""Hashing and sorting a column costs about as much as joining it so many times."""


class _Key(NamedTuple):
    version: TableVersion
    column: str
    hashed: bool = False


class ColumnCache:
    """The most recently used columns, up to so many bytes; threads may share it."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES, *, hashed_from: int = 200_000) -> None:
        self.max_bytes = max_bytes
        self.hashed_from = hashed_from
        """Columns with fewer rows are joined faster than keys are hashed."""
        self._kept: OrderedDict[_Key, Any] = OrderedDict()
        self._uses: dict[_Key, int] = {}
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

    def hashed(self, version: TableVersion, column: str) -> HashedColumn | None:
        """The hashed form of a kept column, made once the column has been joined often enough to be worth it."""
        key, plain = _Key(version, column, hashed=True), _Key(version, column)
        with self._lock:
            found: HashedColumn | None = self._kept.get(key)
            array = self._kept.get(plain)
            if found is not None:
                self._kept.move_to_end(key)
                return found
            self._uses[plain] = self._uses.get(plain, 0) + 1
            if array is None or len(array) < self.hashed_from or self._uses[plain] <= _USES_BEFORE_HASHED:
                return None
        made = HashedColumn(array)
        self._keep(key, made)
        return made

    def is_hashed(self, version: TableVersion, column: str) -> bool:
        return _Key(version, column, hashed=True) in self._kept

    def _keep(self, key: _Key, array: pa.Array | HashedColumn) -> None:
        if array.nbytes > self.max_bytes:
            return
        with self._lock:
            replaced = self._kept.pop(key, None)
            self._bytes += array.nbytes - (replaced.nbytes if replaced is not None else 0)
            self._kept[key] = array
            while self._bytes > self.max_bytes:
                gone, dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.nbytes
                self._uses.pop(gone, None)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._uses.clear()
            self._bytes = 0


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.nbytes >= 1 << 31 and pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    return column.combine_chunks()


SHARED = ColumnCache()
"""What every reader of this process shares."""
