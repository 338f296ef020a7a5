"""Rows that publishing no longer needs: superseded pins, old commits, used publish ids.

Rows are added here before they leave the manifest, so at every moment each is in one of the two, and after a crash
perhaps in both: readers take the manifest's copy first, and of several copies here the last. Fragments are folded
by size, so that their number grows with the logarithm of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from headgate.graph.manifest.format import Formats, known_formats
from headgate.graph.manifest.rows import COLUMNS, Commit, PublishRow, Row, decode, encode
from headgate.graph.storage.lance_errors import LanceProblem, as_error, classify
from headgate.graph.storage.location import Location
from headgate.graph.storage.lookup import quoted

NAME = "__history"
_FAN = 16
"""Fragments of one size class that are folded into one of the next."""
_TIMES = 10
_SCHEMA = pa.schema([field.with_metadata(None) for field in COLUMNS])


class History:
    def __init__(self, location: Location, formats: Formats | None = None) -> None:
        self._location = location
        self._formats = formats or known_formats()
        self._options = dict(location.options) or None

    def create(self) -> None:
        """The empty history of a new graph; one that is there already is kept."""
        try:
            LanceDataset.commit(
                self._location.child(NAME),
                LanceOperation.Overwrite(_SCHEMA, []),
                storage_options=self._options,
                max_retries=0,
            )
        except Exception as error:
            if classify(error) not in (LanceProblem.EXISTS, LanceProblem.MISSING, LanceProblem.CONTENTION):
                raise as_error(error, doing=f"create the history of {self._location}") from error

    def add(self, rows: Iterable[Row], *, keep: Callable[[Row], bool] = lambda row: True) -> None:
        """Add rows; those that fall to `keep` are dropped where their fragments are folded, now or later."""
        try:
            dataset = self._open()
            table = encode(rows).cast(_SCHEMA)
            fragments = write_fragments(table, dataset, schema=_SCHEMA, mode="append")
            dataset = LanceDataset.commit(
                dataset,
                Transaction(read_version=dataset.version, operation=LanceOperation.Append(fragments)),
                max_retries=_TIMES,
            )
            self._fold(dataset, keep)
        except Exception as error:
            raise as_error(error, doing=f"add to the history of {self._location}") from error

    def rows(self, where: str) -> list[Row]:
        """The rows that a filter selects, each name once."""
        found = self._read(where, None)
        return list({row.object_id: self._formats.upgraded_row(row) for row in decode(found)}.values())

    def prune(self, keep: Callable[[str], bool]) -> None:
        """Write the rows that are kept as one fragment, each once, and let go of the rest; a lost race leaves it."""
        try:
            dataset = self._open()
            last = {
                str(name): place for place, name in enumerate(dataset.to_table(["object_id"])["object_id"].to_pylist())
            }
            places = sorted(place for name, place in last.items() if keep(name))
            rows = dataset.to_table().take(pa.array(places, pa.int64()))
            operation = LanceOperation.Update(
                removed_fragment_ids=[fragment.fragment_id for fragment in dataset.get_fragments()],
                new_fragments=write_fragments(rows, dataset, schema=_SCHEMA, mode="append") if rows.num_rows else [],
            )
            done = LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)
            done.cleanup_old_versions(retain_versions=1)
        except Exception as error:
            if classify(error) is not LanceProblem.CONTENTION:
                raise as_error(error, doing=f"prune the history of {self._location}") from error

    def find(self, object_id: str) -> Row | None:
        found = self.rows(f"object_id = {quoted(object_id)}")
        return found[0] if found else None

    def find_commit(self, commit: str) -> Commit | None:
        found = self.find(f"commit:{commit}")
        return found if isinstance(found, Commit) else None

    def _read(self, where: str | None, columns: list[str] | None) -> pa.Table:
        for again in range(_TIMES):
            try:
                return self._open().to_table(filter=where, columns=columns)
            except Exception as error:
                # A version that is pruned while it is read: the newest is there.
                if again == _TIMES - 1 or classify(error) not in (LanceProblem.LOST_FILE, LanceProblem.MISSING):
                    raise as_error(error, doing=f"read the history of {self._location}") from error
        raise AssertionError

    def _open(self) -> LanceDataset:
        return lance.dataset(self._location.child(NAME), storage_options=self._options)

    def _fold(self, dataset: LanceDataset, keep: Callable[[Row], bool]) -> None:
        """Fold the fragments of one size class, if there are enough of them; a lost race leaves it to the next."""
        classes: dict[int, list[lance.LanceFragment]] = {}
        for fragment in dataset.get_fragments():
            classes.setdefault(_size_class(fragment.physical_rows), []).append(fragment)
        for members in classes.values():
            if len(members) < _FAN:
                continue
            rows = _without_publishes(dataset.scanner(fragments=members, scan_in_order=True).to_table(), keep)
            operation = LanceOperation.Update(
                removed_fragment_ids=[fragment.fragment_id for fragment in members],
                new_fragments=write_fragments(rows, dataset, schema=_SCHEMA, mode="append"),
            )
            try:
                LanceDataset.commit(
                    dataset, Transaction(read_version=dataset.version, operation=operation), max_retries=0
                )
            except Exception as error:
                if classify(error) is not LanceProblem.CONTENTION:
                    raise
            return


def _without_publishes(rows: pa.Table, keep: Callable[[Row], bool]) -> pa.Table:
    """The rows without publish ids that are no longer kept: the only ones that are ever forgotten."""
    places = pc.indices_nonzero(pc.equal(rows["kind"], PublishRow.KIND))
    gone = [place.as_py() for place, row in zip(places, decode(rows.take(places)), strict=True) if not keep(row)]
    return rows.take(pa.array(sorted(set(range(rows.num_rows)) - set(gone)), pa.int64())) if gone else rows


def _size_class(rows: int) -> int:
    """0 up to 1,023 rows, and one more with each factor of 16."""
    return max(0, (rows.bit_length() - 7) // 4)
