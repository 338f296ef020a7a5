"""Keeping secrets out of log lines: by the name of a fact, by value, and inside addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "********"

_SECRET_NAME = re.compile(r"secret|passw(or)?d|token|credential|authorization|(api|auth|access)[-_]?key", re.IGNORECASE)
_USER_IN_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s:@]+:[^/\s@]+@", re.IGNORECASE)
# Shorter values would hide half of every line, and protect nothing worth protecting.
_SHORTEST = 4


class Redactor:
    """Hides what must not be read. Safe to use from several threads: it holds no state that changes."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """The text without known secrets and without passwords in addresses."""
        text = self._known.sub(HIDDEN, text) if self._known else text
        return _USER_IN_ADDRESS.sub(rf"\g<scheme>{HIDDEN}@", text) if "://" in text else text

    def value(self, value: Any) -> Any:
        """The value, however deep, with secrets hidden and keys kept. What is no plain data becomes text."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {key: self.fact(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(item) for item in value]
        return self.text(str(value))

    def fact(self, name: str, value: Any) -> Any:
        """A named value: hidden as a whole where the name says that it is a secret."""
        return HIDDEN if value and _SECRET_NAME.search(name) else self.value(value)
