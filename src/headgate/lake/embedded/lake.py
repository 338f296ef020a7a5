"""The embedded lake: metadata in SQLite, bytes in a blob store, every head update one conditional transaction.

What a durable transaction has answered survives a power failure: blobs are synchronised before the transaction that
refers to them. Staging branches are scratch: what happens on them lasts with the publish that takes it up.
"""

from __future__ import annotations

import getpass
import os
import socket
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.database import BUSY_SECONDS, Database
from headgate.errors import (
    AlreadyExists,
    ExpectedHeadMismatch,
    InvalidInput,
    NotFound,
    NothingChanged,
    StoreDamaged,
)
from headgate.failpoints import Failpoint, failpoint
from headgate.ids import ULIDS, IdSource
from headgate.lake.blobs import Blob, BlobStore
from headgate.lake.disk import DISK, Disk, UnsyncedDisk, disk_error
from headgate.lake.embedded import records, upkeep
from headgate.lake.embedded.merging import EMPTY_ROOT, merge_trees
from headgate.lake.embedded.records import DatabaseNodes, StoredCommit, TransactionNodes
from headgate.lake.interface import (
    MAIN,
    STAGING_PREFIX,
    Branch,
    Change,
    ChangeKind,
    Changes,
    Fetched,
    LakeCommit,
    LakeObject,
    Progress,
    Source,
    Wanted,
)
from headgate.lake.leases import Lease, Leases
from headgate.lake.paths import check_key, check_name, normal_prefix, under
from headgate.lake.publisher import Publisher
from headgate.lake.tree import EMPTY, Built, Root, Tree, compare
from headgate.publication import Head, Ref, Strength

DATABASE = "lake.db"
_SHORTEST_REF = 4
_FETCHERS = 8
"""Fewer would do for small files in memory; on a disk whose journal is busy, each waiting thread is one more file that
gets through when it moves on."""


