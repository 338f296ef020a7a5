"""What must hold after an attempt was killed and its task retried, told as what was lost, duplicated or leaked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headgate.lake.interface import MAIN
from headgate.publication import Ref
from headgate.testing.place import Place, Target


class Harm(StrEnum):
    LOST = "lost"
    DUPLICATED = "duplicated"
    LEAKED = "leaked"


@dataclass(frozen=True)
class Finding:
    harm: Harm
    what: str

    def __str__(self) -> str:
        return f"{self.harm}: {self.what}"


def counted(findings: Iterable[Finding]) -> dict[str, int]:
    """How often each harm was found, the ones never found included."""
    found = Counter(finding.harm for finding in findings)
    return {str(harm): found[harm] for harm in Harm}


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What an undisturbed attempt leaves."""

    publishes: bool
    """Whether it makes a commit of its own."""
    keeps_head: bool = False
    """Whether the head stays as it was before, as it does under a task that only reads."""
    files: Mapping[str, Any] | None = None
    """What the head holds, by path or by type; None where two runs of the task need not agree."""
    store: str = "workspace"
    """Where the task publishes: the lake's branch or the graph's."""


def audit(place: Place, target: Target, workflow: str, expected: Expected, *, before: Ref) -> Iterator[Finding]:
    """Look at the branch, the orchestrator and the leftovers, when everything is over and `gc` has run.

    `before` is the head as it was before the first attempt.
    """
    history, start = place.history(target, expected.store), target.start(expected.store)
    accepted = [task for task in place.orchestrator.tasks(workflow=workflow) if task.status == "COMPLETED"]
    refs = [Ref(task.output[expected.store]["ref"]) for task in accepted if task.output is not None]
    if not accepted:
        yield Finding(Harm.LOST, "the workflow has no accepted result")
    if len(accepted) > 1:
        yield Finding(Harm.DUPLICATED, f"{len(accepted)} task ids were accepted: {', '.join(refs)}")
    for ref in refs:
        if ref not in history:
            yield Finding(Harm.LOST, f"the accepted ref {ref} is not on the branch: {' -> '.join(history)}")
    if history[0] != start:
        yield Finding(Harm.LOST, "the input ref is not on the branch")
    if len(history) > 2:
        yield Finding(Harm.DUPLICATED, f"more than one commit came on top of the input ref: {' -> '.join(history)}")
    yield from _wrong_head(place, target, refs, expected, before)
    yield from leftovers(place, target)


def _wrong_head(place: Place, target: Target, refs: list[Ref], expected: Expected, before: Ref) -> Iterator[Finding]:
    head, start = place.head(target, expected.store), target.start(expected.store)
    if expected.keeps_head:
        if head != before:
            yield Finding(Harm.DUPLICATED, f"a task that only reads moved the head from {before} to {head}")
        return
    if expected.publishes:
        if head not in refs or head == start:
            yield Finding(Harm.LOST, f"the head {head} is not the accepted result")
    elif head != start:
        yield Finding(Harm.DUPLICATED, f"nothing was to be published, and the head is {head}")
    if expected.files is not None and (shown := place.shown(target, expected.store)) != expected.files:
        what = "rows" if expected.store == "graph" else "files"
        told = _difference(expected.files, shown)
        yield Finding(Harm.LOST, f"the {what} are not those of an undisturbed run: {told}")


def check_between(place: Place, target: Target, *, before: Ref, store: str = "workspace") -> Iterator[Finding]:
    """Between a kill and the retry the head is the input ref, what it was before, or one commit on the input ref."""
    if store == "graph":
        history = place.history(target, store)
        if history[-1] != before and (len(history) > 2 or history[0] != target.graph_ref):
            yield Finding(Harm.LOST, f"the killed attempt left the graph's branch at {' -> '.join(history)}")
        return
    head = place.lake.head(target.repository, MAIN)
    if head.ref not in (target.input_ref, before) and head.only_parent != target.input_ref:
        yield Finding(Harm.LOST, f"the killed attempt left the head at {head.ref}, whose parents are {head.parents}")


def leftovers(place: Place, target: Target) -> Iterator[Finding]:
    """What no attempt needs any more and is still there."""
    for branch in place.staging_branches(target):
        yield Finding(Harm.LEAKED, f"staging branch {branch}")
    for name in place.workspaces():
        yield Finding(Harm.LEAKED, f"local workspace {name}")
    if target.graph is not None:
        with place.open_graph(target.graph) as graph:
            for found in graph.store.sidecars.find():
                yield Finding(Harm.LEAKED, f"sidecar {found.sidecar.name}")


def damage(place: Place) -> Iterator[Finding]:
    """The lake as a whole, after its own upkeep: everything a commit refers to is there, and nothing else is."""
    place.lake.gc()
    for folder in ("incoming", "leases"):
        for entry in (place.lake.folder / folder).iterdir():
            yield Finding(Harm.LEAKED, f"{folder}/{entry.name} of the lake")
    verdict = place.lake.verify()
    if not verdict.whole:
        yield Finding(Harm.LOST, f"the lake is damaged: {verdict}")


def _difference(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    paths = sorted(path for path in {*wanted, *found} if wanted.get(path) != found.get(path))
    return ", ".join(
        f"{path} is {'missing' if path not in found else 'new' if path not in wanted else 'different'}"
        for path in paths[:5]
    )
