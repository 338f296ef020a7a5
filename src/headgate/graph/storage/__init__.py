"""Where a graph's bytes are: tables that only change by staged transactions, and small objects created once.

`location` reads the address, `objects` keeps sidecars, `tables` stages and commits, `changes` is what is staged,
`columns`, `indices` and `compact` stage what is not rows, `removal` takes away what nothing needs, `forks` gives a
table a history of its own for a branch, `lookup` finds rows by id, `lance_errors` reads messages. No other folder
imports Lance to write.
"""

from headgate.graph.storage.changes import Part, Staged
from headgate.graph.storage.forks import ForkHalfMade
from headgate.graph.storage.location import Location
from headgate.graph.storage.objects import SmallObjects, StoredObject, open_objects
from headgate.graph.storage.snapshots import TableSnapshot
from headgate.graph.storage.tables import CommitRefused, CommitUnknown, TableStore

__all__ = [
    "CommitRefused",
    "CommitUnknown",
    "ForkHalfMade",
    "Location",
    "Part",
    "SmallObjects",
    "Staged",
    "StoredObject",
    "TableSnapshot",
    "TableStore",
    "open_objects",
]
