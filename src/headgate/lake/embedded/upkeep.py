"""Upkeep of an embedded lake: finding damage, and removing what nothing needs.

Removal happens under the database's write lock, which every commit takes before it looks whether its blobs are there:
no commit can point at something that was just taken. Leases keep what the living use from being taken at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headgate.database import Database
from headgate.lake.blobs import Blob, BlobStore
from headgate.lake.embedded import records
from headgate.lake.embedded.records import DatabaseNodes, StoredCommit, TransactionNodes
from headgate.lake.files import in_parallel
from headgate.lake.interface import Branch, LakeObject, Progress
from headgate.lake.leases import Leases
from headgate.lake.tree import Root, decode, reachable
from headgate.publication import Ref

_CHECKED_AT_ONCE = 512
_REMOVED_AT_ONCE = 512


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One thing a commit refers to that is not as it was stored."""

    repository: str
    ref: Ref
    path: str
    """Empty where a part of the tree itself is hurt."""
    checksum: str
    what: str
    branches: tuple[str, ...] = ()
    """Those whose present head is hurt."""


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    commits: int
    objects: int
    bytes: int
    damage: tuple[Damage, ...] = ()

    @property
    def whole(self) -> bool:
        return not self.damage


@dataclass(frozen=True, kw_only=True)
class Reclaimed:
    """What gc removed, or with a dry run would have."""

    commits: int = 0
    nodes: int = 0
    blobs: int = 0
    bytes: int = 0
    incoming: int = 0
    kept_for_the_living: int = 0
    refs: tuple[str, ...] = field(default=(), repr=False)


@dataclass
class _Reached:
    """The nodes and objects of some trees, and the nodes that are hurt."""

    nodes: set[str] = field(default_factory=set)
    objects: dict[str, Blob] = field(default_factory=dict)

    def add(self, item: LakeObject) -> None:
        self.objects[item.checksum] = Blob(item.checksum, item.size)


def verify(database: Database, blobs: BlobStore, *, progress: Progress | None = None) -> VerifyReport:
    with database.read() as connection:
        repositories = [(int(row[0]), str(row[1])) for row in connection.execute("SELECT id, name FROM repositories")]
        commits = {(id_, name): list(records.commits(connection, id_)) for id_, name in repositories}
        heads = {id_: records.branches(connection, id_, "") for id_, _ in repositories}
    nodes = DatabaseNodes(database)
    hurt_nodes: dict[str, str] = {}
    reached = _Reached()
    for found in commits.values():
        for commit in found:
            _reach_whole(nodes, commit.root, reached, hurt_nodes)
    hurt_blobs: dict[str, str] = {}
    waiting = list(reached.objects.values())
    for at in range(0, len(waiting), _CHECKED_AT_ONCE):
        batch = waiting[at : at + _CHECKED_AT_ONCE]
        for blob, what in zip(batch, in_parallel(blobs.check, batch), strict=True):
            if what is not None:
                hurt_blobs[blob.checksum] = what
        if progress is not None:
            progress(len(batch), sum(blob.size for blob in batch))
    damage: list[Damage] = []
    if hurt_nodes or hurt_blobs:
        for (id_, name), found in commits.items():
            for commit in found:
                damage += _damage_of(nodes, name, commit, heads[id_], hurt_nodes, hurt_blobs)
    return VerifyReport(
        commits=sum(len(found) for found in commits.values()),
        objects=len(waiting),
        bytes=sum(blob.size for blob in waiting),
        damage=tuple(damage),
    )


def _reach_whole(nodes: DatabaseNodes, root: Root, reached: _Reached, hurt: dict[str, str]) -> None:
    """Walk a tree, checking each node against its hash; a hurt one is noted and not walked."""
    waiting = [root]
    while waiting:
        node, level = waiting.pop()
        if node in reached.nodes or node in hurt:
            continue
        data, fault = nodes.find(node)
        if fault is not None:
            hurt[node] = fault
            continue
        reached.nodes.add(node)
        for entry in decode(data)[1]:
            if level == 0:
                reached.add(LakeObject(entry[0], entry[2], entry[1]))
            else:
                waiting.append(Root(entry[1], level - 1))


