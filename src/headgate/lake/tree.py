"""Sets of objects as content-addressed search trees that share what they have in common.

All paths of a commit, in order, are cut into leaves; the leaves' last paths are cut into nodes, and so on up to one
root. Where to cut is decided by a hash of the path alone, so a set of objects has exactly one tree, whatever order it
was made in, and a change rewrites the nodes on the way to it and no others: a flat folder of any size is no exception.
Two trees are compared by skipping the nodes they share.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from blake3 import blake3

from headgate.lake.interface import LakeObject

_BITS = 6
"""A node has 2**6 entries on average: a changed file rewrites about 8 KB a level, a million files have four levels."""

Entry = list[Any]
"""In a leaf `[path, checksum, size]`; above it `[last path, node hash]`."""


class Nodes(Protocol):
    """Where nodes are kept, by the hash of their bytes."""

    def load(self, node: str) -> bytes: ...


class Root(NamedTuple):
    """A whole tree."""

    node: str
    level: int


@dataclass(frozen=True)
class Built:
    """A tree, and those of its nodes that were made for it: they may or may not be in the store already."""

    root: Root
    new: Mapping[str, bytes]


def node_hash(data: bytes) -> str:
    return blake3(data).hexdigest()


def _encode(level: int, entries: Sequence[Entry]) -> bytes:
    return json.dumps([level, entries], separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes) -> tuple[int, list[Entry]]:
    level, entries = json.loads(data)
    return level, entries


def _rank(path: str) -> int:
    """On how many levels a node ends with this path."""
    bits = int.from_bytes(blake3(path.encode()).digest(8), "big")
    return ((bits & -bits).bit_length() - 1) // _BITS if bits else 8 * 8 // _BITS


def order(path: str) -> bytes:
    """What paths are sorted by: their bytes, as in every object store."""
    return path.encode()


class _Builder:
    """Makes a tree from its entries, in order; whole nodes of another tree are taken over where they fit."""

    def __init__(self) -> None:
        self.new: dict[str, bytes] = {}
        self._pending: list[list[Entry]] = [[]]

    def add(self, level: int, entry: Entry, rank: int) -> None:
        """An entry of the node in the making at `level`; `rank` is that of its path."""
        while len(self._pending) <= level:
            self._pending.append([])
        self._pending[level].append(entry)
        if rank > level:
            self._close(level, rank)

    def takes_whole(self, level: int) -> bool:
        """Whether a node of `level` can be taken over as it is: nothing before it waits to be joined with it."""
        return not any(self._pending[: level + 1])

    def _close(self, level: int, rank: int) -> None:
        entries, self._pending[level] = self._pending[level], []
        self.add(level + 1, [entries[-1][0], self._keep(level, entries)], rank)

    def _keep(self, level: int, entries: Sequence[Entry]) -> str:
        data = _encode(level, entries)
        node = node_hash(data)
        self.new[node] = data
        return node

    def finish(self) -> Built:
        level = 0
        while True:
            above = any(self._pending[level + 1 :])
            entries = self._pending[level]
            if not above and level > 0 and len(entries) == 1:
                return Built(Root(entries[0][1], level - 1), self.new)
            if not above and level == 0:
                return Built(Root(self._keep(0, entries), 0), self.new)
            if entries:
                self._close(level, 0)
            level += 1


EMPTY = _Builder().finish()
"""The tree without objects."""


class Tree:
    """The objects of one commit."""

    def __init__(self, nodes: Nodes, root: Root) -> None:
        self._nodes = nodes
        self.root = root

    def _load(self, node: str) -> list[Entry]:
        return decode(self._nodes.load(node))[1]

    def find(self, path: str) -> LakeObject | None:
        node, level = self.root
        key = order(path)
        while True:
            entries = self._load(node)
            at = _first_from(entries, key)
            if at == len(entries):
                return None
            if level == 0:
                found = entries[at]
                return LakeObject(found[0], found[2], found[1]) if found[0] == path else None
            node, level = entries[at][1], level - 1

    def objects(self, prefix: str = "") -> Iterator[LakeObject]:
        """Those under a normal prefix, in order."""
        if not prefix:
            yield from self._walk(self.root.node, self.root.level, b"", None)
            return
        own = self.find(prefix)
        if own is not None:
            yield own
        folder = order(prefix)
        yield from self._walk(self.root.node, self.root.level, folder + b"/", folder + b"0")  # '0' follows '/'

    def _walk(self, node: str, level: int, low: bytes, high: bytes | None) -> Iterator[LakeObject]:
        entries = self._load(node)
        at = _first_from(entries, low) if low else 0
        for entry in entries[at:]:
            if level == 0:
                if high is not None and order(entry[0]) >= high:
                    return
                yield LakeObject(entry[0], entry[2], entry[1])
            else:
                yield from self._walk(entry[1], level - 1, low, high)
                if high is not None and order(entry[0]) >= high:
                    return

    def edit(self, edits: Mapping[str, LakeObject | None]) -> Built:
        """This tree with some objects put (or, where None, removed); the cost is that of the edits."""
        builder = _Builder()
        paths = sorted(edits, key=order)
        self._edit(builder, self.root.node, self.root.level, paths, edits)
        return builder.finish()

    def _edit(
        self,
        builder: _Builder,
        node: str,
        level: int,
        paths: Sequence[str],
        edits: Mapping[str, LakeObject | None],
    ) -> None:
        entries = self._load(node)
        if level == 0:
            final = entries[-1] if entries else None
            for entry, old in _merged(entries, paths, edits):
                # Only its last path can have ended a node: that no other did says what rank it has.
                builder.add(0, entry, 0 if old and entry is not final else _rank(entry[0]))
            return
        keys = [order(path) for path in paths]
        start = 0
        for number, entry in enumerate(entries):
            last = number == len(entries) - 1
            end = len(paths) if last else bisect_right(keys, order(entry[0]), start)
            rank = _rank(entry[0]) if last else level
            if start == end and rank >= level and builder.takes_whole(level - 1):
                builder.add(level, entry, rank)
            else:
                self._edit(builder, entry[1], level - 1, paths[start:end], edits)
            start = end


def _first_from(entries: Sequence[Entry], key: bytes) -> int:
    """Where the first entry stands whose path is not before `key`."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) // 2
        if order(entries[middle][0]) < key:
            low = middle + 1
        else:
            high = middle
    return low