class EmbeddedLake:
    """A lake in one folder. Any number of threads and processes may have it open."""

    def __init__(
        self,
        folder: Path | str,
        *,
        create: bool = False,
        committer: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        ids: IdSource = ULIDS,
        disk: Disk = DISK,
        durable: bool = True,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        """Open the lake in `folder`; `create` makes one where there is none.

        Without `durable` nothing waits for the disk: for lakes that a test throws away.
        """
        self.folder = Path(folder)
        disk = disk if durable else UnsyncedDisk()
        self.blobs = BlobStore(self.folder, disk=disk)
        self.leases = Leases(self.folder / "leases", ids=ids)
        self._clock = clock
        self._committer = committer if committer is not None else _this_user()
        made = not (self.folder / DATABASE).exists()
        if made:
            if not create:
                raise NotFound(
                    message=f"there is no lake in {self.folder}",
                    hint="`headgate lake init` makes one",
                    kind="lake",
                    name=str(self.folder),
                )
            self._create(disk)
        self.database = Database(
            self.folder / DATABASE,
            what="the lake's database",
            migrations=records.MIGRATIONS,
            durable=durable,
            busy_seconds=busy_seconds,
        )
        self._durable = durable
        if made:
            disk.sync_folder(str(self.folder))  # the name of the database must last as well
        self._nodes = DatabaseNodes(self.database)

    def _create(self, disk: Disk) -> None:
        try:
            (self.folder / "leases").mkdir(parents=True, exist_ok=True)
            self.blobs.create()
            disk.sync_folder(str(self.folder.parent))
        except OSError as fault:
            raise disk_error(fault, self.folder, "create a lake in") from fault

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddedLake({str(self.folder)!r})"

    @property
    def name(self) -> str:
        return f"embedded:{self.folder}"

    def strength(self, repository: str) -> Strength:
        return Strength.HARD

    @property
    def fetchers(self) -> int:
        return _FETCHERS

    # repositories
    def repositories(self) -> list[str]:
        with self.database.read() as connection:
            return [row[0] for row in connection.execute("SELECT name FROM repositories ORDER BY name")]

    def create_repository(self, name: str) -> Ref:
        check_name("repository", name)
        first = self._commit_of(name, parents=(), root=EMPTY_ROOT, message="Repository created", metadata={})
        with self.database.write() as connection:
            added = connection.execute(
                "INSERT INTO repositories (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (name, first.created_at.isoformat()),
            )
            if added.rowcount == 0:
                raise AlreadyExists(
                    message=f"there is a repository {name!r} already",
                    hint="choose another name",
                    kind="repository",
                    name=name,
                )
            repository = records.repository_id(connection, name)
            self._record(connection, repository, first, EMPTY.new)
            records.set_head(connection, repository, MAIN, first.ref)
        return first.ref

    # branches
    def branches(self, repository: str, *, prefix: str = "") -> Iterator[Branch]:
        with self.database.read() as connection:
            found = records.branches(connection, records.repository_id(connection, repository), prefix)
        return iter(found)

    def create_branch(self, repository: str, branch: str, *, at: Ref) -> None:
        check_name("branch", branch)
        with self.database.write(durable=self._lasts(branch)) as connection:
            id_ = records.repository_id(connection, repository)
            if records.find_head(connection, id_, branch) is not None:
                raise AlreadyExists(
                    message=f"there is a branch {branch!r} already",
                    hint="choose another name",
                    kind="branch",
                    name=branch,
                )
            if records.is_retired(connection, id_, branch):
                raise AlreadyExists(
                    message=f"the staging branch {branch!r} was deleted, and its name is never used again",
                    hint="start a new attempt: its execution has a name of its own",
                    kind="branch",
                    name=branch,
                )
            records.commit_at(connection, id_, at)
            records.set_head(connection, id_, branch, at)

    def delete_branch(self, repository: str, branch: str) -> bool:
        # Revoking has to hold against living processes only: those of before a power failure are gone with it.
        with self.database.write(durable=self._lasts(branch)) as connection:
            id_ = records.repository_id(connection, repository)
            if _is_scratch(branch):
                records.retire(connection, id_, branch)
            return records.delete_branch(connection, id_, branch)

    def head(self, repository: str, branch: str) -> Head:
        with self.database.read() as connection:
            id_ = records.repository_id(connection, repository)
            commit = records.commit_at(connection, id_, records.head(connection, id_, branch))
        return Head(branch=branch, ref=commit.ref, parents=commit.parents, metadata=commit.metadata)

    # reading
    def resolve(self, repository: str, name: str) -> Ref:
        with self.database.read() as connection:
            id_ = records.repository_id(connection, repository)
            ref = records.find_head(connection, id_, name)
            if ref is not None:
                return ref
            found = records.refs_beginning(connection, id_, name) if len(name) >= _SHORTEST_REF else []
        if len(found) > 1:
            raise InvalidInput(message=f"{name!r} begins more than one ref", hint="give more of its characters")
        if not found:
            raise NotFound(
                message=f"{name!r} is neither a branch nor a commit of {repository!r}",
                hint="`headgate branch list` and `headgate log` show what there is",
                kind="ref",
                name=name,
            )
        return found[0]

    def commit_at(self, repository: str, ref: Ref) -> LakeCommit:
        return self._stored(repository, ref).shown()

    def log(self, repository: str, ref: Ref, *, first_parent: bool = True) -> Iterator[LakeCommit]:
        if first_parent:
            return self._first_parents(repository, self._stored(repository, ref))
        with self.database.read() as connection:
            id_ = records.repository_id(connection, repository)
            return iter([commit.shown() for commit in records.history(connection, id_, [ref])])

    def _first_parents(self, repository: str, commit: StoredCommit) -> Iterator[LakeCommit]:
        yield commit.shown()
        while commit.parents:
            commit = self._stored(repository, commit.parents[0])
            yield commit.shown()

    def objects(self, repository: str, ref: Ref, *, prefix: str = "") -> Iterator[LakeObject]:
        return self._tree(repository, ref).objects(normal_prefix(prefix))

    @contextmanager
    def open(self, repository: str, ref: Ref, path: str) -> Iterator[BinaryIO]:
        found = self._tree(repository, ref).find(path)
        if found is None:
            raise NotFound(
                message=f"there is no object {path!r} at {ref}",
                hint="`headgate lake ls` lists them",
                kind="object",
                name=path,
            )
        with self.blobs.open(found.checksum) as file:
            yield file

    @contextmanager
    def reading(self, repository: str, ref: Ref) -> Iterator[None]:
        with self.leases.hold([f"{repository}@{ref}"]):
            # Upkeep that has not seen the lease is over once the lock is ours; one that comes later sees it.
            with self.database.write(durable=False) as connection:
                records.commit_at(connection, records.repository_id(connection, repository), ref)
            yield

    def fetch(self, repository: str, ref: Ref, wanted: Sequence[Wanted]) -> Iterator[Fetched]:
        for item, into in wanted:
            try:
                yield Fetched(self.blobs.copy_out(Blob(item.checksum, item.size), into), item.checksum)
            except StoreDamaged as damage:
                raise StoreDamaged(
                    message=f"{item.path} of {repository}@{ref}: {damage.message}",
                    hint=damage.hint,
                    damaged=damage.damaged,
                ) from damage

    def diff(self, repository: str, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[Change]:
        before, after = self._stored(repository, old), self._stored(repository, new)
        within = normal_prefix(prefix)
        for path, was, now in compare(self._nodes, before.root, after.root):
            if not under(within, path):
                continue
            if now is None:
                yield Change(path=path, kind=ChangeKind.REMOVED)
            else:
                yield Change(path=path, kind=ChangeKind.CHANGED if was else ChangeKind.ADDED, size=now.size)

    # writing
    def commit(
        self,
        repository: str,
        branch: str,
        changes: Changes,
        *,
        message: str,
        metadata: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Ref:
        deletes = [check_key(path) for path in changes.deletes]
        sources = [(check_key(path), source) for path, source in changes.puts.items()]
        both = set(deletes).intersection(changes.puts)
        if both:
            raise InvalidInput(message=f"{min(both)!r} is to be put and deleted in one commit", hint="do one of them")
        self.head(repository, branch)  # before any byte is written: the branch may not be there
        with self.leases.hold() as lease:
            edits: dict[str, LakeObject | None] = dict.fromkeys(deletes)
            edits.update(self._put(sources, lease, progress))
            commit = self._try_commit(repository, branch, edits, message, metadata or {})
            while isinstance(commit, list):  # upkeep took these before the lease named them: keep them once more
                gone = set(commit)
                self._put([(path, source) for path, source in sources if path in gone], lease, None)
                commit = self._try_commit(repository, branch, edits, message, metadata or {})
            return commit

    def _put(
        self, sources: Sequence[tuple[str, Source]], lease: Lease, progress: Progress | None
    ) -> dict[str, LakeObject]:
        def staged(files: int, size: int) -> None:
            if progress is not None:
                progress(files, size)
            failpoint(Failpoint.ATTEMPT_HALF_UPLOADED)

        blobs = self.blobs.put_all(
            sources, owner=lease.id, on_blob=lambda blob: lease.pin([blob.checksum]), progress=staged
        )
        return {
            path: LakeObject(path, blob.size, blob.checksum) for (path, _), blob in zip(sources, blobs, strict=True)
        }

    def _try_commit(
        self,
        repository: str,
        branch: str,
        edits: Mapping[str, LakeObject | None],
        message: str,
        metadata: Mapping[str, str],
    ) -> Ref | list[str]:
        """The new head; or the paths whose blobs are no longer there, and nothing is committed."""
        with self.database.read() as connection:
            id_ = records.repository_id(connection, repository)
            parent = records.commit_at(connection, id_, records.head(connection, id_, branch))
            built = Tree(TransactionNodes(connection), parent.root).edit(edits)
        with self.database.write(durable=self._lasts(branch)) as connection:
            head = records.head(connection, id_, branch)
            if head != parent.ref:  # somebody committed meanwhile; nobody can any more
                parent = records.commit_at(connection, id_, head)
                built = Tree(TransactionNodes(connection), parent.root).edit(edits)
            gone = self._gone(edits)
            if gone:
                return gone
            if built.root == parent.root:
                raise InvalidInput(
                    message=f"there is nothing to commit on {branch!r}: its objects are as the changes would make them",
                    hint="leave the branch as it is",
                )
            commit = self._commit_of(repository, parents=(parent,), root=built.root, message=message, metadata=metadata)
            self._record(connection, id_, commit, built.new)
            records.set_head(connection, id_, branch, commit.ref)
        return commit.ref

    def _gone(self, edits: Mapping[str, LakeObject | None]) -> list[str]:
        return [
            path
            for path, item in edits.items()
            if item is not None and not self.blobs.has(Blob(item.checksum, item.size))
        ]

    # publishing
    def merge(
        self,
        repository: str,
        source: str,
        into: str,
        *,
        expected_head: Ref,
        message: str,
        metadata: Mapping[str, str] | None = None,
        squash: bool = True,
        publisher: Publisher | None = None,
        timeout: float | None = None,
    ) -> Ref:
        with self.database.read() as connection:
            id_ = records.repository_id(connection, repository)
            theirs = records.commit_at(connection, id_, records.head(connection, id_, source))
            ours = records.commit_at(connection, id_, _expect(connection, id_, into, expected_head))
            built = self._merged(connection, id_, ours=ours, theirs=theirs)
        with self.database.write(timeout=timeout) as connection:
            head = records.head(connection, id_, source)  # gone: the merge was revoked
            _expect(connection, id_, into, expected_head)
            if head != theirs.ref:  # somebody committed there meanwhile; nobody can any more
                theirs = records.commit_at(connection, id_, head)
                built = self._merged(connection, id_, ours=ours, theirs=theirs)
            nothing = built.root == ours.root if squash else theirs.ref == ours.ref
            if nothing:
                raise NothingChanged(
                    message=f"{source!r} has nothing that {into!r} does not have", hint="there is nothing to merge"
                )
            parents = (ours,) if squash else (ours, theirs)
            commit = self._commit_of(
                repository, parents=parents, root=built.root, message=message, metadata=metadata or {}
            )
            self._record(connection, id_, commit, built.new)
            records.set_head(connection, id_, into, commit.ref)
        return commit.ref

    def _merged(
        self, connection: sqlite3.Connection, repository: int, *, ours: StoredCommit, theirs: StoredCommit
    ) -> Built:
        base = records.merge_base(connection, repository, ours.ref, theirs.ref)
        root = EMPTY_ROOT if base is None else base.root
        return merge_trees(TransactionNodes(connection), base=root, ours=ours.root, theirs=theirs.root)

    def move_head(
        self,
        repository: str,
        branch: str,
        *,
        to_branch: str,
        expected_head: Ref,
        publisher: Publisher | None = None,
        timeout: float | None = None,
    ) -> Ref:
        with self.database.write(timeout=timeout) as connection:
            id_ = records.repository_id(connection, repository)
            target = records.head(connection, id_, to_branch)
            _expect(connection, id_, branch, expected_head)
            records.set_head(connection, id_, branch, target)
        return target

    def revoke(self, repository: str, *branches: str, target: str) -> None:
        for branch in branches:
            self.delete_branch(repository, branch)

    # upkeep
    def verify(self, *, progress: Progress | None = None) -> upkeep.VerifyReport:
        """Read everything any commit refers to; what is missing or damaged, and which commits and branches it hurts."""
        return upkeep.verify(self.database, self.blobs, progress=progress)

    def gc(self, *, keep_seconds: float = 0.0, dry_run: bool = False) -> upkeep.Reclaimed:
        """Remove what no branch reaches and no living reader or writer uses; commits younger than that stay."""
        return upkeep.gc(
            self.database,
            self.blobs,
            self.leases,
            older_than=self._clock.now().timestamp() - keep_seconds,
            dry_run=dry_run,
        )

    def _lasts(self, branch: str) -> bool:
        """Whether a change of this branch must survive a power failure; a staging branch is lost with its attempt."""
        return self._durable and not _is_scratch(branch)

    def _stored(self, repository: str, ref: Ref) -> StoredCommit:
        with self.database.read() as connection:
            return records.commit_at(connection, records.repository_id(connection, repository), ref)

    def _tree(self, repository: str, ref: Ref) -> Tree:
        return Tree(self._nodes, self._stored(repository, ref).root)

    def _commit_of(
        self,
        repository: str,
        *,
        parents: tuple[StoredCommit, ...],
        root: Root,
        message: str,
        metadata: Mapping[str, str],
    ) -> StoredCommit:
        return records.new_commit(
            repository=repository,
            parents=parents,
            root=root,
            message=message,
            committer=self._committer,
            created_at=self._clock.now(),
            metadata=metadata,
        )

    @staticmethod
    def _record(
        connection: sqlite3.Connection, repository: int, commit: StoredCommit, nodes: Mapping[str, bytes]
    ) -> None:
        records.add_nodes(connection, nodes)
        records.add_commit(connection, repository, commit)


def _expect(connection: sqlite3.Connection, repository: int, branch: str, expected: Ref) -> Ref:
    actual = records.head(connection, repository, branch)
    if actual != expected:
        raise ExpectedHeadMismatch(
            message=f"the branch {branch!r} has moved",
            hint="read the head again and decide anew",
            branch=branch,
            expected=expected,
            actual=actual,
        )
    return actual


def _is_scratch(branch: str) -> bool:
    return branch.startswith(STAGING_PREFIX)


def _this_user() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
