"""Tables that change only by staged transactions: stage, commit once, restore, read back.

A commit says which version it became, or that it was refused, or that it cannot tell; the caller decides what that
means. The store never repeats a commit: a transaction committed twice would hold its rows twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from headgate.errors import HeadgateError
from headgate.graph.storage.changes import Part, Staged
from headgate.graph.storage.columns import ColumnChanges, stage_columns
from headgate.graph.storage.compact import stage_compaction
from headgate.graph.storage.forks import ForkHalfMade, folder, make_fork, rebased
from headgate.graph.storage.indices import WantedIndex, stage_indices
from headgate.graph.storage.lance_errors import LanceProblem, as_error, classify
from headgate.graph.storage.location import Location
from headgate.graph.storage.objects import StoredObject, open_objects
from headgate.graph.storage.removal import (
    drop_folder,
    drop_fork,
    drop_versions,
    named_files,
    stored_forks,
    stored_versions,
    unnamed_files,
)
from headgate.graph.storage.snapshots import TableSnapshot, staged_on

_OPEN_SNAPSHOTS = 256
_COMMITS_REMEMBERED = 256
_OFFSET = 0xFFFFFFFF
_SMALL_ROWS = 1024
_SMALL_BYTES = 1 << 20
_SMALL_FRAGMENTS = 24
"""Past this many small fragments the next change rewrites them as one, so that reads stay flat over history."""


class CommitRefused(Exception):
    """Another transaction is in the way; ours did not land."""


class CommitUnknown(Exception):
    """The answer was lost: the transaction may or may not have landed."""


class TableStore:
    """The tables below one graph's root. Threads may share it."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._options = dict(location.options) or None
        self._objects = open_objects(location)
        self._session = lance.Session()
        self._open: OrderedDict[tuple[str, str, int], TableSnapshot] = OrderedDict()
        self._lock = threading.Lock()
        self._commits = 0

    # -------- reading

    def open(self, path: str, version: int, fork: str = "") -> TableSnapshot:
        """The table as it was at a version; repeated opens of one version cost nothing."""
        key = (path, fork, version)
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
        try:
            dataset = self._dataset(path, version, fork)
        except Exception as error:
            raise as_error(error, doing=f"open version {version} of table {path}") from error
        return self._keep(path, fork, dataset)

    def head_version(self, path: str, fork: str = "") -> int:
        """The newest version of the table's own history, published or not."""
        try:
            return int(self._dataset(path, None, fork).version)
        except Exception as error:
            raise as_error(error, doing=f"open table {path}") from error

    def transaction_uuid(self, path: str, version: int, fork: str = "") -> str | None:
        """The transaction that made a version; None if there is no such version."""
        try:
            dataset = self._dataset(path, version, fork)
            made_by = dataset.read_transaction(version)
        except Exception as error:
            if classify(error) is LanceProblem.MISSING:
                return None
            raise as_error(error, doing=f"read the history of table {path}") from error
        return None if made_by is None else str(made_by.uuid)

    def is_made_by(self, path: str, version: int, fork: str, uuid: str) -> bool:
        """Whether a version is there and is the work of the transaction with this uuid."""
        return bool(uuid) and self.transaction_uuid(path, version, fork) == uuid

    def find_head_version(self, path: str, fork: str = "") -> int | None:
        """The newest version of a fork; None if the fork has not been made."""
        try:
            return int(self._dataset(path, None, fork).version)
        except Exception as error:
            if fork and classify(error) in (LanceProblem.MISSING, LanceProblem.LOST_FILE):
                return None
            raise as_error(error, doing=f"open table {path}") from error

    # -------- staging

    def create(self, path: str, schema: pa.Schema, rows: Iterable[pa.Table] = ()) -> int:
        """A table at a path that nobody else knows yet; the version it starts with."""
        try:
            parts = (part.cast(schema) for part in rows if part.num_rows)
            first = next(parts, None)
            fragments = []
            if first is not None:
                batches = (batch for part in chain([first], parts) for batch in part.to_batches())
                reader = pa.RecordBatchReader.from_batches(schema, batches)
                uri = self._location.child(path)
                fragments = write_fragments(reader, uri, schema=schema, mode="create", storage_options=self._options)
            dataset = LanceDataset.commit(
                self._location.child(path),
                LanceOperation.Overwrite(schema, fragments),
                storage_options=self._options,
                max_retries=0,
            )
        except Exception as error:
            raise as_error(error, doing=f"create table {path}") from error
        return self._keep(path, "", dataset).version

    def write_part(self, at: TableSnapshot, rows: pa.Table | pa.RecordBatchReader) -> Part:
        """Write rows where nobody reads yet. A reader is drained: a part that fails needs a fresh one."""
        try:
            return Part(tuple(_write(at, rows)))
        except Exception as error:
            raise as_error(error, doing=f"write rows for table {at.path}") from error

    def stage(
        self, at: TableSnapshot, *, add: pa.Table | None = None, parts: Sequence[Part] = (), remove: Iterable[int] = ()
    ) -> Staged:
        """Remove rows by address and add others, as one transaction."""
        removed = list(remove)
        try:
            gone: dict[int, list[int]] = {}
            for address in removed:
                gone.setdefault(address >> 32, []).append(address & _OFFSET)
            dropped = _small_fragments(at)
            folded = _rows_kept(at, dropped, gone)
            updated = []
            for number in gone.keys() - set(dropped):
                fragment = at.dataset.get_fragment(number).delete_rows(gone[number])
                if fragment is None:
                    dropped.append(number)
                else:
                    updated.append(fragment)
            new = _write(at, *(rows for rows in (folded, add) if rows is not None))
            new += [fragment for part in parts for fragment in part.fragments]
        except Exception as error:
            raise as_error(error, doing=f"stage a change to table {at.path}") from error
        gone_rows = len(removed) + (0 if folded is None else folded.num_rows)
        return self.stage_fragments(at, parts=[Part(tuple(new))], updated=updated, dropped=dropped, removed=gone_rows)

    def without_rows(self, at: TableSnapshot, number: int, offsets: Sequence[int]) -> Any | None:
        """A fragment without some of its rows, for `stage_fragments`; None if it has no others."""
        try:
            return at.dataset.get_fragment(number).delete_rows(list(offsets))
        except Exception as error:
            raise as_error(error, doing=f"remove rows of table {at.path}") from error

    def stage_fragments(
        self, at: TableSnapshot, *, parts: Sequence[Part], updated: Sequence[Any], dropped: Sequence[int], removed: int
    ) -> Staged:
        """One transaction of parts that come and of fragments that lost `removed` rows in all."""
        new = [fragment for part in parts for fragment in part.fragments]
        operation: Any
        if not updated and not dropped:
            operation = LanceOperation.Append(new)
        elif not new:
            operation = LanceOperation.Delete(list(updated), list(dropped), "rows by address")
        else:
            operation = LanceOperation.Update(
                removed_fragment_ids=list(dropped), updated_fragments=list(updated), new_fragments=new
            )
        return staged_on(at, at.rows - removed + _count(new), operation)

    def stage_overwrite(self, at: TableSnapshot, *, add: pa.Table | None = None, parts: Sequence[Part] = ()) -> Staged:
        """Replace every row, by none if there are none."""
        try:
            new = [] if add is None else _write(at, add)
            new += [fragment for part in parts for fragment in part.fragments]
            # Not Lance's own overwrite: it numbers the columns anew, and rows are written by the numbers there are.
            gone = [fragment.fragment_id for fragment in at.dataset.get_fragments()]
            operation: Any
            if new:
                operation = LanceOperation.Update(removed_fragment_ids=gone, new_fragments=new)
            else:
                operation = LanceOperation.Delete([], gone, "every row")
        except Exception as error:
            raise as_error(error, doing=f"stage an overwrite of table {at.path}") from error
        return staged_on(at, _count(new), operation)

    def stage_columns(self, at: TableSnapshot, changes: ColumnChanges) -> Staged:
        """The present rows, with other columns."""
        return stage_columns(at, changes)

    def stage_indices(self, at: TableSnapshot, wanted: Iterable[WantedIndex], *, fold: bool = False) -> Staged | None:
        """Indices that are missing and, to fold, segments for rows that are not covered; None if there is nothing."""
        return stage_indices(at, wanted, self._objects, fold=fold)

    def stage_compaction(self, at: TableSnapshot) -> Staged | None:
        """The same rows in fewer fragments; None if nothing is to be gained."""
        return stage_compaction(at)

    def discard(self, at: TableSnapshot, part: Part) -> None:
        """Remove the files of a part that was never committed."""
        for fragment in part.fragments:
            for file in fragment.files:
                self._objects.delete(f"{data_folder(at)}/{file.path}")

    # -------- removing

    def versions(self, path: str, fork: str = "") -> list[int]:
        """The stored versions of a table or of a fork, oldest first; none if there is no such fork."""
        with self._told(f"list the versions of table {path}"):
            found = self._find(path, fork)
            return [] if found is None else sorted(stored_versions(found))

    def drop_versions(self, path: str, fork: str, versions: Collection[int]) -> int:
        """Remove versions that nothing shows, with what only they hold; how many bytes that was."""
        with self._lock:
            for version in versions:
                self._open.pop((path, fork, version), None)
        with self._told(f"remove versions of table {path}"):
            return drop_versions(self._dataset(path, None, fork), versions)

    def forks(self, path: str) -> dict[str, datetime]:
        """The forks of a table, and when each was made."""
        with self._told(f"list the forks of table {path}"):
            return stored_forks(self._dataset(path, None, ""))

    def unnamed_files(self, path: str) -> list[StoredObject]:
        """The files of a table that no version of it or of its forks names."""
        with self._told(f"look for files of table {path} that nothing names"):
            named: set[str] = set()
            for fork in ("", *stored_forks(self._dataset(path, None, ""))):
                for version in self.versions(path, fork):
                    named |= named_files(self._dataset(path, version, fork))
            return unnamed_files(self._objects, path, named)

    def drop_fork(self, path: str, fork: str) -> None:
        with self._told(f"remove a fork of table {path}"):
            drop_fork(self._dataset(path, None, ""), fork)

    def drop_table(self, path: str) -> None:
        drop_folder(self._objects, path)

    # -------- committing

    def commit(self, at: TableSnapshot, staged: Staged) -> int:
        """Commit once; the version it became, which may lie above `read_version + 1` if others were there."""
        moved = staged.operation if at.fork == staged.fork else rebased(staged.operation, at.dataset, staged.fork)
        transaction = Transaction(
            read_version=staged.read_version, operation=moved, uuid=staged.uuid, transaction_properties={}
        )
        return self._commit(at, lambda: LanceDataset.commit(at.dataset, transaction, max_retries=0))

    def restore(self, at: TableSnapshot) -> int:
        """Make this version's content the newest again. Every transaction staged before is refused from then on."""
        transaction = Transaction(read_version=at.version, operation=LanceOperation.Restore(at.version))
        return self._commit(at, lambda: LanceDataset.commit(at.dataset, transaction, max_retries=0))

    def fork(self, at: TableSnapshot, name: str) -> TableSnapshot:
        """The fork of this name, which starts as this version; made now, or found as somebody else made it."""
        try:
            source = self._dataset(at.path, at.version, at.fork)
            made = make_fork(source, name, self._objects, at.path, lambda: self._dataset(at.path, at.version, name))
        except ForkHalfMade:
            raise
        except Exception as error:
            raise as_error(error, doing=f"fork table {at.path}") from error
        return self._keep(at.path, name, made)

    def _commit(self, at: TableSnapshot, commit: Callable[[], LanceDataset]) -> int:
        try:
            dataset = commit()
        except Exception as error:
            match classify(error):
                case LanceProblem.CONTENTION:
                    raise CommitRefused(str(error)) from error
                case LanceProblem.DENIED | LanceProblem.DISK_FULL:
                    raise as_error(error, doing=f"commit to table {at.path}") from error
                case _:
                    raise CommitUnknown(str(error)) from error
        version = self._keep(at.path, at.fork, dataset).version
        self._forget_now_and_then()
        return version

    # -------- inside

    def _find(self, path: str, fork: str) -> LanceDataset | None:
        try:
            return self._dataset(path, None, fork)
        except Exception as error:
            if classify(error) in (LanceProblem.MISSING, LanceProblem.LOST_FILE):
                return None
            raise

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        try:
            yield
        except HeadgateError:
            raise
        except Exception as error:
            raise as_error(error, doing=doing) from error

    def _forget_now_and_then(self) -> None:
        """Start with an empty cache after many commits, so that what is kept of old versions is bounded."""
        with self._lock:
            self._commits += 1
            if self._commits % _COMMITS_REMEMBERED == 0:
                self._session = lance.Session()
                self._open.clear()

    def _dataset(self, path: str, version: int | None, fork: str) -> LanceDataset:
        uri = self._location.child(path)
        if not fork:
            return lance.dataset(uri, version=version, storage_options=self._options, session=self._session)
        main = lance.dataset(uri, storage_options=self._options, session=self._session)
        return main.checkout_version((fork, version))

    def _keep(self, path: str, fork: str, dataset: LanceDataset) -> TableSnapshot:
        snapshot = TableSnapshot(path, fork, int(dataset.version), dataset)
        with self._lock:
            self._open[(path, fork, snapshot.version)] = snapshot
            while len(self._open) > _OPEN_SNAPSHOTS:
                self._open.popitem(last=False)
        return snapshot


