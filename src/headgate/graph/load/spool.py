"""Rows on a local disk, in the order they came: where only the last of several counts, none can be written yet."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa


class Spool:
    """The rows of one type. Written once, then read as often as needed."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self._path = folder / f"{name}.arrow"
        self._writer = pa.ipc.new_file(self._path, schema)
        self._open = True

    def add(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, max_chunksize=1 << 17)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._open:
            self._writer.close()
            self._open = False
        with pa.memory_map(str(self._path)) as mapped, pa.ipc.open_file(mapped) as stored:
            for number in range(stored.num_record_batches):
                yield stored.get_batch(number)


def spool_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="headgate-load-")
