"""A graph's store whose effects are counted, and that fails, loses an answer or dies at the so-manieth of them.

An effect is one call of the storage interface that asks the store for something: a small object put, a table's
transaction committed, the manifest merged. Nothing of the store is replaced: the real call is made, or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from headgate.errors import AccessDenied, HeadgateError, Transient
from headgate.graph.graph import Graph
from headgate.graph.manifest import Manifest
from headgate.graph.manifest.table import MergeUnknown
from headgate.graph.recovery.heal import heal
from headgate.graph.storage import CommitUnknown, Location, SmallObjects, TableStore
from headgate.graph.store import GraphStore, Patience
from headgate.graph.upkeep.leases import Leases
from headgate.testing.children import kill_this_process


class Effect(StrEnum):
    PUT = "put"
    DELETE = "delete"
    LIST = "list"
    GET = "get"
    STAGE = "stage"
    """Files of a change are written where nobody reads."""
    CREATE = "create"
    COMMIT = "commit"
    RESTORE = "restore"
    FORK = "fork"
    MERGE = "merge"
    """The manifest's compare-and-swap."""
    FOLD = "fold"
    """Upkeep of the manifest: folding, a barrier, dropped versions, rows moved to the history."""


DURABLE = frozenset(Effect) - {Effect.LIST, Effect.GET}
"""What leaves something in the store."""

_OBJECTS = {"put_if_absent": Effect.PUT, "delete": Effect.DELETE, "list": Effect.LIST, "get": Effect.GET}
_TABLES = {
    "create": Effect.CREATE,
    "write_part": Effect.STAGE,
    "stage": Effect.STAGE,
    "stage_overwrite": Effect.STAGE,
    "stage_indices": Effect.STAGE,
    "stage_columns": Effect.STAGE,
    "stage_compaction": Effect.STAGE,
    "commit": Effect.COMMIT,
    "restore": Effect.RESTORE,
    "fork": Effect.FORK,
}
_MANIFEST = {
    "merge": Effect.MERGE,
    "replace_all": Effect.FOLD,
    "raise_barrier": Effect.FOLD,
    "drop_versions": Effect.FOLD,
}
_HISTORY = {"add": Effect.FOLD}

Act = Callable[[], None]


@dataclass(frozen=True)
class Fault:
    """Something that happens at the so-manieth effect of some kinds, before it or after it."""

    effects: frozenset[Effect]
    nth: int
    act: Act
    before: bool


@dataclass
class StoreFaults:
    """Counts the effects of the stores it is put on, in their order, and brings the faults that are due."""

    seen: list[Effect] = field(default_factory=list)
    _faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    # -------- what is to happen

    def fail(self, effect: Effect, nth: int = 1, *, error: HeadgateError | None = None) -> StoreFaults:
        """The n-th such call reaches no store: nothing of it happens, which its caller cannot tell."""
        return self._add({effect}, nth, _raising(error or _unanswered(effect)), before=True)

    def deny(self, effect: Effect, nth: int = 1) -> StoreFaults:
        """The n-th such call is not allowed."""
        return self.fail(effect, nth, error=AccessDenied(message="the store does not allow this"))

    def lose_answer(self, effect: Effect, nth: int = 1) -> StoreFaults:
        """The n-th such call happens, and its caller is told that it failed."""
        return self._add({effect}, nth, _raising(_unanswered(effect)), before=False)

    def kill_after(self, nth: int) -> StoreFaults:
        """The process is killed right after its n-th durable write."""
        return self._add(DURABLE, nth, kill_this_process, before=False)

    def at(self, effect: Effect, act: Act, nth: int = 1, *, before: bool = False) -> StoreFaults:
        """Something happens elsewhere, right before or after the n-th such call."""
        return self._add({effect}, nth, act, before=before)

    def _add(self, effects: frozenset[Effect] | set[Effect], nth: int, act: Act, *, before: bool) -> StoreFaults:
        self._faults.append(Fault(frozenset(effects), nth + self.count(*effects), act, before))
        return self

    # -------- what has happened

    def count(self, *effects: Effect) -> int:
        return sum(seen in effects for seen in self.seen)

    @property
    def durable(self) -> list[Effect]:
        return [seen for seen in self.seen if seen in DURABLE]

    def call(self, effect: Effect, real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Make the real call, with the faults that are due before and after it."""
        with self._lock:
            self.seen.append(effect)
            due = [
                fault for fault in self._faults if effect in fault.effects and self.count(*fault.effects) == fault.nth
            ]
        for fault in due:
            if fault.before:
                fault.act()
        done = real(*args, **named)
        for fault in due:
            if not fault.before:
                fault.act()
        return done

    # -------- putting it on

    def on(self, store: GraphStore) -> GraphStore:
        """The same store, watched."""
        manifest = _Watched(store.manifest, _MANIFEST, self)
        manifest.__dict__["history"] = _Watched(store.manifest.history, _HISTORY, self)
        objects = cast(SmallObjects, _Watched(store.objects, _OBJECTS, self))
        return replace(
            store,
            objects=objects,
            leases=Leases(objects, store.ids, store.clock, store.patience.lease_age),
            tables=cast(TableStore, _Watched(store.tables, _TABLES, self)),
            manifest=cast(Manifest, manifest),
        )

    def open(self, place: str | Path, *, patience: Patience | None = None) -> Graph:
        """A graph, opened for writing, whose effects are watched from its sweep on."""
        store = self.on(GraphStore.open(Location.parse(place), patience=patience))
        heal(store)
        return Graph(store, "rw")


class _Watched:
    """A part of a store whose calls are counted."""

    def __init__(self, real: Any, effects: dict[str, Effect], faults: StoreFaults) -> None:
        self.__dict__.update(_real=real, _effects=effects, _faults=faults)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        effect = self._effects.get(name)
        if effect is None:
            return found
        return lambda *args, **named: self._faults.call(effect, found, *args, **named)


def _raising(error: Exception) -> Act:
    def act() -> None:
        raise error

    return act


def _unanswered(effect: Effect) -> Exception:
    """What a caller of the storage interface gets where no answer came."""
    told = f"no answer came to a {effect}"
    if effect in (Effect.COMMIT, Effect.RESTORE):
        return CommitUnknown(told)
    return MergeUnknown(told) if effect is Effect.MERGE else Transient(message=told, hint="try again")
