"""From the settings to a lake: which one a store lives on, opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.errors import InvalidInput, InvalidSettings
from headgate.lake.embedded import EmbeddedLake

if TYPE_CHECKING:
    from headgate.lake.lakefs import LakeFSLake
    from headgate.settings import Settings


def open_lake(settings: Settings, store: str) -> tuple[EmbeddedLake | LakeFSLake, str]:
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
    return LakeFSLake(endpoint, fence=given.fence)
