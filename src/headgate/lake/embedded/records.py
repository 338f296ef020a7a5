"""The tables of an embedded lake, and the questions asked of them.

Functions take the connection of a transaction somebody else has begun: what must be decided in one step is decided by
the caller, in one transaction.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from blake3 import blake3

from headgate.database import Database
from headgate.errors import NotFound, StoreDamaged
from headgate.lake.interface import Branch, LakeCommit
from headgate.lake.tree import Root, node_hash
from headgate.publication import Ref

MIGRATIONS = (
    """
    CREATE TABLE repositories (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        created_at TEXT NOT NULL
    );
    CREATE TABLE commits (
        repository INTEGER NOT NULL REFERENCES repositories (id),
        ref TEXT NOT NULL,
        parents TEXT NOT NULL,
        generation INTEGER NOT NULL,
        root TEXT NOT NULL,
        level INTEGER NOT NULL,
        message TEXT NOT NULL,
        committer TEXT NOT NULL,
        created_at TEXT NOT NULL,
        metadata TEXT NOT NULL,
        UNIQUE (repository, ref)
    );
    CREATE TABLE branches (
        repository INTEGER NOT NULL REFERENCES repositories (id),
        name TEXT NOT NULL,
        ref TEXT NOT NULL,
        PRIMARY KEY (repository, name),
        FOREIGN KEY (repository, ref) REFERENCES commits (repository, ref)
    ) WITHOUT ROWID;
    CREATE TABLE retired_branches (
        repository INTEGER NOT NULL REFERENCES repositories (id),
        name TEXT NOT NULL,
        PRIMARY KEY (repository, name)
    ) WITHOUT ROWID;
    CREATE TABLE nodes (
        hash BLOB NOT NULL PRIMARY KEY,
        data BLOB NOT NULL
    );
    """,
)


@dataclass(frozen=True, kw_only=True)
class StoredCommit:
    """A commit with what the lake needs to work with it."""

    ref: Ref
    parents: tuple[Ref, ...]
    generation: int
    root: Root
    message: str
    committer: str
    created_at: datetime
    metadata: Mapping[str, str]

    def shown(self) -> LakeCommit:
        return LakeCommit(
            ref=self.ref,
            parents=self.parents,
            message=self.message,
            committer=self.committer,
            created_at=self.created_at,
            metadata=dict(self.metadata),
        )


def new_commit(
    *,
    repository: str,
    parents: tuple[StoredCommit, ...],
    root: Root,
    message: str,
    committer: str,
    created_at: datetime,
    metadata: Mapping[str, str],
) -> StoredCommit:
    """A commit named by the digest of all it says."""
    refs = tuple(parent.ref for parent in parents)
    said = [repository, list(refs), list(root), message, committer, created_at.isoformat(), sorted(metadata.items())]
    ref = Ref(blake3(json.dumps(said, separators=(",", ":")).encode()).hexdigest())
    generation = 1 + max((parent.generation for parent in parents), default=0)
    return StoredCommit(
        ref=ref,
        parents=refs,
        generation=generation,
        root=root,
        message=message,
        committer=committer,
        created_at=created_at,
        metadata=dict(metadata),
    )


def repository_id(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT id FROM repositories WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(
            message=f"there is no repository {name!r}",
            hint="`headgate lake repos` lists them",
            kind="repository",
            name=name,
        )
    return int(row[0])


def find_head(connection: sqlite3.Connection, repository: int, branch: str) -> Ref | None:
    row = connection.execute(
        "SELECT ref FROM branches WHERE repository = ? AND name = ?", (repository, branch)
    ).fetchone()
    return None if row is None else Ref(row[0])


def head(connection: sqlite3.Connection, repository: int, branch: str) -> Ref:
    ref = find_head(connection, repository, branch)
    if ref is None:
        raise no_branch(branch)
    return ref


def no_branch(branch: str) -> NotFound:
    return NotFound(
        message=f"there is no branch {branch!r}",
        hint="`headgate branch list` lists them; a deleted staging branch means that its publish was revoked",
        kind="branch",
        name=branch,
    )


def branches(connection: sqlite3.Connection, repository: int, prefix: str) -> list[Branch]:
    rows = connection.execute(
        "SELECT name, ref FROM branches WHERE repository = ? AND substr(name, 1, ?) = ? ORDER BY name",
        (repository, len(prefix), prefix),
    )
    return [Branch(name=name, ref=Ref(ref)) for name, ref in rows]


def is_retired(connection: sqlite3.Connection, repository: int, branch: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM retired_branches WHERE repository = ? AND name = ?", (repository, branch)
    ).fetchone()
    return row is not None


def retire(connection: sqlite3.Connection, repository: int, branch: str) -> None:
    connection.execute("INSERT OR IGNORE INTO retired_branches VALUES (?, ?)", (repository, branch))


def set_head(connection: sqlite3.Connection, repository: int, branch: str, ref: Ref) -> None:
    connection.execute(
        "INSERT INTO branches VALUES (?, ?, ?) ON CONFLICT (repository, name) DO UPDATE SET ref = excluded.ref",
        (repository, branch, ref),
    )


def delete_branch(connection: sqlite3.Connection, repository: int, branch: str) -> bool:
    deleted = connection.execute("DELETE FROM branches WHERE repository = ? AND name = ?", (repository, branch))
    return deleted.rowcount > 0


_COLUMNS = "ref, parents, generation, root, level, message, committer, created_at, metadata"


def commit_at(connection: sqlite3.Connection, repository: int, ref: Ref) -> StoredCommit:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM commits WHERE repository = ? AND ref = ?", (repository, ref)
    ).fetchone()
    if row is None:
        raise NotFound(message=f"there is no commit {ref!r}", hint="`headgate log` lists them", kind="commit", name=ref)
    return _commit(row)


def _commit(row: sqlite3.Row) -> StoredCommit:
    return StoredCommit(
        ref=Ref(row["ref"]),
        parents=tuple(Ref(parent) for parent in json.loads(row["parents"])),
        generation=row["generation"],
        root=Root(row["root"], row["level"]),
        message=row["message"],
        committer=row["committer"],
        created_at=datetime.fromisoformat(row["created_at"]),
        metadata=json.loads(row["metadata"]),
    )


def commits(connection: sqlite3.Connection, repository: int) -> Iterator[StoredCommit]:
    for row in connection.execute(f"SELECT {_COLUMNS} FROM commits WHERE repository = ?", (repository,)):
        yield _commit(row)


def refs_beginning(connection: sqlite3.Connection, repository: int, beginning: str) -> list[Ref]:
    """Up to two refs that begin so: enough to tell whether it is unambiguous."""
    rows = connection.execute(
        "SELECT ref FROM commits WHERE repository = ? AND ref >= ? AND ref < ? LIMIT 2",
        (repository, beginning, beginning + "g"),
    )
    return [Ref(row[0]) for row in rows]


def add_commit(connection: sqlite3.Connection, repository: int, commit: StoredCommit) -> None:
    connection.execute(
        f"INSERT OR IGNORE INTO commits (repository, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            repository,
            commit.ref,
            json.dumps(commit.parents),
            commit.generation,
            *commit.root,
            commit.message,
            commit.committer,
            commit.created_at.isoformat(),
            json.dumps(dict(commit.metadata), sort_keys=True),
        ),
    )


def add_nodes(connection: sqlite3.Connection, nodes: Mapping[str, bytes]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO nodes VALUES (?, ?)", [(bytes.fromhex(node), data) for node, data in nodes.items()]
    )


def remove_nodes(connection: sqlite3.Connection, nodes: Iterable[str]) -> None:
    connection.executemany("DELETE FROM nodes WHERE hash = ?", [(bytes.fromhex(node),) for node in nodes])


class TransactionNodes:
    """The nodes as a transaction sees them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def load(self, node: str) -> bytes:
        data, fault = find_node(self._connection, node)
        if fault is not None:
            raise StoreDamaged(
                message=f"the tree node {node} is {fault}",
                hint="`headgate verify` names the commits it belongs to; restore the database from a backup",
                damaged=(node,),
            )
        return data