def _merged(
    entries: Sequence[Entry], paths: Sequence[str], edits: Mapping[str, LakeObject | None]
) -> Iterator[tuple[Entry, bool]]:
    """The entries of a leaf after the edits, in order, and whether they were there before."""
    at = 0
    for path in paths:
        key = order(path)
        while at < len(entries) and order(entries[at][0]) < key:
            yield entries[at], True
            at += 1
        if at < len(entries) and entries[at][0] == path:
            at += 1
        put = edits[path]
        if put is not None:
            yield [path, put.checksum, put.size], False
    for entry in entries[at:]:
        yield entry, True


def compare(nodes: Nodes, old: Root, new: Root) -> Iterator[tuple[str, LakeObject | None, LakeObject | None]]:
    """Every path at which two trees differ, in order, with the object on either side."""
    yield from _compare(_Cursor(nodes, old), _Cursor(nodes, new))


def _compare(left: _Cursor, right: _Cursor) -> Iterator[tuple[str, LakeObject | None, LakeObject | None]]:
    while True:
        left.skip_shared(right)
        one, two = left.entry(), right.entry()
        if one is None and two is None:
            return
        if two is None or (one is not None and order(one[0]) < order(two[0])):
            assert one is not None
            yield one[0], _object(one), None
            left.step()
        elif one is None or order(two[0]) < order(one[0]):
            yield two[0], None, _object(two)
            right.step()
        else:
            if one[1:] != two[1:]:
                yield one[0], _object(one), _object(two)
            left.step()
            right.step()


def _object(entry: Entry) -> LakeObject:
    return LakeObject(entry[0], entry[2], entry[1])


class _Cursor:
    """A place in a tree that can step over whole nodes; it goes down into a node only when asked for an entry."""

    def __init__(self, nodes: Nodes, root: Root) -> None:
        self._nodes = nodes
        self._stack: list[tuple[int, list[Entry], int]] = [(root.level + 1, [["", root.node]], 0)]

    def node(self) -> str | None:
        """The hash of the node this cursor stands before; None if it stands before an entry of a leaf."""
        level, entries, at = self._stack[-1]
        return entries[at][1] if level > 0 and at < len(entries) else None

    def level(self) -> int:
        return self._stack[-1][0]

    def down(self) -> None:
        level, entries, at = self._stack[-1]
        self._stack.append((level - 1, decode(self._nodes.load(entries[at][1]))[1], 0))
        self._settle()

    def step(self) -> None:
        """Past whatever this cursor stands before."""
        level, entries, at = self._stack[-1]
        self._stack[-1] = (level, entries, at + 1)
        self._settle()

    def _settle(self) -> None:
        while len(self._stack) > 1 and self._stack[-1][2] >= len(self._stack[-1][1]):
            self._stack.pop()
            level, entries, at = self._stack[-1]
            self._stack[-1] = (level, entries, at + 1)

    def done(self) -> bool:
        _, entries, at = self._stack[-1]
        return at >= len(entries)

    def entry(self) -> Entry | None:
        """The next entry of a leaf; None at the end."""
        while not self.done() and self._stack[-1][0] > 0:
            self.down()
        if self.done():
            return None
        _, entries, at = self._stack[-1]
        return entries[at]

    def skip_shared(self, other: _Cursor) -> None:
        """Step both over the nodes they share from here on, going down no further than it takes to find them."""
        while not self.done() and not other.done():
            mine, theirs = self.node(), other.node()
            if mine is None and theirs is None:
                return
            if self.level() != other.level():
                (self if self.level() > other.level() else other).down()
            elif mine == theirs:
                self.step()
                other.step()
            else:
                self.down()
                other.down()


def reachable(nodes: Nodes, root: Root, seen: set[str], on_object: Callable[[LakeObject], None]) -> None:
    """Add to `seen` every node of a tree that is not there yet; tell of the objects in those."""
    waiting = [root]
    while waiting:
        node, level = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for entry in decode(nodes.load(node))[1]:
            if level == 0:
                on_object(_object(entry))
            else:
                waiting.append(Root(entry[1], level - 1))
