"""From the settings to a lake: which one a store lives on, opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from headgate.errors import InvalidInput, InvalidSettings
from headgate.lake.cache import Cache
from headgate.lake.embedded import EmbeddedLake
from headgate.lake.interface import Lake

if TYPE_CHECKING:
    from headgate.lake.lakefs import LakeFSLake
    from headgate.settings import Settings


class OpenLake(Lake, Protocol):
    """A lake that its opener closes."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_lake(settings: Settings, store: str) -> tuple[OpenLake, str]:
    """The lake of a store, and the store's repository in it. The caller closes the lake."""
    found = settings.store(store)
    if found.lake is None or found.repository is None:
        raise InvalidInput(
            message=f"the store {store!r} is a graph, not a lake",
            hint='name a store with lake = "embedded" or "lakefs"',
        )
    if found.lake == "lakefs":
        return open_lakefs(settings), found.repository
    assert found.root is not None
    return EmbeddedLake(found.root), found.repository


def open_lakefs(settings: Settings) -> LakeFSLake:
    """The lakeFS server the settings name; nothing is asked of it yet."""
    from headgate.lake.lakefs import Endpoint, LakeFSLake

    given = settings.lakefs
    if not given.endpoint or not given.access_key_id or given.secret_access_key is None:
        names = ("endpoint", "access_key_id", "secret_access_key")
        unset = [f"lakefs.{name}" for name in names if not getattr(given, name)]
        raise InvalidSettings(
            message=f"a store is on lakeFS, and {', '.join(unset)} is not set",
            hint="set it in headgate.toml or as HEADGATE_LAKEFS_…, or set up lakectl (LAKECTL_…, ~/.lakectl.yaml)",
        )
    endpoint = Endpoint(
        url=given.endpoint,
        access_key_id=given.access_key_id,
        secret_access_key=given.secret_access_key.get_secret_value(),
    )
    return LakeFSLake(endpoint, fence=given.fence, cache=open_cache(settings))


def open_cache(settings: Settings) -> Cache | None:
    """What this machine has downloaded before; None where the settings want none."""
    cap = int(settings.lakefs.cache_gb * 1_000_000_000)
    return Cache(settings.state / "cache", cap=cap) if cap else None
