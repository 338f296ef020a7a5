"""What people write for a store: `NAME`, `NAME@BRANCH`, `NAME@REF`."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import InvalidInput

_FORM = "write NAME@BRANCH or NAME@REF, such as songs@main"


@dataclass(frozen=True)
class StoreAddress:
    """A store by its name in the settings, and the branch or ref meant in it.

    Only the store can tell a branch from a ref: `at` is the branch of that name if there is one, else a ref.
    """

    store: str
    at: str | None = None

    @classmethod
    def parse(cls, text: str, *, default_at: str | None = None) -> StoreAddress:
        """Read `NAME[@BRANCH|@REF]`; `default_at` stands in where nothing follows the name."""
        store, separator, at = text.strip().partition("@")
        if not store:
            raise InvalidInput(message=f"{text!r} names no store", hint=_FORM)
        if separator and not at:
            raise InvalidInput(message=f"{text!r} names no branch or ref after the @", hint=_FORM)
        if any(character.isspace() for character in text.strip()) or "@" in at:
            raise InvalidInput(message=f"{text!r} is not the address of a store", hint=_FORM)
        return cls(store, at or default_at)

    def __str__(self) -> str:
        return f"{self.store}@{self.at}" if self.at else self.store
