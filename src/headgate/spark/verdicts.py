"""What executors decide about one bucket of claims: what is wrong with it, and which rows have to go or change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.graph.storage import Location
from headgate.graph.storage.parts import write_column
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
    database,
    pack,
    unpack_all,
)

COUNTED = "code string, rows long"
TOLD = "told string"
EDITS = "source int, block binary"
SAMPLE = 100

_GROUPED = f"""
    SELECT a, b, count(*) FILTER (WHERE flags & {NEW} > 0) AS n, bit_or(flags) AS f FROM claims GROUP BY a, b
"""
_THERE = f"(f & {NEW} > 0 OR f & {STORED | REMOVED} = {STORED})"
_CODE = f"""CASE
    WHEN f & {STORED | REMOVED | NEW | STRICT} > 0 AND bit_count(f >> {CALL}) > 1 THEN 'clash'
    WHEN n > 1 AND f & {MERGED} = 0 THEN 'twice'
    WHEN f & {STRICT} > 0 AND f & {STORED} > 0 THEN 'taken'
    WHEN f & {END} > 0 AND NOT {_THERE} THEN 'endpoint'
    WHEN f & {KEPT_END} > 0 AND NOT {_THERE} THEN 'dangling'
END"""
_TELLING = {
    "clash": f"flags & {NEW | REMOVED} > 0",
    "twice": f"flags & {NEW} > 0",
    "taken": f"flags & {STRICT} > 0",
    "endpoint": f"flags & {END} > 0",
    "dangling": f"flags & {KEPT_END} > 0",
    "unique": f"flags & {NEW} > 0",
    "above": f"flags & {NEW} > 0",
    "below": f"flags & {END} > 0",
}
"""Which of the claims on a bad id are told."""
_SOME_WRONG = f"SELECT a, b, {_CODE} AS code FROM grouped WHERE code IS NOT NULL"


@dataclass(frozen=True)
class Rule:
    """What makes an id bad: a query over `claims` that gives the hashes and a code of every bad one."""

    query: str

    @classmethod
    def identity(cls) -> Rule:
        """Ids given twice, taken or clashing, and ends that name no node."""
        return cls(f"WITH grouped AS ({_GROUPED}) {_SOME_WRONG}")

    @classmethod
    def unique(cls) -> Rule:
        return cls(
            f"WITH grouped AS ({_GROUPED}) SELECT a, b, 'unique' AS code FROM grouped "
            f"WHERE f & {NEW} > 0 AND n + (f & {STORED} > 0)::INT > 1"
        )

    @classmethod
    def cardinality(cls, low: int, high: int | None) -> Rule:
        """Edges are NEW or STORED; nodes that need them are END, and REMOVED where they go."""
        above = "false" if high is None else f"edges > {high} AND f & {NEW} > 0"
        below = f"edges < {low} AND f & {END} > 0 AND f & {REMOVED} = 0"
        return cls(
            f"WITH grouped AS (SELECT a, b, count(*) FILTER (WHERE flags & {NEW | STORED} > 0) AS edges, "
            "bit_or(flags) AS f FROM claims GROUP BY a, b) "
            f"SELECT a, b, CASE WHEN {above} THEN 'above' ELSE 'below' END AS code FROM grouped "
            f"WHERE ({above}) OR ({below})"
        )


def count_wrong(rule: Rule, blocks: pa.Table) -> pa.Table:
    """How many ids of a bucket are wrong in which way."""
    found = _asked(f"SELECT code, count(*)::BIGINT AS rows FROM ({rule.query}) GROUP BY code", blocks)
    return found.select(["code", "rows"])


def tell_wrong(rule: Rule, blocks: pa.Table, location: Location, folder: str) -> pa.Table:
    """The rows that are wrong: counted, a sample of them, and all of them kept in a folder if one is named."""
    claims = unpack_all(blocks)
    if "text" not in claims.column_names:
        # Nothing but claims of stored rows, which were right before.
        return pa.table({"told": [json.dumps({"rows": 0, "sample": [], "kept": ""})]})
    cases = " OR ".join(f"(wrong.code = '{code}' AND {told})" for code, told in _TELLING.items())
    every = _answered(
        'SELECT code, source, claim, c."offset" AS place, c.id, c.text FROM claims AS c '
        f"JOIN ({rule.query}) AS wrong ON c.a = wrong.a AND c.b = wrong.b WHERE {cases} "
        "ORDER BY source, place",
        claims,
    )
    told: dict[str, Any] = {"rows": every.num_rows, "sample": every.slice(0, SAMPLE).to_pylist(), "kept": ""}
    if folder and every.num_rows:
        lines = pa.array([json.dumps(row, ensure_ascii=False) for row in every.to_pylist()], pa.string())
        told["kept"] = write_column(location, folder, lines, "told")
    return pa.table({"told": [json.dumps(told)]})


_EDITS = f"""
WITH placed AS (SELECT *, source::BIGINT << 32 | "offset" AS position FROM claims),
grouped AS (
    SELECT a, b, bit_or(flags) AS f,
        max(position) FILTER (WHERE flags & {NEW} > 0) AS last_new,
        max(position) FILTER (WHERE flags & {STORED} > 0) AS last_stored,
        arg_max(id, position) FILTER (WHERE flags & {STORED} > 0) AS stored_id
    FROM placed GROUP BY a, b
)
SELECT p.source, p."offset",
    CASE WHEN p.flags & {NEW} > 0 AND p.position = last_new THEN stored_id END AS id
FROM placed AS p JOIN grouped AS g ON p.a = g.a AND p.b = g.b
WHERE (p.flags & {NEW} > 0 AND p.flags & {MERGED} > 0
        AND (p.position < last_new OR (stored_id IS NOT NULL AND stored_id <> p.id)))
    OR (p.flags & {STORED} > 0 AND p.position = last_stored AND (f & {MERGED} > 0 OR f & {REMOVED} > 0))
    OR (p.flags & {CASCADE} > 0 AND f & {REMOVED | STORED} = {REMOVED | STORED})
ORDER BY p.source
"""


def find_edits(blocks: pa.Table) -> pa.Table:
    """Rows that go, by their source and offset; with an id, a staged row that takes a stored row's id instead."""
    found = _asked(_EDITS, blocks)
    sources, out = found["source"].combine_chunks(), []
    for value in sources.unique().to_pylist():
        mine = found.filter(pa.compute.equal(sources, value)).select(["offset", "id"]).combine_chunks()
        out.append({"source": value, "block": pack(mine.to_batches()[0])})
    return pa.Table.from_pylist(out, pa.schema([("source", pa.int32()), ("block", pa.binary())]))


_LEFT = f"""
SELECT c AS a, d AS b FROM claims AS s
WHERE flags & {STORED} > 0 AND NOT EXISTS (
    SELECT 1 FROM claims AS t WHERE t.flags & {STORED} = 0 AND t.a = s.a AND t.b = s.b
)
"""


def left_over(blocks: pa.Table) -> pa.Table:
    """What stored rows hold whose identity no write touches."""
    claims = unpack_all(blocks)
    if "c" not in claims.column_names:
        return pa.table({"a": pa.array([], pa.uint64()), "b": pa.array([], pa.uint64())})
    return _answered(_LEFT, claims)


def _asked(query: str, blocks: pa.Table) -> pa.Table:
    return _answered(query, unpack_all(blocks))


def _answered(query: str, claims: pa.Table) -> pa.Table:
    connection = database()
    connection.register("claims", claims)
    return connection.sql(query).to_arrow_table()
