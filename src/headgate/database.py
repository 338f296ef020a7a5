"""SQLite as Headgate keeps it: WAL, numbered migrations, writes that wait their turn, errors that say what to do.

`Database.write` takes the write lock before it reads, so that a decision and the update made on it are one step, in
this process and among others. What a transaction has answered survives power loss unless the file was opened, or the
transaction begun, with `durable=False`: a killed process loses nothing by it, and the next durable transaction makes
it last. A transaction that could not begin has done nothing; one whose COMMIT failed may have, and says so.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headgate.errors import (
    AccessDenied,
    DiskFull,
    HeadgateError,
    InvalidInput,
    OutcomeUnknown,
    RecoveryRequired,
    StoreDamaged,
    Transient,
)
from headgate.failpoints import Failpoint, failpoint

BUSY_SECONDS = 30.0
"""How long a write waits for another process's transaction; those are short, so a longer wait means a stuck one."""


class Database:
    """One SQLite file with the tables its migrations make. Safe for several threads and processes."""

    def __init__(
        self,
        path: Path,
        *,
        what: str,
        migrations: Sequence[str],
        durable: bool = True,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        """`what` names the file in messages; each migration is a script, and its position is its number."""
        self.path = path
        self._what = what
        self._durable = durable
        self._busy_seconds = busy_seconds
        self._local = threading.local()
        self._opened: list[tuple[int, threading.Thread, sqlite3.Connection]] = []
        self._lock = threading.Lock()
        with self._told():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidInput(
                    message=f"{what} cannot be kept at {path}: {error}", hint="choose another folder"
                ) from error
            self._migrate(migrations)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view for as long as the block lasts."""
        with self._told():
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def write(self, *, durable: bool | None = None, timeout: float | None = None) -> Iterator[sqlite3.Connection]:
        """One transaction that nobody else's write can come between; rolled back if the block raises.

        `timeout` is how many seconds to wait for the write lock; it and `durable` are the file's unless given.
        """
        with self._told():
            connection = self._connection()
            self._tune(connection, durable=self._durable if durable is None else durable, timeout=timeout)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                self._commit(connection)
            except BaseException:
                connection.rollback()
                raise
        failpoint(Failpoint.DATABASE_COMMITTED)

    def _tune(self, connection: sqlite3.Connection, *, durable: bool, timeout: float | None) -> None:
        seconds = self._busy_seconds if timeout is None else timeout
        wanted = (self._synchronous(durable), max(0, int(seconds * 1000)))
        if getattr(self._local, "tuned", None) != wanted:
            connection.execute(f"PRAGMA synchronous = {wanted[0]}")
            connection.execute(f"PRAGMA busy_timeout = {wanted[1]}")
            self._local.tuned = wanted

    def _synchronous(self, durable: bool) -> str:
        # NORMAL still synchronises checkpoints, which a file that outlives nothing has no use for.
        return "FULL" if durable else "NORMAL" if self._durable else "OFF"

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.commit()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
                raise  # its last record was never written: not committed, for certain
            raise OutcomeUnknown(
                message=f"{self._what} did not say whether a transaction was committed: {self.path}: {error}",
                hint="read back what it was to change, then decide",
            ) from error

    def close(self) -> None:
        """Close what this process has opened; a later call opens it again."""
        with self._lock:
            opened, self._opened = self._opened, []
            self._local = threading.local()
        for pid, _, connection in opened:
            if pid == os.getpid():
                connection.close()

    def _connection(self) -> sqlite3.Connection:
        # A connection must not cross a fork, and one thread's transaction must not be seen by another's.
        if getattr(self._local, "pid", None) != os.getpid():
            connection = sqlite3.connect(
                self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
            )
            connection.row_factory = sqlite3.Row
            with self._lock:
                self._close_those_of_dead_threads()
                self._opened.append((os.getpid(), threading.current_thread(), connection))
            connection.execute(f"PRAGMA synchronous = {self._synchronous(self._durable)}")
            connection.execute("PRAGMA foreign_keys = ON")
            self._local.connection, self._local.pid, self._local.tuned = connection, os.getpid(), None
        connection = self._local.connection
        assert isinstance(connection, sqlite3.Connection)
        return connection

    def _close_those_of_dead_threads(self) -> None:
        dead = [opened for opened in self._opened if opened[0] == os.getpid() and not opened[1].is_alive()]
        self._opened = [opened for opened in self._opened if opened not in dead]
        for _, _, connection in dead:
            connection.close()

    def _migrate(self, migrations: Sequence[str]) -> None:
        connection = self._connection()
        if self._version(connection) == len(migrations):
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version(connection)
            if version > len(migrations):
                raise RecoveryRequired(
                    message=f"{self._what} was written by a newer Headgate: {self.path} has format {version}, "
                    f"this version knows {len(migrations)}",
                    hint="upgrade Headgate on this machine",
                )
            for number, script in enumerate(migrations[version:], start=version + 1):
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    @staticmethod
    def _version(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise told(error, what=self._what, path=self.path) from error


def _statements(script: str) -> Iterator[str]:
    """Statements one by one: `executescript` would commit the transaction the migration runs in."""
    pending = ""
    for line in script.splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        raise ValueError(f"a migration ends in the middle of a statement: {pending.strip()!r}")


def told(error: sqlite3.Error, *, what: str, path: Path) -> HeadgateError:
    """What a failure of SQLite means to the caller."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Transient(
            message=f"{what} is locked by another process: {path}",
            hint="a transaction there is stuck; end that process, or try again later",
        )
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreDamaged(
            message=f"{what} is damaged: {path}: {error}",
            hint="restore the file from a backup; `sqlite3 FILE .recover` may save part of it",
            damaged=(str(path),),
        )
    if primary == sqlite3.SQLITE_FULL:
        return DiskFull(
            message=f"no space left for {what}: {path}", hint="free some space and try again", path=str(path)
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return AccessDenied(
            message=f"{what} cannot be opened or written: {path}: {error}",
            hint="check that the folder exists and that this user may write there",
            right="write",
        )
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError | sqlite3.InterfaceError):
        return HeadgateError(
            message=f"{what} refused a statement: {error}", hint="report it: this is a fault of Headgate"
        )
    return Transient(message=f"{what} did not answer: {path}: {error}", hint="try again later")
