"""Phase B for one table: commit its change right above the pin's content, whatever lies above the pin."""

from __future__ import annotations

from headgate.errors import Contention
from headgate.failpoints import Failpoint, failpoint
from headgate.graph.manifest.publisher import TableAt
from headgate.graph.recovery.roll import restore_to
from headgate.graph.storage import CommitRefused, CommitUnknown, ForkHalfMade, TableSnapshot
from headgate.graph.store import GraphStore
from headgate.graph.write.prepared import TableChange

_LANDINGS = 20


def land(store: GraphStore, change: TableChange) -> int:
    """Commit a table's change; the version it became.

    Only the holder of the branch's lock may do this: whatever lies above the pin is residue of writers that were
    never published, and is restored away.
    """
    home = _forked(store, change) if change.new_fork else change.at
    at, staged = home, change.staged
    if staged is None and change.new_fork:
        return home.version
    if staged is None or (change.pin is not None and not change.new_fork):
        restored = restore_to(store, at.path, TableAt(at.version, at.fork))
        if staged is None:
            return restored
        at, staged = store.tables.open(at.path, restored, at.fork), staged.retargeted(restored)
    for _ in range(_LANDINGS):
        wanted = staged.read_version + 1
        try:
            landed = store.tables.commit(at, staged) == wanted
        except CommitRefused:
            landed = False
        except CommitUnknown:
            landed = store.tables.is_made_by(at.path, wanted, at.fork, staged.uuid)
        if landed:
            return wanted
        restored = restore_to(store, home.path, TableAt(home.version, home.fork))
        at = store.tables.open(home.path, restored, home.fork)
        staged = staged.retargeted(restored)
    raise Contention(message=f"table {home.path} kept moving under its branch's lock", tries=_LANDINGS)


def _forked(store: GraphStore, change: TableChange) -> TableSnapshot:
    try:
        made = store.tables.fork(change.at, change.new_fork)
    except ForkHalfMade:
        raise Contention(message=f"table {change.at.path} could not be forked", hint="write again") from None
    failpoint(Failpoint.GRAPH_FORKED)
    return made
