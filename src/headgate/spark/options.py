"""The options of a read or a write, checked: all that is wrong with them is said at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.errors import InvalidInput

READ = ("graph", "type", "branch", "commit", "columns", "pinned")
WRITE = ("graph", "type", "branch", "upsert", "delete", "publishid", "ifcommit", "actor", "message")
_STORAGE = "storage."


@dataclass(frozen=True)
class Options:
    values: Mapping[str, str]
    storage: dict[str, str]
    """What reaches an object store."""

    @classmethod
    def parse(cls, given: Mapping[str, str], known: Sequence[str]) -> Options:
        every = {name.lower(): value for name, value in given.items()}
        storage = {name.removeprefix(_STORAGE): value for name, value in every.items() if name.startswith(_STORAGE)}
        values = {name: value for name, value in every.items() if not name.startswith(_STORAGE)}
        if "path" in values:
            values.setdefault("graph", values.pop("path"))
        wrong = [f"there is no option {name}{_close(name, known)}" for name in values if name not in known]
        wrong += [f"the option {name} is missing" for name in ("graph", "type") if not values.get(name)]
        wrong += [
            f"the option {name} is {values[name]!r}, and takes true or false"
            for name in ("upsert", "delete")
            if values.get(name, "true").lower() not in ("true", "false")
        ]
        if wrong:
            raise InvalidInput(message="; ".join(wrong), hint=f"the options are: {', '.join(known)}")
        return cls(values, storage)

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    def is_set(self, name: str) -> bool:
        return self.get(name).lower() == "true"


def _close(name: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {found[0]}?" if found else ""