def _write(at: TableSnapshot, *rows: pa.Table | pa.RecordBatchReader) -> list[Any]:
    """New fragments with these rows, in the table's own shape; none for no rows."""
    schema = at.dataset.schema
    tables = [part.select(schema.names).cast(schema) for part in rows if isinstance(part, pa.Table) and part.num_rows]
    readers = [_ordered(part, schema.names) for part in rows if isinstance(part, pa.RecordBatchReader)]
    sources = [pa.concat_tables(tables)] if tables else []
    return [
        fragment
        for source in [*sources, *readers]
        for fragment in write_fragments(source, at.dataset, schema=schema, mode="append")
    ]


def _ordered(rows: pa.RecordBatchReader, names: list[str]) -> pa.RecordBatchReader:
    """The same rows with the columns in this order: a table's own is the order in which it got them."""
    if rows.schema.names == names:
        return rows
    schema = pa.schema([rows.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in rows))


def data_folder(at: TableSnapshot) -> str:
    """Where the files of a table's rows are, below the graph's root."""
    return f"{folder(at.path, at.fork)}/data"


def _count(fragments: Iterable[Any]) -> int:
    return sum(fragment.num_rows for fragment in fragments)


def _small_fragments(at: TableSnapshot) -> list[int]:
    """The fragments that this change should rewrite as one; none while they are few."""
    fragments = at.dataset.get_fragments()
    if len(fragments) <= _SMALL_FRAGMENTS:
        return []
    small = [
        fragment for fragment in fragments if fragment.physical_rows <= _SMALL_ROWS and _bytes(fragment) <= _SMALL_BYTES
    ]
    return [fragment.fragment_id for fragment in small] if len(small) > _SMALL_FRAGMENTS else []


def _bytes(fragment: Any) -> int:
    return sum(file.file_size_bytes or 0 for file in fragment.metadata.files)


def _rows_kept(at: TableSnapshot, numbers: list[int], gone: dict[int, list[int]]) -> pa.Table | None:
    """The rows of these fragments without those that go."""
    if not numbers:
        return None
    fragments = [at.dataset.get_fragment(number) for number in numbers]
    rows = at.dataset.scanner(fragments=fragments, with_row_address=True).to_table()
    leaving = pa.array([n << 32 | offset for n in numbers for offset in gone.get(n, ())], pa.uint64())
    kept = rows.filter(pc.invert(pc.is_in(rows["_rowaddr"], leaving))) if len(leaving) else rows
    return kept.select(at.dataset.schema.names).cast(at.dataset.schema)
