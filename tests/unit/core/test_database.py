"""The SQLite wrapper: migrations, transactions, and errors a person can act on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.database import Database
from headgate.errors import InvalidInput, RecoveryRequired, StoreDamaged, Transient

ONE = "CREATE TABLE things (name TEXT PRIMARY KEY);\n"
TWO = "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 0;\nCREATE INDEX by_size ON things (size);\n"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "deep" / "things.db", what="the things", migrations=[ONE], busy_seconds=0.05)
    yield database
    database.close()


def names(database: Database) -> list[str]:
    with database.read() as rows:
        return [row["name"] for row in rows.execute("SELECT name FROM things ORDER BY name")]


def test_a_block_that_raises_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError), database.write() as rows:
        rows.execute("INSERT INTO things VALUES ('a')")
        raise RuntimeError
    with database.write() as rows:
        rows.execute("INSERT INTO things VALUES ('b')")
    assert names(database) == ["b"]


def test_later_migrations_keep_what_is_there(database: Database) -> None:
    with database.write() as rows:
        rows.execute("INSERT INTO things VALUES ('a')")
    database.close()
    later = Database(database.path, what="the things", migrations=[ONE, TWO])
    with later.read() as rows:
        assert [tuple(row) for row in rows.execute("SELECT * FROM things")] == [("a", 0)]
    later.close()


def test_a_file_of_a_newer_version_is_refused(database: Database) -> None:
    Database(database.path, what="the things", migrations=[ONE, TWO]).close()
    with pytest.raises(RecoveryRequired, match="newer Headgate.*format 2.*knows 1"):
        Database(database.path, what="the things", migrations=[ONE])


def test_a_migration_that_fails_changes_nothing(database: Database) -> None:
    with pytest.raises(Transient):
        Database(database.path, what="the things", migrations=[ONE, TWO + "ALTER TABLE nowhere ADD COLUMN x;\n"])
    later = Database(database.path, what="the things", migrations=[ONE, TWO])
    later.close()


def test_a_locked_database_says_so(database: Database) -> None:
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Transient, match="locked by another process.*things.db"), database.write():
        pass
    other.close()
    with database.write() as rows:
        rows.execute("INSERT INTO things VALUES ('after')")
    assert names(database) == ["after"]


def test_a_damaged_database_says_so(tmp_path: Path) -> None:
    path = tmp_path / "things.db"
    path.write_bytes(b"this is no database, whatever its name says" * 200)
    with pytest.raises(StoreDamaged, match="damaged.*things.db") as caught:
        Database(path, what="the things", migrations=[ONE])
    assert caught.value.hint


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="file/things.db"):
        Database(tmp_path / "file" / "things.db", what="the things", migrations=[ONE])


def test_writers_in_threads_wait_for_each_other(tmp_path: Path) -> None:
    database = Database(tmp_path / "things.db", what="the things", migrations=[ONE])

    def add(worker: int) -> None:
        for _ in range(10):
            with database.write() as rows:
                count = rows.execute("SELECT count(*) FROM things").fetchone()[0]
                rows.execute("INSERT INTO things VALUES (?)", (f"{count:03}",))

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(database) == [f"{number:03}" for number in range(40)]
    database.close()


def test_threads_that_are_gone_keep_no_connection(database: Database) -> None:
    for _ in range(5):
        thread = threading.Thread(target=names, args=(database,))
        thread.start()
        thread.join()
    assert len(database._opened) <= 2
    assert names(database) == []