def _damage_of(
    nodes: DatabaseNodes,
    repository: str,
    commit: StoredCommit,
    heads: Sequence[Branch],
    hurt_nodes: dict[str, str],
    hurt_blobs: dict[str, str],
) -> list[Damage]:
    here = tuple(branch.name for branch in heads if branch.ref == commit.ref)

    def damage(path: str, checksum: str, what: str) -> Damage:
        return Damage(repository=repository, ref=commit.ref, path=path, checksum=checksum, what=what, branches=here)

    found: list[Damage] = []
    waiting = [commit.root]
    while waiting:
        node, level = waiting.pop()
        if node in hurt_nodes:
            found.append(damage("", node, hurt_nodes[node]))
            continue
        for entry in decode(nodes.load(node))[1]:
            if level > 0:
                waiting.append(Root(entry[1], level - 1))
            elif entry[1] in hurt_blobs:
                found.append(damage(entry[0], entry[1], hurt_blobs[entry[1]]))
    return sorted(found, key=lambda item: item.path)


def gc(database: Database, blobs: BlobStore, leases: Leases, *, older_than: float, dry_run: bool = False) -> Reclaimed:
    """Remove commits, nodes and blobs that no branch reaches and no living lease names.

    The long walk is made beside the writers; under their lock only what came since is walked. Rows go before blobs, so
    that nothing known to the database ever misses one.
    """
    kept = _Kept()
    with database.read() as connection:
        kept.extend(connection, leases.living(), older_than)
        commits = {(row[0], row[1]) for row in connection.execute("SELECT repository, ref FROM commits")} - kept.commits
        nodes = {row[0].hex() for row in connection.execute("SELECT hash FROM nodes")} - kept.nodes
    unreached = [blob for blob in blobs.all() if blob.checksum not in kept.checksums]
    if not dry_run and (commits or nodes):
        with database.write() as connection:
            kept.extend(connection, leases.living(), older_than)
            commits, nodes = commits - kept.commits, nodes - kept.nodes
            connection.executemany("DELETE FROM commits WHERE repository = ? AND ref = ?", commits)
            records.remove_nodes(connection, nodes)
    lost: list[Blob] = []
    for at in range(0, len(unreached), _REMOVED_AT_ONCE):
        batch = unreached[at : at + _REMOVED_AT_ONCE]
        with database.write(durable=False) as connection:
            pins = kept.extend(connection, leases.living(), older_than)
            batch = [blob for blob in batch if blob.checksum not in kept.checksums and blob.checksum not in pins]
            for blob in batch if not dry_run else ():
                blobs.remove(blob.checksum)
        lost += batch
    return Reclaimed(
        commits=len(commits),
        nodes=len(nodes),
        blobs=len(lost),
        bytes=sum(blob.size for blob in lost),
        incoming=0 if dry_run else blobs.remove_incoming(leases.living),
        kept_for_the_living=len(unreached) - len(lost),
        refs=tuple(sorted(ref for _, ref in commits)),
    )


class _Kept:
    """Everything that must stay, found out step by step: each look walks only what the one before did not."""

    def __init__(self) -> None:
        self.commits: set[tuple[int, str]] = set()
        self.nodes: set[str] = set()
        self.checksums: set[str] = set()

    def extend(self, connection: sqlite3.Connection, living: Mapping[str, set[str]], older_than: float) -> set[str]:
        """Look again at branches, young commits and leases; the names that the leases pin now."""
        pins: set[str] = set().union(*living.values())
        nodes = TransactionNodes(connection)
        names = {row[0]: row[1] for row in connection.execute("SELECT id, name FROM repositories")}
        waiting = [(row[0], row[1]) for row in connection.execute("SELECT repository, ref FROM branches")]
        for id_, ref, created_at in connection.execute("SELECT repository, ref, created_at FROM commits"):
            young = datetime.fromisoformat(created_at).timestamp() > older_than
            if (young or f"{names[id_]}@{ref}" in pins) and (id_, ref) not in self.commits:
                waiting.append((id_, ref))
        while waiting:
            id_, ref = waiting.pop()
            if (id_, ref) in self.commits:
                continue
            self.commits.add((id_, ref))
            commit = records.commit_at(connection, id_, Ref(ref))
            reachable(nodes, commit.root, self.nodes, lambda item: self.checksums.add(item.checksum))
            waiting += [(id_, parent) for parent in commit.parents]
        return pins
