"""The format stamp: which stored shapes this version opens, and how it refuses the others."""

from __future__ import annotations

from headgate.errors import Unsupported
from headgate.graph.manifest.state import ManifestState

CURRENT = 1
OLDEST = 1
"""The oldest format that is still opened."""


def check_format(state: ManifestState) -> None:
    """Refuse a graph that a newer version has written, or one too old to be read."""
    stamp = state.format_stamp
    if stamp > CURRENT:
        raise Unsupported(
            message=f"the graph has format {stamp}, and this version of Headgate knows formats up to {CURRENT}",
            hint="install a newer version of Headgate",
        )
    if stamp < OLDEST:
        raise Unsupported(
            message=f"the graph has format {stamp}, and this version of Headgate opens formats from {OLDEST} on",
            hint="open it once with an older version that can migrate it",
        )
