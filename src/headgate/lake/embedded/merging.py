"""What a merge makes of three trees: pure decisions over paths."""

from __future__ import annotations

from headgate.errors import MergeConflict
from headgate.lake.interface import LakeObject
from headgate.lake.tree import EMPTY, Built, Nodes, Root, Tree, compare


def merge_trees(nodes: Nodes, *, base: Root, ours: Root, theirs: Root) -> Built:
    """`ours` with what `theirs` changed since `base`. A path changed by both, differently, is a `MergeConflict`."""
    if ours == base:
        return Built(theirs, {})
    if theirs in (base, ours):
        return Built(ours, {})
    mine = {path: new for path, _, new in compare(nodes, base, ours)}
    edits: dict[str, LakeObject | None] = {}
    conflicts = []
    for path, _, new in compare(nodes, base, theirs):
        if path not in mine:
            edits[path] = new
        elif mine[path] != new:
            conflicts.append(path)
    if conflicts:
        raise MergeConflict(
            message=f"both sides changed {len(conflicts)} path{'s' if len(conflicts) > 1 else ''}, in different ways",
            hint="bring the target's version into the source branch, or take the source's by hand, then merge again",
            paths=tuple(conflicts),
        )
    return Tree(nodes, ours).edit(edits)


EMPTY_ROOT = EMPTY.root
