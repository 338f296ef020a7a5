"""One run of upkeep at a time: a second is told who is at it. Manners, not safety: two at once would harm nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta

from headgate.errors import AlreadyExists
from headgate.graph.recovery.owner import Owner, at_work, is_gone, this_process
from headgate.graph.store import GraphStore

NAME = "__upkeep/run.json"
ABANDONED = timedelta(hours=6)
"""A run on a host that cannot be asked is taken for left behind at this age."""


@contextmanager
def upkeep_run(store: GraphStore, what: str) -> Iterator[None]:
    """Run alone, or raise who runs."""
    operation = store.ids.new()
    body = json.dumps({"what": what, "operation": operation, "owner": asdict(this_process())}).encode()
    with at_work(operation):
        if not store.objects.put_if_absent(NAME, body):
            _take_over(store, body)
        try:
            yield
        finally:
            if store.objects.get(NAME) == body:
                store.objects.delete(NAME)


def _take_over(store: GraphStore, body: bytes) -> None:
    """Take the place of a run that is known to be over."""
    found = store.objects.get(NAME)
    told = {}
    if found is not None:
        try:
            told = json.loads(found)
            owner = Owner(**told["owner"])
        except (ValueError, TypeError, KeyError):
            owner = Owner()
        if not is_gone(owner, told.get("operation", "")) and not _is_old(store):
            raise _busy(told.get("what", "upkeep"), owner)
        store.objects.delete(NAME)
    if not store.objects.put_if_absent(NAME, body):
        raise _busy("upkeep", Owner())


def _is_old(store: GraphStore) -> bool:
    stored = [item for item in store.objects.list(NAME.partition("/")[0]) if item.name == NAME]
    return bool(stored) and store.objects.now() - stored[0].modified > ABANDONED


def _busy(what: str, owner: Owner) -> AlreadyExists:
    by = f" by process {owner.pid} on {owner.host.partition(' ')[0]}" if owner.pid else ""
    return AlreadyExists(
        message=f"{what} is running on this graph already{by}",
        kind="upkeep run",
        name=NAME,
        hint="wait until it has finished",
    )
