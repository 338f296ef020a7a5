"""What the rows of a transaction claim: which tables have to be read for its checks, and which of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headgate.graph.schema.model import DST, ID, SRC, EdgeType, NodeType, TableType
from headgate.graph.storage.parts import part_to_text, single_parts
from headgate.graph.write.base import Base
from headgate.graph.write.parts import How, PartWrite, by_type, known_by_ends
from headgate.spark.claims import (
    CALL,
    CASCADE,
    END,
    KEPT_END,
    MERGED,
    NEW,
    REMOVED,
    STORED,
    STRICT,
    Claim,
    Source,
)
from headgate.spark.work import TableRef

_WRITTEN = {How.APPEND: NEW | STRICT, How.MERGE: NEW | MERGED, How.OVERWRITE: NEW}


def ids_of(name: str) -> str:
    """The domain of a type's ids, and of the ends that name them."""
    return f"id/{name}"


def ends_of(name: str) -> str:
    """The domain of the two ends of an edge without a key."""
    return f"ends/{name}"


@dataclass(frozen=True)
class Written:
    """A transaction's writes on a base, as the checks look at them."""

    base: Base
    writes: tuple[PartWrite, ...]

    @cached_property
    def types(self) -> dict[str, list[PartWrite]]:
        return by_type(self.writes)

    @cached_property
    def images(self) -> frozenset[str]:
        """The types whose stored rows all go."""
        return frozenset(write.type for write in self.writes if write.how is How.OVERWRITE)

    @cached_property
    def edits(self) -> bool:
        """Whether rows may have to be taken out of what is stored, or of what was staged."""
        return any(write.how in (How.MERGE, How.DELETE) for write in self.writes)

    def hows(self, name: str) -> set[How]:
        return {write.how for write in self.types.get(name, ())}

    def by_ends(self, name: str) -> bool:
        table = self.base.type(name)
        return any(known_by_ends(table, how) for how in self.hows(name))

    # -------- what is read

    def sources(self) -> list[Source]:
        """Everything that decides which ids there are, who names them, and what a write replaces."""
        found = [*self._staged(), *self._removed()]
        for table in self.base.schema.tables():
            claims = self._stored_claims(table)
            if claims:
                found += stored(self.base, table.name, claims)
        return numbered(found)

    def _staged(self) -> Iterator[Source]:
        calls: dict[str, int] = {}
        for write in self.writes:
            call = calls[write.type] = calls.get(write.type, -1) + 1
            if write.how is How.DELETE:
                continue
            table = self.base.type(write.type)
            flags = _WRITTEN[write.how] | 1 << CALL + call
            claims = []
            if known_by_ends(table, write.how):
                claims.append(Claim((SRC, DST), ends_of(table.name), flags))
            if not write.made_up:
                claims.append(Claim((ID,), ids_of(table.name), flags))
            elif isinstance(table, NodeType):
                claims.append(Claim((ID,), ids_of(table.name), NEW | 1 << CALL + call))
            claims += self._end_claims(table, END)
            yield from staged(self.base, write, tuple(claims))

    def _removed(self) -> Iterator[Source]:
        calls: dict[str, int] = {}
        for write in self.writes:
            call = calls[write.type] = calls.get(write.type, -1) + 1
            claim = Claim((ID,), ids_of(write.type), REMOVED | 1 << CALL + call)
            for path in write.removed:
                table = TableRef.of(self.base, write.type)
                yield Source(0, table, write.type, write.rows, (claim,), removed=path)

    def _stored_claims(self, table: TableType) -> tuple[Claim, ...]:
        if table.name in self.images or not self.base.rows[table.name]:
            return ()
        claims = []
        writes = self.types.get(table.name, [])
        named = isinstance(table, NodeType) and any(
            write.how is not How.DELETE and table.name in _ends(self.base.type(write.type)) for write in self.writes
        )
        if named or any(not write.made_up for write in writes):
            claims.append(Claim((ID,), ids_of(table.name), STORED))
        if self.by_ends(table.name):
            claims.append(Claim((SRC, DST), ends_of(table.name), STORED))
        if isinstance(table, EdgeType):
            for side, node in ((SRC, table.src), (DST, table.dst)):
                if node in self.images:
                    claims.append(Claim((side,), ids_of(node), KEPT_END))
                if How.DELETE in self.hows(node):
                    claims.append(Claim((side,), ids_of(node), CASCADE))
        return tuple(claims)

    @staticmethod
    def _end_claims(table: TableType, flags: int) -> list[Claim]:
        if not isinstance(table, EdgeType):
            return []
        return [Claim((SRC,), ids_of(table.src), flags), Claim((DST,), ids_of(table.dst), flags)]

    # -------- what the plans do not cover

    def needs_process(self) -> bool:
        """Whether rows of one type decide whether stored rows of another still count: rare, and done in process."""
        for edge in self.base.schema.edges:
            around = {edge.src, edge.dst}
            touched = self.hows(edge.name) & {How.MERGE, How.DELETE}
            if touched and around & self.images:
                return True
            limited = bool(edge.uniques or not edge.cardinality.is_open)
            if limited and self.by_ends(edge.name) and How.DELETE in touched:
                return True
            cascades = any(How.DELETE in self.hows(node) for node in around)
            if cascades and limited:
                return True
        return False


def _ends(table: TableType) -> set[str]:
    return {table.src, table.dst} if isinstance(table, EdgeType) else set()


def staged(base: Base, write: PartWrite, claims: tuple[Claim, ...]) -> Iterator[Source]:
    """A source for every fragment that a write has staged."""
    table = TableRef.of(base, write.type)
    for part in write.parts:
        for single in single_parts(part):
            [text] = part_to_text(single)
            yield Source(0, table, write.type, single.rows, claims, part=text)


def stored(base: Base, name: str, claims: tuple[Claim, ...]) -> list[Source]:
    """A source for every fragment of a table at its pin."""
    table = TableRef.of(base, name)
    fragments = base.snapshot(name).dataset.get_fragments()
    return [
        Source(0, table, name, int(fragment.count_rows()), claims, fragment=int(fragment.fragment_id))
        for fragment in fragments
    ]


def numbered(sources: Sequence[Source]) -> list[Source]:
    return [replace(source, number=number) for number, source in enumerate(sources)]
