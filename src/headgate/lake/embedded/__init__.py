"""The embedded lake: one folder, no server.

`lake` is the lake itself; `records` are its tables; `merging` decides merges; `upkeep` holds gc and verify. Trees and
blobs, which it is made of, are in `headgate.lake`.
"""

from headgate.lake.embedded.lake import EmbeddedLake
from headgate.lake.embedded.upkeep import Damage, Reclaimed, VerifyReport

__all__ = ["Damage", "EmbeddedLake", "Reclaimed", "VerifyReport"]
