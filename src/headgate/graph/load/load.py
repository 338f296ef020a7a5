"""Load rows into a graph as one commit: all of them, or none with the reason for every row that is in the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headgate.errors import InvalidInput
from headgate.graph.load.loader import Loader, LoadMode, require_rows
from headgate.graph.load.sources import Rejected, Source, chunks
from headgate.graph.load.spool import spool_folder
from headgate.graph.manifest.publisher import schema_mismatch
from headgate.graph.manifest.state import ManifestState
from headgate.graph.store import GraphStore
from headgate.graph.write.base import Base
from headgate.graph.write.commit import write
from headgate.graph.write.evaluate import Rejection, evaluate
from headgate.graph.write.prepare import prepared, stage_parts
from headgate.graph.write.prepared import Prepared, WriteRequest


@dataclass(frozen=True)
class Loaded:
    """What a load did: its commit, and the rows of each type."""

    commit: str
    changed: bool
    rows: dict[str, int] = field(default_factory=dict)
    repeated: bool = False


def load(
    store: GraphStore,
    sources: Sequence[Source],
    *,
    mode: LoadMode,
    request: WriteRequest,
    type_name: str | None = None,
    rejects: Path | None = None,
) -> Loaded:
    """Stream sources into tables. Nothing is visible unless every row is good."""
    base = Base.of(store, store.manifest.state(), request.branch)
    rejected = Rejected() if rejects is None else Rejected(kept=1 << 62)
    staged = False
    """From then on a sidecar may name the files: what becomes of them is no longer ours to say."""
    with store.staged_under() as record, spool_folder() as folder:
        loader = Loader(store, base, mode, Path(folder), rejected)
        try:
            for source in sources:
                loader.add_all(chunks(base.schema, source, type_name=type_name, rejected=rejected))
            if not rejected.count:
                require_rows(loader.types, _told(sources))
                loader.refuse_twice()
            _refuse(rejected, rejects, _told(sources))

            def prepare(state: ManifestState) -> Prepared | None:
                nonlocal staged
                staged = False
                here = Base.of(store, state, request.branch)
                made = _prepare(here, loader, rejected, rejects, mode, _told(sources))
                staged = made is not None
                return made

            done = write(store, replace(request, incarnation=base.incarnation), prepare, staged_under=record)
        finally:
            loader.close()
            if not staged:
                loader.discard()
    rows = {name: found.rows for name, found in loader.types.items()}
    return Loaded(done.commit, done.changed, {} if done.repeated else rows, done.repeated)


def check(
    store: GraphStore,
    sources: Sequence[Source],
    *,
    mode: LoadMode,
    branch: str,
    type_name: str | None = None,
    rejects: Path | None = None,
) -> dict[str, int]:
    """Everything a load would check, with nothing written; the rows of each type."""
    base = Base.of(store, store.manifest.state(), branch)
    rejected = Rejected() if rejects is None else Rejected(kept=1 << 62)
    with spool_folder() as folder:
        loader = Loader(store, base, mode, Path(folder), rejected, dry_run=True)
        try:
            for source in sources:
                loader.add_all(chunks(base.schema, source, type_name=type_name, rejected=rejected))
            if not rejected.count:
                require_rows(loader.types, _told(sources))
                loader.refuse_twice()
                deltas = {name: delta for name, (delta, _) in loader.finish(base).items()}
                for found in evaluate(base.schema, deltas, base.snapshot).rejected:
                    rejected.add(_place(loader, found, mode), found.message)
            _refuse(rejected, rejects, _told(sources))
        finally:
            loader.close()
    return {name: found.rows for name, found in loader.types.items()}


def _prepare(
    base: Base, loader: Loader, rejected: Rejected, rejects: Path | None, mode: LoadMode, told: str
) -> Prepared | None:
    if base.schema_order != loader.schema_order:
        raise schema_mismatch(base.branch, expected=loader.schema_order, actual=base.schema_order)
    finished = loader.finish(base)
    deltas = {name: delta for name, (delta, _) in finished.items()}
    evaluation = evaluate(base.schema, deltas, base.snapshot)
    for found in evaluation.rejected:
        rejected.add(_place(loader, found, mode), found.message)
    _refuse(rejected, rejects, told)
    staged = {}
    for name, (delta, parts) in finished.items():
        change = stage_parts(base, delta, evaluation, parts)
        if change is not None:
            staged[name] = change
    return prepared(base, deltas, evaluation, staged, insert_only=mode is not LoadMode.OVERWRITE)


def _place(loader: Loader, found: Rejection, mode: LoadMode) -> str:
    load = loader.types.get(found.type)
    if found.row is None or load is None or load.spool is not None:
        return f"{found.type} {found.id}"
    return load.place(found.row)


def _refuse(rejected: Rejected, rejects: Path | None, told: str) -> None:
    if not rejected.count:
        return
    if rejects is not None:
        with rejects.open("w", encoding="utf-8") as file:
            for problem in rejected.problems:
                file.write(json.dumps({"where": problem.where, "reason": problem.message}, ensure_ascii=False) + "\n")
    shown = tuple(rejected.problems[:100])
    more = f", of which {len(shown)} are shown" if rejected.count > len(shown) else ""
    hint = f"every one is in {rejects}" if rejects else "correct them and load again; nothing was written"
    raise InvalidInput(message=f"{told}: {rejected.count} rows were rejected{more}", problems=shown, hint=hint)


def _told(sources: Sequence[Source]) -> str:
    return ", ".join(str(source) if isinstance(source, str | Path) else type(source).__name__ for source in sources)
