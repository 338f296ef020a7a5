"""The manifest: the one table readers trust, and the only way a write becomes visible.

`rows` are what it holds, `state` is what they say, `table` keeps them in Lance with one compare-and-swap, `history`
keeps what is no longer needed to publish, `upkeep` bounds the live rows, `format` and `migrate` bring older ones
to the present shape, `publisher` makes a commit the head.
"""

from headgate.graph.manifest.publisher import Publication, Published, publish
from headgate.graph.manifest.rows import Audit, Commit, Head, HeadMark, Pin, SchemaRow, TableRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import Manifest

__all__ = [
    "Audit",
    "Commit",
    "Head",
    "HeadMark",
    "Manifest",
    "ManifestState",
    "Pin",
    "Publication",
    "Published",
    "SchemaRow",
    "TableRow",
    "publish",
]
