"""What this machine has downloaded before: a blob store with an index, and a cap on its size.

The index says which blob a server's object is, by endpoint, repository, checksum and size. Nothing here has to last: a
blob is verified by its own digest whenever it is taken out, so that one that was half written, damaged or removed
meanwhile is a miss and no more. Any number of processes may share a folder.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.database import Database
from headgate.errors import StoreDamaged
from headgate.ids import ULIDS
from headgate.lake.blobs import Blob, BlobStore
from headgate.lake.disk import UnsyncedDisk, disk_faults, keep_apart
from headgate.lake.interface import Fetched, LakeObject, LocalFile, Source

DEFAULT_CAP = 10 << 30
LARGEST = 64 << 20
"""Larger objects are not kept: writing them twice would cost more than it saves where files cannot be cloned."""

_KEEP = 0.9
"""The share of the cap that is left after an eviction, so that the next put does not evict again."""
_FLUSH = 1024
"""Index rows written in one transaction."""
_ASKED = 500
"""Index rows read at once."""
_USE_SECONDS = 60
"""A use this soon after another one is not noted: what goes first is no finer a question."""

_MIGRATIONS = (
    """
CREATE TABLE objects (
    place TEXT NOT NULL,
    checksum TEXT NOT NULL,
    size INTEGER NOT NULL,
    digest TEXT NOT NULL,
    used_at REAL NOT NULL,
    PRIMARY KEY (place, checksum, size)
) WITHOUT ROWID;
CREATE INDEX objects_by_digest ON objects (digest);
CREATE INDEX objects_by_use ON objects (used_at);
""",
    "DROP INDEX objects_by_use;",
)


class Kept(NamedTuple):
    """An object of the cache: whose it is, and which blob has its bytes."""

    place: str
    checksum: str
    size: int
    digest: str
    used_at: float


class Cache:
    """The objects of any number of servers, least recently used first to go."""

    def __init__(self, folder: Path, *, cap: int = DEFAULT_CAP, clock: Clock = SYSTEM_CLOCK) -> None:
        self.folder, self.cap, self._clock = folder, cap, clock
        self._blobs = BlobStore(folder, disk=UnsyncedDisk())
        if not (folder / "index.db").exists():
            with disk_faults(folder, "create the download cache"):
                folder.mkdir(parents=True, exist_ok=True)
            keep_apart(folder)
            self._blobs.create()
        self._index = Database(
            folder / "index.db", what="the index of the download cache", migrations=_MIGRATIONS, durable=False
        )
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str, int], Kept] = {}
        self._owner = ULIDS.new()
        self._number = 0
        self._added = 0

    def close(self) -> None:
        self.flush()
        self._index.close()

    def look_up(self, place: str, items: Sequence[LakeObject]) -> list[Kept | None]:
        """What is here of each of the items."""
        with self._lock:
            kept = {key: row for item in items if (row := self._pending.get(key := (place, item.checksum, item.size)))}
        missing = [item.checksum for item in items if (place, item.checksum, item.size) not in kept]
        for at in range(0, len(missing), _ASKED):
            asked = missing[at : at + _ASKED]
            marks = ", ".join("?" * len(asked))
            with self._index.read() as connection:
                rows = connection.execute(
                    f"SELECT * FROM objects WHERE place = ? AND checksum IN ({marks})", (place, *asked)
                ).fetchall()
            kept.update({(row[0], row[1], row[2]): Kept(*row) for row in rows})
        return [kept.get((place, item.checksum, item.size)) for item in items]

    def fetch(self, kept: Kept, *, into: Path | str) -> Fetched | None:
        """Write what was looked up to the new file `into`, verified; None if it is not here any more."""
        try:
            stat = self._blobs.copy_out(Blob(kept.digest, kept.size), into)
        except StoreDamaged:
            self._forget(kept.digest)
            return None
        now = self._clock.now().timestamp()
        if now - kept.used_at > _USE_SECONDS:
            self._note(kept._replace(used_at=now))
        return Fetched(stat, kept.digest, cached=True)

    def add(self, place: str, item: LakeObject, source: Source, *, digest: str) -> None:
        """Keep an object. `digest` is the BLAKE3 of the bytes known to be its own: no others ever come out again."""
        if item.size > min(LARGEST, self.cap):
            return
        if isinstance(source, bytes):
            self._blobs.put_unlasting(source, digest)
        elif self._put(item, source) != Blob(digest, item.size):
            return
        self._note(Kept(place, item.checksum, item.size, digest, self._clock.now().timestamp()))
        with self._lock:
            self._added += item.size
            full = self._added > self.cap * (1 - _KEEP)
            if full:
                self._added = 0
        if full:
            self.evict()

    def _put(self, item: LakeObject, source: LocalFile) -> Blob:
        with self._lock:
            self._number += 1
            owner = f"{self._owner}-{self._number}"
        (blob,) = self._blobs.put_all([(item.path, source)], owner=owner)
        return blob

    def flush(self) -> None:
        """Write what is known but not in the index yet; the end of a download calls it."""
        with self._lock:
            rows, self._pending = list(self._pending.values()), {}
        if rows:
            with self._index.write() as connection:
                connection.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", rows)

    def evict(self) -> int:
        """Remove what was used longest ago until the rest is well under the cap; how many bytes went."""
        self.flush()
        with self._index.write() as connection:
            held = connection.execute("SELECT SUM(size) FROM (SELECT DISTINCT digest, size FROM objects)").fetchone()[0]
            removed = 0
            if (held or 0) <= self.cap:
                return 0
            rows = connection.execute(
                "SELECT digest, size, MAX(used_at) AS last FROM objects GROUP BY digest, size ORDER BY last"
            ).fetchall()
            for digest, size, _ in rows:
                if held - removed <= self.cap * _KEEP:
                    break
                connection.execute("DELETE FROM objects WHERE digest = ?", (digest,))
                self._blobs.remove(digest)
                removed += size
        return removed

    def collect(self) -> int:
        """Remove the blobs that no index row names, such as a killed process leaves; how many bytes went."""
        self.flush()
        with self._index.write() as connection:
            known = {row[0] for row in connection.execute("SELECT digest FROM objects")}
            stray = [blob for blob in self._blobs.all() if blob.checksum not in known]
            for blob in stray:
                self._blobs.remove(blob.checksum)
        return sum(blob.size for blob in stray)

    def _note(self, row: Kept) -> None:
        with self._lock:
            self._pending[(row.place, row.checksum, row.size)] = row
            full = len(self._pending) >= _FLUSH
        if full:
            self.flush()

    def _forget(self, digest: str) -> None:
        with self._lock:
            self._pending = {key: row for key, row in self._pending.items() if row.digest != digest}
        with self._index.write() as connection:
            connection.execute("DELETE FROM objects WHERE digest = ?", (digest,))
            self._blobs.remove(digest)
