"""A table with changes that nobody else sees: a clone in a scratch folder that shares the stored files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from lance import LanceDataset

from headgate.graph.storage.lance_errors import as_error
from headgate.graph.storage.location import Location
from headgate.graph.storage.snapshots import TableSnapshot
from headgate.graph.storage.tables import TableStore


def scratch_table(folder: Path, name: str, at: TableSnapshot, *, add: pa.Table, remove: list[int]) -> LanceDataset:
    """The table at a version, without some rows and with others; costs what changed, not what there is."""
    try:
        clone = at.dataset.shallow_clone(folder / name, (at.fork or None, at.version))
    except Exception as error:
        raise as_error(error, doing=f"clone table {at.path}") from error
    return _committed(folder, name, TableSnapshot(name, "", int(clone.version), clone), add=add, remove=remove)


def scratch_image(folder: Path, name: str, rows: pa.Table) -> LanceDataset:
    """A table that holds exactly these rows."""
    store = TableStore(Location.parse(folder))
    empty = store.open(name, store.create(name, rows.schema))
    return _committed(folder, name, empty, add=rows, remove=[])


def _committed(folder: Path, name: str, at: TableSnapshot, *, add: pa.Table, remove: list[int]) -> LanceDataset:
    store = TableStore(Location.parse(folder))
    version = store.commit(at, store.stage(at, add=add, remove=remove))
    return store.open(name, version).dataset
