"""All lakes of the settings, each opened when it is first asked for, and where a repository is among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from headgate.errors import InvalidInput, NotFound
from headgate.lake.interface import Lake
from headgate.lake.opening import open_lake
from headgate.settings import Settings, StoreSettings


@dataclass(frozen=True, kw_only=True)
class OpenStore:
    """A store of the settings: its lake and its repository there."""

    store: str
    lake: Lake
    repository: str


class Lakes:
    """Opens each lake once; `close` closes them all."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, Lake] = {}

    def close(self) -> None:
        for lake in self._open.values():
            close = getattr(lake, "close", None)
            if close is not None:
                close()
        self._open.clear()

    def store(self, name: str) -> OpenStore:
        """The store of that name in the settings; `InvalidInput` if it is a graph."""
        found = self._settings.store(name)
        if found.kind != "lake" or found.repository is None:
            raise InvalidInput(
                message=f"the store {name!r} is a graph, and a lake is needed", hint="name a store with lake = …"
            )
        return OpenStore(store=name, lake=self._lake(name, found), repository=found.repository)

    def all(self) -> list[OpenStore]:
        """Every store of the settings that is a lake, in order of name."""
        return [self.store(name) for name in sorted(self._settings.stores) if self._settings.stores[name].lake]

    def of_repository(self, repository: str) -> OpenStore:
        """Where an input block's repository is: the store that has it, or the only lake there is."""
        stores = self.all()
        named = [store for store in stores if store.repository == repository]
        if named and all(store.lake is named[0].lake for store in named):
            return named[0]
        if named:
            several = ", ".join(store.store for store in named)
            raise InvalidInput(
                message=f"the repository {repository!r} is in several stores: {several}",
                hint="give them repositories of different names in headgate.toml",
            )
        if stores and all(store.lake is stores[0].lake for store in stores):
            return OpenStore(store=repository, lake=stores[0].lake, repository=repository)
        raise NotFound(
            message=f"no store of the settings has the repository {repository!r}",
            hint=f'name it in headgate.toml: [stores.{repository}] with lake = "embedded"',
            kind="repository",
            name=repository,
        )

    def _lake(self, name: str, store: StoreSettings) -> Lake:
        # Stores of one folder, or of one server, share the lake: `of_repository` tells them apart by it.
        key = f"embedded:{store.root}" if store.lake == "embedded" else str(store.lake)
        if key not in self._open:
            self._open[key] = cast("Lake", open_lake(self._settings, name)[0])
        return self._open[key]
