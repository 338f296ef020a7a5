"""The recovery record a writer leaves before its first effect, which is also its branch's write lock.

Its name holds the head it was made on, so it dies when the head moves. The store decides who creates it. Records only
gain optional fields; one that cannot be read is kept and named, never guessed at.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from headgate.errors import HeadgateError, RecoveryRequired
from headgate.graph.manifest.publisher import Publication, TableAt
from headgate.graph.manifest.rows import HeadMark, SchemaRow, TableRow
from headgate.graph.recovery.owner import Owner
from headgate.graph.recovery.writers import Writer
from headgate.graph.storage.objects import SmallObjects

_log = logging.getLogger(__name__)
FOLDER = "__recovery"
FORMAT = 1


@dataclass(frozen=True)
class PlannedTable:
    """What an operation does to one table: from the version it expects to the one its transaction makes."""

    table: str
    path: str
    expected: int
    uuid: str
    """Of its transaction; empty where the table is only restored."""
    rows: int
    fork: str = ""
    new_fork: str = ""
    """The fork that is made for it after this record exists, and that it lands on."""
    origin: TableAt | None = None
    """What the new fork is made from, where that is not what the branch shows."""

    @property
    def planned(self) -> int:
        return (self.origin.version if self.origin else self.expected) + 1

    @property
    def lands_on(self) -> str:
        """The fork whose history holds the change once it has landed."""
        return self.new_fork or self.fork

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> PlannedTable:
        known = {key: value for key, value in told.items() if key in cls.__dataclass_fields__}
        known["origin"] = TableAt(**known["origin"]) if known.get("origin") else None
        return cls(**known)


@dataclass(frozen=True, kw_only=True)
class Sidecar:
    """Everything needed to finish or undo one operation."""

    operation: str
    """The commit id it publishes."""
    branch: str
    base: HeadMark
    incarnation: str | None = None
    """The very branch it is on, which a later one of the same name is not."""
    writer: str
    actor: str = ""
    owner: Owner = field(default_factory=Owner)
    message: str = ""
    publish_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    content: bool = True
    if_head: bool = False
    expected_schema: int | None = None
    tables: tuple[PlannedTable, ...] = ()
    reads: Mapping[str, TableAt] = field(default_factory=dict)
    new_tables: tuple[TableRow, ...] = ()
    shown: Mapping[str, TableAt] = field(default_factory=dict)
    """Pins it sets without a change to the table: of new tables, of what another branch made."""
    removed: tuple[str, ...] = ()
    """Tables that the branch no longer shows."""
    merged_parent: str = ""
    schema: SchemaRow | None = None
    ids: tuple[int, int] | None = None
    staged_under: str = ""
    """The record of the process whose files it commits."""
    replaces: str = ""
    onto: str = ""
    relocates: bool = False
    turn: int = 0
    """Goes up where the store says that a name is taken and shows nothing under it."""
    format: int = FORMAT

    @property
    def only_back(self) -> bool:
        """A task attempt's is never rolled forward."""
        return self.writer == Writer.TASK

    @property
    def name(self) -> str:
        turn = f"~{self.turn}" if self.turn else ""
        return f"{FOLDER}/{quote(self.branch, safe='')}/{self.base}{turn}.json"

    @property
    def expected(self) -> dict[str, TableAt]:
        """The pins this operation rests on: of the tables it changes and of those it only read."""
        return {**self.reads, **{at.table: TableAt(at.expected, at.fork) for at in self.tables}}

    def publication(self, landed: Mapping[str, int]) -> Publication:
        """The publish that finishes the operation, with the versions its tables became."""
        return Publication(
            branch=self.branch,
            commit=self.operation,
            base=self.base,
            incarnation=self.incarnation,
            writer=self.writer,
            actor=self.actor,
            message=self.message,
            publish_id=self.publish_id,
            metadata=self.metadata,
            content=self.content,
            expected=self.expected,
            expected_schema=self.expected_schema,
            if_head=self.if_head,
            pins={
                **self.shown,
                **{at.table: TableAt(landed[at.table], at.lands_on, at.rows) for at in self.tables},
            },
            removed=self.removed,
            tables=self.new_tables,
            merged_parent=self.merged_parent,
            schema=self.schema,
            ids=self.ids,
            replaces=self.replaces,
            onto=self.onto,
            relocates=self.relocates,
        )

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, name: str, data: bytes) -> Sidecar:
        try:
            found: dict[str, Any] = json.loads(data)
            if found.get("format", 0) > FORMAT:
                raise RecoveryRequired(
                    message=f"the sidecar {name} was written by a newer version of Headgate",
                    hint="recover with that version, or install it here",
                )
            known = {key: value for key, value in found.items() if key in cls.__dataclass_fields__}
            known["base"] = HeadMark(**known["base"])
            known["owner"] = Owner(**known.get("owner", {}))
            known["tables"] = tuple(PlannedTable.from_dict(at) for at in known.get("tables", ()))
            for pins in ("reads", "shown"):
                known[pins] = {key: TableAt(**at) for key, at in known.get(pins, {}).items()}
            known["removed"] = tuple(known.get("removed", ()))
            known["new_tables"] = tuple(TableRow(**row) for row in known.get("new_tables", ()))
            known["schema"] = SchemaRow(**known["schema"]) if known.get("schema") else None
            known["ids"] = tuple(known["ids"]) if known.get("ids") else None
            return cls(**known)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RecoveryRequired(
                message=f"the sidecar {name} cannot be read: {error}",
                hint=f"reads still work; `headgate repair STORE --set-aside {name}` puts it away",
            ) from error


@dataclass(frozen=True)
class FoundSidecar:
    sidecar: Sidecar
    modified: datetime


class Sidecars:
    """The sidecars of one graph. A failure of the store is an error here, never an absence."""

    def __init__(self, objects: SmallObjects) -> None:
        self._objects = objects

    def create(self, sidecar: Sidecar) -> bool:
        """Take the branch's lock; False if another operation holds it. A lost answer is read back."""
        try:
            if self._objects.put_if_absent(sidecar.name, sidecar.to_json()):
                return True
        except HeadgateError:
            if not self._is_ours(sidecar):
                raise
            return True
        return self._is_ours(sidecar)

    def is_shown(self, sidecar: Sidecar) -> bool:
        """Whether anything is under the name of a sidecar that could not be created.

        An S3 gateway was seen to keep the metadata of a lost conditional put after the winner's object was deleted:
        the name was taken for good, by nothing.
        """
        return self._objects.get(sidecar.name) is not None

    def _is_ours(self, sidecar: Sidecar) -> bool:
        data = self._objects.get(sidecar.name)
        return data is not None and data == sidecar.to_json()

    def find(self, branch: str | None = None) -> list[FoundSidecar]:
        """The sidecars of a branch, or of all, in the order of their bases."""
        folder = FOLDER if branch is None else f"{FOLDER}/{quote(branch, safe='')}"
        out = []
        for stored in self._objects.list(folder):
            data = self._objects.get(stored.name)
            if data is not None:
                out.append(FoundSidecar(Sidecar.from_json(stored.name, data), stored.modified))
        return out

    def delete(self, sidecar: Sidecar) -> None:
        """Release the lock. What cannot be deleted is left: the next write finds it settled."""
        try:
            self._objects.delete(sidecar.name)
        except HeadgateError as error:
            _log.warning("the sidecar %s was not deleted and is left to the next write: %s", sidecar.name, error)

    def now(self) -> datetime:
        return self._objects.now()
