"""Walking edges from bound rows: one hop, or a range of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.query.predicate import TRUE, Predicate
from headgate.graph.query.read import Step
from headgate.graph.query.syntax import Hops
from headgate.graph.read.bindings import Ints, encode, joined
from headgate.graph.read.tables import Tables
from headgate.graph.schema.model import DST, ID, SRC


@dataclass(frozen=True)
class Reached:
    """Pairs of a starting place and what is reached from there; with edges where they have a variable."""

    origins: Ints
    """Places among the ids that were started from."""
    ids: pa.Array
    """Distinct ids that were reached."""
    places: Ints
    """Places among `ids`."""
    edges: pa.Array | None = None


def reach(tables: Tables, step: Step, starts: pa.Array, *, forward: bool, where: Predicate = TRUE) -> Reached:
    """What a step reaches from distinct starting ids, along the edges or against them."""
    if step.hops is not None and step.hops != Hops(1, 1):
        return _reach_hops(tables, step, starts, step.hops, forward=forward)
    near, far = (SRC, DST) if forward else (DST, SRC)
    columns = (far, ID) if step.edge_variable else (far,)
    origins, found = tables.find(step.edge.name, near, starts, columns, where)
    places, ids = encode(_flat(found[far]))
    if step.edge_variable:
        return Reached(origins, ids, places, _flat(found[ID]))
    return Reached(*_distinct(origins, ids, places))


def all_pairs(tables: Tables, step: Step, where: Predicate = TRUE) -> tuple[pa.Array, Reached]:
    """Every edge a condition holds for, as a pair of its ends; no node has to be looked up for it."""
    columns = (SRC, DST, ID) if step.edge_variable else (SRC, DST)
    if where == TRUE:
        kept = tables.cached(step.edge.name, columns)
    else:
        scanned = tables.scan(step.edge.name, columns, where)
        kept = {name: _flat(scanned[name]) for name in columns}
    origins, starts = encode(kept[SRC])
    places, ids = encode(kept[DST])
    if step.edge_variable:
        return starts, Reached(origins, ids, places, kept[ID])
    return starts, Reached(*_distinct(origins, ids, places))


def _distinct(origins: Ints, ids: pa.Array, places: Ints) -> tuple[Ints, pa.Array, Ints]:
    """Each pair once: two edges between the same nodes are one way to get there."""
    keys = origins * max(1, len(ids)) + places
    unique, first = np.unique(keys, return_index=True)
    if len(unique) == len(keys):
        return origins, ids, places
    return origins[first], ids, places[first]


def _reach_hops(tables: Tables, step: Step, starts: pa.Array, hops: Hops, *, forward: bool) -> Reached:
    """Pairs joined by a walk whose length lies in the range."""
    single = Step(step.edge, step.src, step.dst)
    known = _Vocabulary(starts)
    origins = np.arange(len(starts), dtype=np.int64)
    nodes = origins
    seen = np.empty(0, np.int64)
    collected: list[Ints] = []
    length = 0
    while len(origins) and (hops.max is None or length < hops.max):
        length += 1
        used, local = np.unique(nodes, return_inverse=True)
        found = reach(tables, single, known.ids.take(pa.array(used)), forward=forward)
        rows, hits = joined(local.astype(np.int64), found.origins)
        pairs = _pair(origins[rows], known.codes(found.ids)[found.places[hits]])
        pairs = np.unique(pairs)
        if hops.min <= 1:
            # From length 1 on a shorter walk will do, so a pair that was seen needs no second visit.
            pairs = np.setdiff1d(pairs, seen, assume_unique=True)
            seen = np.union1d(seen, pairs)
        if length >= hops.min:
            collected.append(pairs)
        origins, nodes = pairs >> 32, pairs & 0xFFFFFFFF
    pairs = np.unique(np.concatenate(collected)) if collected else np.empty(0, np.int64)
    return Reached(pairs >> 32, known.ids, pairs & 0xFFFFFFFF)


def _pair(origins: Ints, nodes: Ints) -> Ints:
    made: Ints = (origins << 32) | nodes
    return made


class _Vocabulary:
    """Ids met on a walk, each with a number."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids

    def codes(self, ids: pa.Array) -> Ints:
        """The numbers of distinct ids; new ones get the next."""
        found = pc.index_in(ids, value_set=self.ids)
        fresh = ids.filter(pc.is_null(found))
        codes: np.ndarray[Any, Any] = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        codes[codes < 0] = np.arange(len(self.ids), len(self.ids) + len(fresh))
        if len(fresh):
            self.ids = pa.concat_arrays([self.ids, fresh.cast(self.ids.type)])
        return codes


def _flat(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
