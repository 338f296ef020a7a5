"""A transaction's view for queries: the base's tables, and scratch tables where something is pending."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headgate.graph.read.source import TableVersion
from headgate.graph.schema.model import ID, Schema
from headgate.graph.storage.lookup import ADDRESS, rows_with
from headgate.graph.storage.scratch import scratch_image, scratch_table
from headgate.graph.write.base import Base
from headgate.graph.write.pending import Pending, PendingTable

if TYPE_CHECKING:
    from lance import LanceDataset


class Overlay:
    """Scratch tables of one transaction; they go with it."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def source(self, pending: Pending) -> _Source:
        """What is there now, for one query: a later change makes other scratch tables."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="headgate-transaction-")
        return _Source(self._base, pending, Path(self._folder.name))

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class _Source:
    def __init__(self, base: Base, pending: Pending, folder: Path) -> None:
        self._base = base
        self._all = pending
        self._pending = pending.tables()
        self._revision = pending.revision
        self._folder = folder
        self._made: dict[str, LanceDataset] = {}

    @property
    def schema(self) -> Schema:
        return self._base.schema

    @property
    def commit(self) -> str:
        return self._base.commit

    def dataset(self, type_name: str) -> LanceDataset:
        changed = self._pending.get(type_name)
        if changed is None:
            return self._base.dataset(type_name)
        if type_name not in self._made:
            self._made[type_name] = self._scratch(type_name, changed)
        return self._made[type_name]

    def cache_key(self, type_name: str) -> TableVersion:
        if type_name not in self._pending:
            return self._base.cache_key(type_name)
        return TableVersion(f"{self._folder}/{type_name}", self._revision)

    def _scratch(self, type_name: str, changed: PendingTable) -> LanceDataset:
        name = f"{type_name}-{self._revision}-{id(self)}"
        if not self._base.store.location.is_local:
            # A clone shares the stored files only where they are on the same disk: the rows are copied.
            return scratch_image(self._folder, name, self._all.rows(changed.table))
        if changed.image:
            return scratch_image(self._folder, name, changed.added)
        gone = pa.concat_arrays([changed.deleted, changed.added[ID].combine_chunks()])
        found = rows_with(changed.at, ID, gone, [ID], address=True)
        return scratch_table(self._folder, name, changed.at, add=changed.added, remove=found[ADDRESS].to_pylist())
