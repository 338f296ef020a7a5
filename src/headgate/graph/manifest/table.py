"""The manifest's table in Lance: one open handle, one scan per version, one compare-and-swap.

Two merges that replace the same row meet: whichever commits second is refused, since both take the row out of one
fragment. Every publish replaces its branch's head row, so publishes on one branch are decided one by one. Rows that are
new and belong to no branch (a publish id) meet only in an inline merge-insert on the unenforced primary key, which
is the single place where Headgate lets Lance commit inline. A landing is believed once the newest version shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta

import lance
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from headgate.errors import AlreadyExists, HeadgateError, NotFound, StoreDamaged, Transient
from headgate.graph.manifest.format import Formats, known_formats
from headgate.graph.manifest.history import History
from headgate.graph.manifest.rows import COLUMNS, Row, decode, encode
from headgate.graph.manifest.state import ManifestState
from headgate.graph.storage.lance_errors import LanceProblem, as_error, classify
from headgate.graph.storage.location import Location
from headgate.graph.storage.lookup import ADDRESS

NAME = "__manifest"
_OFFSET = 0xFFFFFFFF
_SCANS = 5
"""Tries to read a version that upkeep removes meanwhile."""
_MERGE_SECONDS = timedelta(seconds=60)
PUBLISH_IDS_KEPT = timedelta(days=30)
"""For how long a publish id is known to have been used, if nothing else is said."""


class MergeContended(Exception):
    """Somebody else moved a row of this merge; nothing of it landed."""


class MergeUnknown(Exception):
    """The answer was lost: the rows may or may not be there."""


class Manifest:
    """The rows of one graph's manifest. Threads may share it; each call sees one version."""

    def __init__(self, location: Location, dataset: LanceDataset, formats: Formats | None = None) -> None:
        self._location = location
        self.formats = formats or known_formats()
        self._options = dict(location.options) or None
        self._dataset = dataset
        self._state: ManifestState | None = None
        self._places: dict[str, int] = {}
        self._lock = threading.RLock()
        self.history = History(location, self.formats)
        self.publish_ids_kept = PUBLISH_IDS_KEPT

    @classmethod
    def create(cls, location: Location, rows: Iterable[Row]) -> Manifest:
        """A new manifest whose first version holds these rows; one of two that race loses."""
        uri, options = location.child(NAME), dict(location.options) or None
        refuse_taken(location)
        History(location).create()
        try:
            fragments = write_fragments(encode(rows), uri, schema=COLUMNS, mode="create", storage_options=options)
            dataset = LanceDataset.commit(
                uri, LanceOperation.Overwrite(COLUMNS, fragments), storage_options=options, max_retries=0
            )
        except Exception as error:
            if find(location) is not None:
                raise _taken(location) from error
            raise as_error(error, doing=f"create a graph at {location}") from error
        if dataset.version != 1:
            raise _taken(location)
        return cls(location, dataset)

    @classmethod
    def open(cls, location: Location, formats: Formats | None = None) -> Manifest:
        dataset = find(location)
        if dataset is None:
            raise NotFound(
                message=f"there is no graph at {location}",
                kind="graph",
                name=str(location),
                hint="create one with `headgate graph init`, or check the address",
            )
        return cls(location, dataset, formats)

    def state(self) -> ManifestState:
        """The newest version's rows in the current format, whatever is stored; read only if it has moved."""
        return self.formats.upgraded(self.stored())

    def stored(self) -> ManifestState:
        """The newest version's rows as they are stored; read only if it has moved."""
        with self._lock:
            for _ in range(_SCANS):
                try:
                    newest = int(self._dataset.latest_version)
                    if self._state is None or self._state.version != newest:
                        self._state = self._scan(newest)
                    return self._state
                except HeadgateError:
                    raise
                except Exception as error:
                    if classify(error) not in (LanceProblem.LOST_FILE, LanceProblem.MISSING):
                        raise as_error(error, doing=f"read the manifest of {self._location}") from error
            raise Transient(message=f"the manifest of {self._location} moved faster than it could be read")

    def known(self) -> ManifestState:
        """The rows as last read, however old: for what never changes."""
        with self._lock:
            return self.formats.upgraded(self._state or self.stored())

    def last_stored(self) -> ManifestState | None:
        """The rows as last read and as they are stored; None if something has happened since."""
        with self._lock:
            return self._state

    def merge(self, state: ManifestState, rows: Iterable[Row]) -> ManifestState:
        """Write rows if none of them has changed since `state`; the state with them in it.

        Every merge must rewrite the head row of each branch whose state it was decided on: that is what makes two
        of them meet.
        """
        listed = list(rows)
        with self._lock:
            if self._state is None or self._state.version != state.version:
                raise MergeContended("the manifest has been read again since")
            base = self._at(state)
            inline = any(not row.branch_scoped and row.object_id not in state.rows for row in listed)
            try:
                landed = self._merge_inline(base, listed) if inline else self._merge_staged(base, listed)
            except Exception as error:
                match classify(error):
                    case LanceProblem.CONTENTION:
                        raise MergeContended(str(error)) from error
                    case LanceProblem.DENIED | LanceProblem.DISK_FULL:
                        raise as_error(error, doing=f"publish to {self._location}") from error
                    case _:
                        raise MergeUnknown(str(error)) from error
            before, self._dataset, self._state = self._state, landed, None
            try:
                if not inline and landed.version == before.version + 1 == int(landed.latest_version):
                    self._places |= self._places_of_last(landed, listed)
                    self._state = before.with_rows(listed, version=int(landed.version))
                    return self.formats.upgraded(self._state)
                return self.state()
            except Exception as error:
                raise MergeUnknown(str(error)) from error

    def _at(self, state: ManifestState) -> LanceDataset:
        """The version that a merge was decided on; contended once it is so old that upkeep has dropped it."""
        try:
            return self._dataset.checkout_version(state.version)
        except Exception as error:
            if classify(error) in (LanceProblem.LOST_FILE, LanceProblem.MISSING):
                raise MergeContended(str(error)) from error
            raise as_error(error, doing=f"read the manifest of {self._location}") from error

    def _merge_inline(self, base: LanceDataset, rows: list[Row]) -> LanceDataset:
        builder = base.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).retry_timeout(_MERGE_SECONDS).execute(encode(rows))
        return base

    def _merge_staged(self, base: LanceDataset, rows: list[Row]) -> LanceDataset:
        """Take the rows that are replaced out of their fragments and add all as a new one, in one transaction."""
        gone: dict[int, list[int]] = {}
        for row in rows:
            place = self._places.get(row.object_id)
            if place is not None:
                gone.setdefault(place >> 32, []).append(place & _OFFSET)
        left = {number: base.get_fragment(number).delete_rows(offsets) for number, offsets in gone.items()}
        operation = LanceOperation.Update(
            removed_fragment_ids=[number for number, fragment in left.items() if fragment is None],
            updated_fragments=[fragment for fragment in left.values() if fragment is not None],
            new_fragments=write_fragments(encode(rows), base, schema=COLUMNS, mode="append"),
        )
        transaction = Transaction(read_version=base.version, operation=operation)
        return LanceDataset.commit(base, transaction, max_retries=0)

    @staticmethod
    def _places_of_last(dataset: LanceDataset, rows: list[Row]) -> dict[str, int]:
        """Where rows are that a transaction has just added as one fragment."""
        number = max(fragment.fragment_id for fragment in dataset.get_fragments())
        return {row.object_id: number << 32 | offset for offset, row in enumerate(rows)}

    def replace_all(self, state: ManifestState, rows: Iterable[Row]) -> bool:
        """Write the live rows anew as one fragment, if nothing has moved since `state`; False if something has."""
        listed = list(rows)
        with self._lock:
            if self._state is not state:
                return False
            base = self._dataset.checkout_version(state.version)
            operation = LanceOperation.Update(
                removed_fragment_ids=[fragment.fragment_id for fragment in base.get_fragments()],
                new_fragments=write_fragments(encode(listed), base, schema=COLUMNS, mode="append"),
            )
            landed = self._commit(base, operation)
            if landed != state.version + 1:
                self._state = None
                return False
            self._state = ManifestState(landed, {row.object_id: row for row in listed})
            self._places = self._places_of_last(self._dataset, listed)
            return True

    def raise_barrier(self, state: ManifestState) -> bool:
        """Add a version that nothing staged before it can pass: the same fragments, merged with themselves."""
        with self._lock:
            if self._state is not state:
                return False
            base = self._dataset.checkout_version(state.version)
            fragments = [fragment.metadata for fragment in base.get_fragments()]
            landed = self._commit(base, LanceOperation.Merge(fragments, base.lance_schema))
            self._state = ManifestState(landed, state.rows) if landed == state.version + 1 else None
            # Opened anew, so that what a handle keeps of versions that are dropped is bounded.
            self._dataset = find(self._location) or self._dataset
            return self._state is not None

    def is_barrier(self, version: int) -> bool:
        with self._lock:
            try:
                made_by = self._dataset.read_transaction(version)
            except Exception as error:
                if classify(error) in (LanceProblem.MISSING, LanceProblem.LOST_FILE):
                    return False
                raise as_error(error, doing=f"read the manifest of {self._location}") from error
            return made_by is not None and isinstance(made_by.operation, LanceOperation.Merge)

    def drop_versions(self, versions: range) -> None:
        """Remove old versions of the manifest's own table. Only ever below a barrier that stays."""
        with self._lock:
            try:
                self._dataset.cleanup_old_versions(versions=list(versions))
            except Exception as error:
                raise as_error(error, doing=f"drop old versions of the manifest of {self._location}") from error

    @property
    def fragments(self) -> int:
        with self._lock:
            return len(self._dataset.get_fragments())

    def _commit(self, base: LanceDataset, operation: LanceOperation.BaseOperation) -> int:
        """The version an internal rewrite became; 0 if it was refused."""
        try:
            self._dataset = LanceDataset.commit(
                base, Transaction(read_version=base.version, operation=operation), max_retries=0
            )
        except Exception as error:
            if classify(error) is LanceProblem.CONTENTION:
                return 0
            self._state = None
            raise as_error(error, doing=f"fold the manifest of {self._location}") from error
        return int(self._dataset.version)

    def _scan(self, version: int) -> ManifestState:
        dataset = self._dataset.checkout_version(version)
        rows: dict[str, Row] = {}
        found = dataset.scanner(with_row_address=True).to_table()
        for row in decode(found):
            if row.object_id in rows:
                raise StoreDamaged(
                    message=f"the manifest of {self._location} holds {row.object_id} twice",
                    damaged=(row.object_id,),
                    hint="headgate repair explains what is wrong with the graph",
                )
            rows[row.object_id] = row
        self._dataset = dataset
        self._places = dict(zip(found["object_id"].to_pylist(), found[ADDRESS].to_pylist(), strict=True))
        return ManifestState(version, rows)


def find(location: Location) -> LanceDataset | None:
    """The manifest's dataset at its newest version; None if there is no graph here."""
    try:
        return lance.dataset(location.child(NAME), storage_options=dict(location.options) or None)
    except Exception as error:
        if classify(error) is LanceProblem.MISSING:
            return None
        raise as_error(error, doing=f"open the graph at {location}") from error


def refuse_taken(location: Location) -> None:
    """Raise if there is a graph at a place."""
    if find(location) is not None:
        raise _taken(location)


def _taken(location: Location) -> AlreadyExists:
    return AlreadyExists(
        message=f"there is a graph at {location} already",
        kind="graph",
        name=str(location),
        hint="open it, or choose another place",
    )