def find_node(connection: sqlite3.Connection, node: str) -> tuple[bytes, str | None]:
    """The bytes of a node, and what is wrong with them."""
    row = connection.execute("SELECT CAST(data AS BLOB) FROM nodes WHERE hash = ?", (bytes.fromhex(node),)).fetchone()
    if row is None:
        return b"", "missing"
    data = bytes(row[0])
    return data, None if node_hash(data) == node else "damaged"


class DatabaseNodes:
    """The nodes outside any transaction: they never change, so each may be read on its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, node: str) -> bytes:
        with self._database.read() as connection:
            return TransactionNodes(connection).load(node)

    def find(self, node: str) -> tuple[bytes, str | None]:
        with self._database.read() as connection:
            return find_node(connection, node)


def history(
    connection: sqlite3.Connection, repository: int, starts: Iterable[Ref], *, first_parent: bool = False
) -> Iterator[StoredCommit]:
    """Every commit reachable from `starts`, no commit before its children."""
    waiting: list[tuple[int, str, str, StoredCommit]] = []
    seen: set[Ref] = set()

    def wait(ref: Ref) -> None:
        if ref not in seen:
            seen.add(ref)
            commit = commit_at(connection, repository, ref)
            heapq.heappush(waiting, (-commit.generation, _descending(commit.created_at), ref, commit))

    for ref in starts:
        wait(ref)
    while waiting:
        commit = heapq.heappop(waiting)[-1]
        yield commit
        for parent in commit.parents[:1] if first_parent else commit.parents:
            wait(parent)


def _descending(at: datetime) -> str:
    """Text that sorts the newest first."""
    return f"{10**18 - int(at.timestamp() * 1_000_000):019d}"


def merge_base(connection: sqlite3.Connection, repository: int, one: Ref, two: Ref) -> StoredCommit | None:
    """The newest commit that both histories have, merged parents included; None if they have none in common."""
    marks: dict[Ref, int] = {one: 1}
    marks[two] = marks.get(two, 0) | 2
    waiting = [(-commit_at(connection, repository, ref).generation, ref) for ref in marks]
    heapq.heapify(waiting)
    while waiting:
        _, ref = heapq.heappop(waiting)
        if marks[ref] == 3:
            return commit_at(connection, repository, ref)
        for parent in commit_at(connection, repository, ref).parents:
            if parent not in marks:
                heapq.heappush(waiting, (-commit_at(connection, repository, parent).generation, parent))
            marks[parent] = marks.get(parent, 0) | marks[ref]
    return None
