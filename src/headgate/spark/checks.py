"""Check a write of any size and prepare it, as Spark plans over what was staged and what is stored.

Keys, ends, unique values and cardinality are read from the very files that will be published, so a DataFrame that
would give other rows if it were computed again changes nothing. The driver handles counts and the names of files.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from headgate.errors import InvalidInput, KeyConflict, Problem
from headgate.graph.schema.model import ID, SRC, EdgeType
from headgate.graph.storage import Part, Staged
from headgate.graph.storage.parts import part_from_text
from headgate.graph.write.base import Base
from headgate.graph.write.parts import How, Made, PartWrite, insert_only
from headgate.graph.write.prepared import Prepared
from headgate.spark.claims import BLOCKS, END, NEW, REMOVED, STORED, Claim, Detail, Source, blocks_of, claims_of
from headgate.spark.finish import FINISHED, Finished, finish
from headgate.spark.sources import Written, ends_of, ids_of, numbered, staged, stored
from headgate.spark.telling import told_problem
from headgate.spark.verdicts import COUNTED, TOLD, Rule, count_wrong, find_edits, left_over, tell_wrong
from headgate.spark.work import each, grouped, parallel

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_BUCKET_CLAIMS = 4_000_000
_MOST_BUCKETS = 4096
_SHOWN = 100
_RESULT = f"{COUNTED}, source int, block binary"


@dataclass
class Checks:
    """The checks of one write on one base."""

    spark: SparkSession
    base: Base
    writes: tuple[PartWrite, ...]
    folder: str
    """Where executors keep what is only needed while the write is prepared."""
    keep_wrong: bool = False
    """Keep every rejected row, not only a sample."""

    def __post_init__(self) -> None:
        self._salt = secrets.token_hex(8)
        self._written = Written(self.base, self.writes)
        self._finished: dict[int, Finished] = {}
        self._sources: list[Source] = []
        self.made = Made()
        self.rejected: Rejected | None = None

    def prepare(self) -> Prepared | None:
        """Check everything and stage one transaction a table; None if nothing would change."""
        self._sources = self._written.sources()
        self._check_ids()
        self._check_uniques()
        for edge in self.base.schema.edges:
            self._check_cardinality(edge)
        return self._prepared()

    # -------- ids and ends

    def _check_ids(self) -> None:
        edits = self._written.edits
        blocks = self._blocks(self._sources, Detail(place=edits, id=edits))
        rule = Rule.identity()

        def decide(bucket: pa.Table) -> pa.Table:
            import pyarrow as pa

            parts = [count_wrong(rule, bucket), *([find_edits(bucket)] if edits else [])]
            schema = pa.schema(
                [("code", pa.string()), ("rows", pa.int64()), ("source", pa.int32()), ("block", pa.binary())]
            )
            whole = pa.concat_tables([schema.empty_table(), *parts], promote_options="default")
            return whole.select(schema.names).cast(schema)

        decided = blocks.groupBy("bucket").applyInArrow(decide, _RESULT)
        if not edits:
            self._refuse(decided, rule, self._sources)
            return
        decided = decided.persist()
        try:
            self._refuse(decided, rule, self._sources)
            self._finish(decided.where("source IS NOT NULL").select("source", "block"))
        finally:
            decided.unpersist()

    def _finish(self, edits: DataFrame) -> None:
        sources, schema = {source.number: source for source in self._sources}, self.base.schema

        def body(key: tuple[Any, ...], blocks: pa.Table) -> pa.Table:
            return finish(sources[key[0].as_py()], schema, blocks)

        for row in edits.groupBy("source").applyInArrow(body, FINISHED).collect():
            done = self._finished[row.source] = Finished.read(row.told)
            source = sources[row.source]
            at = self.base.snapshot(source.type)
            self.made.parts += [(at, part) for part in done.parts]
            if source.part:
                self.made.superseded.append((at, part_from_text([source.part])))

    # -------- what rows hold

    def _check_uniques(self) -> None:
        """Values of unique constraints, once the rows that are published are known."""
        fresh: list[Source] = []
        kept: list[DataFrame] = []
        for name, writes in self._written.types.items():
            for unique in self.base.type(name).uniques:
                columns = unique.properties
                domain = f"unique/{name}/{','.join(columns)}"
                if not any(write.rows for write in writes if write.how is not How.DELETE):
                    continue
                fresh += self._final(name, (Claim(columns, domain, NEW),))
                kept += self._left(name, Claim(columns, domain, STORED))
        if fresh:
            self._judge(Rule.unique(), numbered(fresh), kept)

    def _check_cardinality(self, edge: EdgeType) -> None:
        limits = edge.cardinality
        types = self._written.types
        if limits.is_open or (edge.name not in types and not (limits.min and edge.src in types)):
            return
        domain = ids_of(edge.src)
        fresh = self._final(edge.name, (Claim((SRC,), domain, NEW),))
        if limits.min:
            fresh += self._final(edge.src, (Claim((ID,), domain, END),))
            if edge.src not in self._written.images and self.base.rows[edge.src]:
                fresh += stored(self.base, edge.src, (Claim((ID,), domain, END),))
            fresh += [
                replace(source, claims=(Claim((ID,), domain, REMOVED),))
                for source in self._sources
                if source.removed and source.type == edge.src
            ]
        kept = self._left(edge.name, Claim((SRC,), domain, STORED))
        self._judge(Rule.cardinality(limits.min, limits.max), numbered(fresh), kept)

    def _final(self, name: str, claims: tuple[Claim, ...]) -> list[Source]:
        """The rows of a type that are published, as sources."""
        found: list[Source] = []
        for source in self._sources:
            if source.type != name or not source.part:
                continue
            done = self._finished.get(source.number)
            if done is None:
                found.append(replace(source, claims=claims))
                continue
            write = PartWrite(type=name, how=How.APPEND, rows=source.rows, parts=done.parts)
            found += staged(self.base, write, claims)
        return found

    def _left(self, name: str, claim: Claim) -> list[DataFrame]:
        """What stored rows of a type hold that are still there after the write, as claims."""
        if name in self._written.images or not self.base.rows[name]:
            return []
        if not self._written.hows(name) & {How.MERGE, How.DELETE}:
            return [self._blocks(numbered(stored(self.base, name, (claim,))), Detail())]
        who = ends_of(name) if self._written.by_ends(name) else ids_of(name)
        identity = next(
            found for source in self._sources for found in source.claims if source.type == name and found.domain == who
        )
        pairs = self._blocks(
            numbered(stored(self.base, name, (replace(identity, flags=STORED), claim))), Detail(identity=True)
        )
        touched = [
            replace(source, claims=tuple(found for found in source.claims if found.domain == who))
            for source in self._sources
            if source.type == name and not source.stored
        ]
        salt_free = self._blocks(touched, Detail())
        buckets = self._buckets(self._sources)

        def body(bucket: pa.Table) -> pa.Table:
            return blocks_of(left_over(bucket), claim.flags, buckets)

        return [pairs.unionByName(salt_free).groupBy("bucket").applyInArrow(body, BLOCKS)]

    def _judge(self, rule: Rule, sources: Sequence[Source], kept: Sequence[DataFrame]) -> None:
        blocks = reduce(lambda one, other: one.unionByName(other), kept, self._blocks(sources, Detail()))
        counted = blocks.groupBy("bucket").applyInArrow(lambda bucket: count_wrong(rule, bucket), COUNTED)
        self._refuse(counted, rule, sources, kept)

    # -------- refusing

    def _refuse(
        self, counted: DataFrame, rule: Rule, sources: Sequence[Source], kept: Sequence[DataFrame] = ()
    ) -> None:
        rows = counted.where("code IS NOT NULL").groupBy("code").sum("rows").collect()
        wrong = Counter({row[0]: int(row[1]) for row in rows})
        if wrong:
            raise self._rejection(rule, sources, kept)

    def _rejection(self, rule: Rule, sources: Sequence[Source], kept: Sequence[DataFrame]) -> Exception:
        """What is wrong, with names and places: reads the keys once more, as text."""
        location = self.base.store.location
        folder = f"{self.folder}/rejected" if self.keep_wrong else ""
        detailed = self._blocks(sources, Detail(place=True, id=True, text=True))
        blocks = reduce(lambda one, other: one.unionByName(other), kept, detailed)
        answers = blocks.groupBy("bucket").applyInArrow(lambda bucket: tell_wrong(rule, bucket, location, folder), TOLD)
        told = [json.loads(row.told) for row in answers.collect()]
        total = sum(one["rows"] for one in told)
        sample = sorted((row for one in told for row in one["sample"]), key=lambda row: (row["source"], row["place"]))
        problems = [told_problem(self.base, sources, row) for row in sample[:_SHOWN]]
        self.rejected = Rejected(total, tuple(one["kept"] for one in told if one["kept"]), tuple(sources))
        codes = {row["code"] for row in sample}
        if total == 1 and codes == {"taken"}:
            row = sample[0]
            return KeyConflict(
                message=problems[0].message,
                table=sources[row["source"]].type,
                key=row["id"],
                hint="update it, or merge instead",
            )
        return rejection(total, problems)

    # -------- building

    def _prepared(self) -> Prepared | None:
        changes = {}
        for name in self._touched():
            change = self._change(name)
            if change is not None:
                changes[name] = self.base.change(name, self.base.snapshot(name), change)
        if not changes:
            return None
        read = {source.type for source in self._sources} | self._read_besides()
        return Prepared(
            changes=tuple(changes.values()),
            reads={self.base.table_key(name): self.base.pinned(name) for name in sorted(read - changes.keys())},
            schema_order=self.base.schema_order,
            insert_only=insert_only(self.writes),
        )

    def _touched(self) -> Iterable[str]:
        edited = {source.type for source in self._sources if source.number in self._finished}
        return dict.fromkeys([*self._written.types, *sorted(edited)])

    def _read_besides(self) -> set[str]:
        """Tables that hold nothing now, and had they held something it would have been read."""
        names: set[str] = set()
        for name in self._written.types:
            table = self.base.type(name)
            if isinstance(table, EdgeType):
                names |= {table.src, table.dst}
            elif self._written.hows(name) & {How.OVERWRITE, How.DELETE}:
                names |= {edge.name for edge in self.base.schema.edges_at(name)}
            else:
                names |= {edge.name for edge in self.base.schema.edges_from(name) if edge.cardinality.min}
        return names

    def _change(self, name: str) -> Staged | None:
        at, tables = self.base.snapshot(name), self.base.store.tables
        parts: list[Part] = []
        updated: list[Any] = []
        dropped: list[int] = []
        removed = 0
        for source in self._sources:
            if source.type != name or source.removed:
                continue
            done = self._finished.get(source.number)
            if done is not None:
                parts += done.parts
                updated += done.updated
                dropped += done.dropped
                removed += done.removed
            elif source.part:
                parts.append(part_from_text([source.part]))
        if name in self._written.images:
            return tables.stage_overwrite(at, parts=parts) if parts or at.rows else None
        if not parts and not updated and not dropped:
            return None
        return tables.stage_fragments(at, parts=parts, updated=updated, dropped=dropped, removed=removed)

    # -------- plans

    def _blocks(self, sources: Sequence[Source], detail: Detail) -> DataFrame:
        salt, buckets = self._salt, self._buckets(self._sources)
        groups = grouped(
            list(sources),
            [source.rows * len(source.claims) for source in sources],
            at_most=max(parallel(self.spark), sum(source.rows for source in sources) // 1_000_000),
        )

        def body(group: list[Source]) -> Iterator[pa.RecordBatch]:
            for source in group:
                yield from claims_of(source, salt, buckets, detail)

        return each(self.spark, groups, body, BLOCKS)

    def _buckets(self, sources: Sequence[Source]) -> int:
        claims = sum(source.rows * len(source.claims) for source in sources)
        return min(_MOST_BUCKETS, max(parallel(self.spark), claims // _BUCKET_CLAIMS))


@dataclass(frozen=True)
class Rejected:
    """The rows that a check refused: how many, and where all of them are kept."""

    rows: int
    kept: tuple[str, ...]
    sources: tuple[Source, ...]


def rejection(total: int, problems: Sequence[Problem]) -> InvalidInput:
    more = f", of which {len(problems)} are shown" if total > len(problems) else ""
    return InvalidInput(
        message=f"{total} rows break the schema's rules{more}",
        problems=tuple(problems),
        hint="correct them; nothing was written",
    )


__all__ = ["Checks", "Rejected", "rejection"]
