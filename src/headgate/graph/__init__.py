"""Typed tables published through one manifest: schema, queries, staging, publisher.

`graph.open(uri)` and `graph.init(uri, schema)` give a `Graph`: `snapshot` and `query` read it at a commit, `mutate`,
`load` and `transaction` change it, each as one commit that is visible whole or not at all. `create_branch`, `merge`,
`changes`, `feed` and `rewind` work on its branches and its history, `apply_schema` on its types; `optimize`, `cleanup`,
`verify` and `repair` look after it.
"""

from headgate.graph.branches import Branch
from headgate.graph.changes import Changes, FeedEntry, RowChange
from headgate.graph.graph import Graph, Mutated
from headgate.graph.graph import init_graph as init
from headgate.graph.graph import open_graph as open  # noqa: A004 - read as graph.open
from headgate.graph.merge import Merged, RowConflict
from headgate.graph.read.result import QueryResult
from headgate.graph.read.snapshot import Snapshot
from headgate.graph.store import Patience
from headgate.graph.write.commit import Written
from headgate.graph.write.transaction import Transaction

__all__ = [
    "Branch",
    "Changes",
    "FeedEntry",
    "Graph",
    "Merged",
    "Mutated",
    "Patience",
    "QueryResult",
    "RowChange",
    "RowConflict",
    "Snapshot",
    "Transaction",
    "Written",
    "init",
    "open",
]
